package kubernetes

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/intent"
	"github.com/plumb-net/plumb/scheduler"
)

// TestValues shows the values that pods want by their annotations.
func TestValues(t *testing.T) {
	datadriven.RunTest(t, "testdata/values", func(t *testing.T, d *datadriven.TestData) string {
		p := &Pod{Namespace: "shop", Name: "web", RuntimeUID: "7c2d", Intent: d.Input}
		for _, arg := range d.CmdArgs {
			switch arg.Key {
			case "pod":
				p.Namespace, p.Name, _ = strings.Cut(arg.Vals[0], "/")
			case "host_network":
				p.HostNetwork = true
			default:
				d.Fatalf(t, "unknown argument %s", arg.Key)
			}
		}
		values, err := valuesOf(p, models.Decode)
		return show(values, err)
	})
}

// Names of namespaces and of pods at the API server (RFC 1123).
var (
	dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	dnsName  = regexp.MustCompile(`^[a-z0-9][-.a-z0-9]{0,252}$`)
)

func show(values intent.Values, err error) string {
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	var b strings.Builder
	for _, c := range intent.Changes(nil, values) {
		if c.Invalid != nil {
			fmt.Fprintf(&b, "%s invalid: %v\n", c.Key, c.Invalid)
		} else {
			fmt.Fprintf(&b, "%s %s\n", c.Key, models.Encode(c.Value.(proto.Message)))
		}
	}
	return b.String()
}

// FuzzValuesStayInThePod checks that no annotation makes a value outside of the pod: each is in the namespace of
// the pod, or where an interface or a nexthop of the pod is, and has a key of the pod.
func FuzzValuesStayInThePod(f *testing.F) {
	for _, text := range []string{
		`{"interface/a":{"macvlan":{"parent":"b"},"addresses":["10.0.0.1/24"]}}`,
		`{"interface/a":{"existing":{}}}`,
		`{"route/r":{"destination":"default","type":"blackhole"}}`,
		`{"route/r":{"destination":"10.0.0.0/8","nexthop":"n"},"nexthop/n":{"id":1,"interface":"a"}}`,
		`{"nexthop/n":{"id":1,"blackhole":true,"family":"ipv4"}}`,
		`{"rule/r":{"table":7,"family":"ipv4","priority":1,"iif":"lo"}}`,
		`{"sysctl/s":{"key":"net.ipv4.conf.IFNAME.rp_filter","interface":"a","value":"1"}}`,
		`{"nftables/n":{"chains":[{"name":"c","type":"filter","hook":"input","rules":["drop"]}]}}`,
		`{"mirror/m":{"interface":"a","to":"b"}}`,
		"interface/a:\n  dummy: {}\n  namespace: {netns: x}\n",
	} {
		f.Add(text, "shop", "web")
	}
	f.Fuzz(func(t *testing.T, text, namespace, name string) {
		if !dnsLabel.MatchString(namespace) || !dnsName.MatchString(name) {
			t.Skip("the API server has no such names")
		}
		p := &Pod{Namespace: namespace, Name: name, RuntimeUID: "1", Intent: text}
		values, err := valuesOf(p, models.Decode)
		if err != nil {
			return
		}
		for _, c := range intent.Changes(nil, values) {
			kind, key, _ := strings.Cut(string(c.Key), "/")
			if !strings.HasPrefix(key, "pod.") || strings.Contains(key[strings.LastIndexByte(key, '.'):], "/") {
				t.Errorf("the key %s is none of the pod", c.Key)
			}
			if c.Invalid != nil {
				continue
			}
			if err := inPod(p, kind, c.Value.(proto.Message)); err != nil {
				t.Errorf("%s: %v: %s", c.Key, err, models.Encode(c.Value.(proto.Message)))
			}
		}
	})
}

// inPod checks that a value is in the namespace of a pod, and names values of the pod only.
func inPod(p *Pod, kind string, msg proto.Message) error {
	names := map[string]bool{}
	models.RenameReferences(proto.Clone(msg), func(kind, name string) string { names[name] = true; return name })
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if p.keyName(name[strings.LastIndexByte(name, '.')+1:]) != name {
			return fmt.Errorf("names %s", name)
		}
	}
	fields := msg.ProtoReflect().Descriptor().Fields()
	at := fields.ByName("namespace")
	if at != nil && msg.ProtoReflect().Has(at) {
		in := msg.ProtoReflect().Get(at).Message().Interface().(*models.Namespace)
		if in.GetPod() != p.Path()+"/"+p.RuntimeUID {
			return fmt.Errorf("is in %s", in.Text())
		}
		return nil
	}
	if len(names) == 0 {
		return errors.New("is in no namespace and names nothing")
	}
	return nil
}

// TestKeysOfPodsDiffer: pods whose names are made to collide have keys of their own.
func TestKeysOfPodsDiffer(t *testing.T) {
	long := strings.Repeat("x", 200)
	seen := map[scheduler.Key]string{}
	for _, path := range []string{"a/b", "a/b.c", "a/b.c.d", "a.b/c", "a/" + long, "b/" + long, "a/" + long + "y"} {
		p := &Pod{RuntimeUID: "1", Intent: `{"interface/d":{"dummy":{}},"interface/c":{"dummy":{}},"interface/e":{"dummy":{}}}`}
		p.Namespace, p.Name, _ = strings.Cut(path, "/")
		if strings.Contains(p.Namespace, ".") {
			continue // namespaces of Kubernetes have no dots (RFC 1123 labels)
		}
		values, err := valuesOf(p, models.Decode)
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range values {
			if v.Err() != nil {
				t.Errorf("%s: %v", k, v.Err())
			}
			if other := seen[k]; other != "" {
				t.Errorf("%s is a key of %s and of %s", k, other, path)
			}
			seen[k] = path
		}
	}
}
