package attributes

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/plumb-net/plumb/models"
)

// elsewhere are fields that no row can play on every kernel, and the file and the text there
// by which another test plays them.
var elsewhere = map[string][2]string{
	"namespace.microservice": {"tests/e2e/testdata/stories/kinds", `"microservice":"web"`},
	"namespace.container":    {"tests/e2e/testdata/stories/kinds", `"container":"@side"`},
	"namespace.pid":          {"tests/e2e/testdata/stories/places", `"pid"`},
	"namespace.pod":          {"descriptors/namespace/pods_test.go", "TestPods"},
	"namespace.path":         {"tests/e2e/testdata/stories/places", `"path"`},
	"namespace.inode":        {"descriptors/selector/selector_test.go", "Inode"},

	// Ends of proxies are in places as interfaces are; what is not on the wire is in its process.
	"proxy.forward.namespace.netns": {"descriptors/proxy/kernel_test.go", `"forward":{"namespace"`},
	"proxy.max_sessions":            {"plugins/proxy", "MaxSessions"},
	"proxy.idle_timeout":            {"plugins/proxy", "TestIdle"},

	// What needs a firewall of iptables, or a device with rings, or that offloads.
	"forward.interface":           {"descriptors/forward/kernel_test.go", "TestDockerLetsPass"},
	"interface.bridge.forward":    {"descriptors/forward/kernel_test.go", "TestDockerLetsPass"},
	"interface.rings.rx":          {"descriptors/iface/offloads_test.go", "TestRings"},
	"interface.rings.tx":          {"descriptors/iface/offloads_test.go", "TestRings"},
	"nftables.flowtables.offload": {"descriptors/nftables/testdata/pure/nftables", "flowtables"},
	"interface.set_once":          {"descriptors/iface/testdata/pure/compare", "set_once"},
	"interface.link_only":         {"descriptors/address/kernel_test.go", "TestLinkOnlyLeavesAddressesToOthers"},
	"route.adopt":                 {"tests/e2e/adopt_test.go", "route add default"},
	"rule.adopt":                  {"tests/e2e/adopt_test.go", "rule add from"},
	"neighbor.adopt":              {"tests/e2e/adopt_test.go", "neigh add"},
	"qdisc.adopt":                 {"tests/e2e/adopt_test.go", "qdisc add"},

	// The detection of duplicates is when an address is added, so no change of it shows.
	"interface.duplicate_detection": {"tests/e2e/testdata/stories/duplicates", `"duplicate_detection":"none"`},
	"address.duplicate_detection":   {"tests/e2e/testdata/stories/duplicates", `"duplicate_detection":"none"`},

	// These have no value of their own: the rows of that name play what is within.
	"interface.existing": {"tests/attributes/testdata/attributes/interface", `"existing":{}`},
	"interface.loopback": {"tests/attributes/testdata/attributes/interface", `"loopback":{}`},
}

// TestEveryFieldIsPlayed: each field of what operators write is in a row, with two values
// that differ, or with one and none if it is a switch. So a new field fails here until
// it is played.
func TestEveryFieldIsPlayed(t *testing.T) {
	played := map[string]bool{}
	var faults []string
	datadriven.Walk(t, rows, func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			r := rowOf(t, d)
			values := [3]map[string]string{}
			for i, set := range []map[string]any{r.sets[0], r.sets[1], nil} {
				msg, err := models.DecodeKind(r.kind(), []byte(r.with(set)))
				if err != nil {
					d.Fatalf(t, "%s: %v", r.name, err)
				}
				values[i] = map[string]string{}
				note(msg.ProtoReflect(), "", values[i])
			}
			for _, f := range r.fields {
				one, two, none := values[0][f], values[1][f], values[2][f]
				// A switch is on at first, and there is none of it later.
				on := one == "[true]"
				if one == "" || on && two == one && none == one || !on && (two == "" || two == one) {
					faults = append(faults, fmt.Sprintf("%s: %s is %q, then %q, then %q: it needs two values", r.name, f, one, two, none))
				}
				played[r.kind()+"."+f] = true
			}
			return d.Expected
		})
	})
	for _, f := range faults {
		t.Error(f)
	}
	known := map[string]bool{}
	for _, k := range models.Kinds() {
		if !k.Writable {
			continue
		}
		for _, f := range fieldsOf(k.New().ProtoReflect().Descriptor(), "") {
			name := k.Name + "." + f
			known[name] = true
			_, other := elsewhere[name]
			if at := strings.LastIndex(name, "namespace."); !other && at > 0 {
				_, other = elsewhere[name[at:]]
			}
			if !played[name] && !other {
				t.Errorf("%s is in no row of %s", name, rows)
			}
			if _, named := elsewhere[name]; named && played[name] {
				t.Errorf("%s is in a row, and said to be elsewhere", name)
			}
		}
	}
	for f := range played {
		if !known[f] {
			t.Errorf("there is no field %s", f)
		}
	}
}

// TestElsewhere: what is said to be played elsewhere is there.
func TestElsewhere(t *testing.T) {
	for f, at := range elsewhere {
		var text strings.Builder
		err := filepath.WalkDir(filepath.Join("..", "..", at[0]), func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				data, err := os.ReadFile(path)
				text.Write(data)
				return err
			}
			return err
		})
		if err != nil || !strings.Contains(text.String(), at[1]) {
			t.Errorf("%s: %s has no %q (%v)", f, at[0], at[1], err)
		}
	}
}

// note writes down the values of all fields, of lists of messages those of every member.
func note(m protoreflect.Message, at string, values map[string]string) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		name := strings.TrimPrefix(at+"."+string(fd.Name()), ".")
		switch {
		case !m.Has(fd):
		case fd.IsList() && fd.Message() != nil:
			for j := range m.Get(fd).List().Len() {
				note(m.Get(fd).List().Get(j).Message(), name, values)
			}
		case fd.Message() != nil && !fd.IsMap() && fd.Message().Fields().Len() > 0:
			note(m.Get(fd).Message(), name, values)
		case fd.Message() != nil && !fd.IsMap():
			values[name] = "[true]"
		default:
			values[name] += fmt.Sprintf("[%v]", m.Get(fd))
		}
	}
}

// fieldsOf are the fields of a message and of those within; of one without fields itself.
func fieldsOf(md protoreflect.MessageDescriptor, at string) (names []string) {
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		name := strings.TrimPrefix(at+"."+string(fd.Name()), ".")
		if fd.Message() != nil && !fd.IsMap() && fd.Message().Fields().Len() > 0 {
			names = append(names, fieldsOf(fd.Message(), name)...)
		} else {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
