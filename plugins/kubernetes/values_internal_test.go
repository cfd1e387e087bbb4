package kubernetes

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/intent"
	"github.com/plumb-net/plumb/scheduler"
)

// TestValues shows the values that pods want by their annotations and by PodIntents. A command is:
//
//	values [pod=NAMESPACE/NAME] [host_network]   the input is the annotation
//	podintent NAME [age=N] [uid=U]               the input is the map of a PodIntent for the next pod; one of the
//	                                             age 2 is older than one of the age 1, and uid is the UID of the pod
func TestValues(t *testing.T) {
	datadriven.Walk(t, "testdata/values", func(t *testing.T, path string) {
		var list []*PodIntent
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "podintent" {
				i := &PodIntent{Namespace: "shop", Name: d.CmdArgs[0].Key, PodName: "web"}
				i.UID = types.UID(i.Name)
				age := 0
				d.MaybeScanArgs(t, "age", &age)
				i.Created = time.Unix(int64(-age), 0)
				d.MaybeScanArgs(t, "uid", (*string)(&i.PodUID))
				data, err := yaml.ToJSON([]byte(d.Input))
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				i.Intent = string(data)
				list = append(list, i)
				return ""
			}
			p := &Pod{Namespace: "shop", Name: "web", UID: "7c2d", RuntimeUID: "7c2d", Intent: d.Input}
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
			w := wantsOf(p, list, &wants{}, models.Decode)
			list = nil
			text := show(w.values, w.wrong)
			for _, one := range w.parts {
				switch {
				case one.wrong != nil:
					text += fmt.Sprintf("PodIntent %s: error: %v\n", one.intent.Name, one.wrong)
				case one.waits != "":
					text += fmt.Sprintf("PodIntent %s: waits: %s\n", one.intent.Name, one.waits)
				case one.refused != "":
					text += fmt.Sprintf("PodIntent %s: refused: %s\n", one.intent.Name, one.refused)
				}
			}
			return text
		})
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

// FuzzValuesStayInThePod checks that no annotation and no PodIntent makes a value outside of the pod: each is in the
// namespace of the pod, or where an interface or a nexthop of the pod is, and has a key of the pod.
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
		changes := intent.Changes(nil, wantsOf(p, nil, &wants{}, models.Decode).values)
		p.Intent = ""
		i := &PodIntent{Namespace: namespace, Name: "i", PodName: name, Intent: text}
		changes = append(changes, intent.Changes(nil, wantsOf(p, []*PodIntent{i}, &wants{}, models.Decode).values)...)
		for _, c := range changes {
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
