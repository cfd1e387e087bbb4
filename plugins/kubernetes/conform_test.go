package kubernetes_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
	"github.com/plumb-net/plumb/plugins/intent"
	"github.com/plumb-net/plumb/plugins/intent/intenttest"
	"github.com/plumb-net/plumb/plugins/kubernetes"
	"github.com/plumb-net/plumb/plugins/kubernetes/kubetest"
	"github.com/plumb-net/plumb/scheduler"
)

// TestConform holds the source to the contract of sources of intent. The origin of each law is the annotation
// of one pod. All laws share an API server, except the one that replaces it.
func TestConform(t *testing.T) {
	conform(t, kubetest.Node, func(*kubetest.Client) {}, func(api *kubetest.Client, _, pod, values string) {
		api.Annotate("default", pod, kubernetes.IntentAnnotation, values)
	})
}

// TestConformPodIntent does the same for the PodIntent of a pod.
func TestConformPodIntent(t *testing.T) {
	admin := func(string) string { return kubetest.Admin } // nodes may not read PodIntents
	conform(t, admin, (*kubetest.Client).ServePodIntents, func(api *kubetest.Client, node, pod, values string) {
		api.Want(kubetest.PodIntent{Namespace: "default", Name: "of-" + pod, Node: node, Pod: pod, Intent: values})
	})
}

// conform plays the laws. user is the identity of the agent of a node, prepare prepares an API server, and write sets the
// values of a pod.
func conform(t *testing.T, user func(node string) string, prepare func(*kubetest.Client), write func(api *kubetest.Client, node, pod, values string)) {
	start := func(t *testing.T) *kubetest.Server {
		s := kubetest.Start(t)
		prepare(s.Client(kubetest.Admin))
		return s
	}
	shared := start(t)
	worlds := 0
	intenttest.Conform(t, func(t *testing.T) intenttest.World {
		s := shared
		if strings.HasSuffix(t.Name(), "replaced-origin") {
			s = start(t)
		}
		node, pod := fmt.Sprintf("n%d", worlds), fmt.Sprintf("web-%d", worlds)
		worlds++
		admin, proxy := s.Client(kubetest.Admin), etcdtest.StartProxy(t, s.Addr())
		values := map[string]json.RawMessage{}
		write := func() {
			text, err := json.Marshal(values)
			if err != nil {
				t.Fatal(err)
			}
			write(admin, node, pod, string(text))
		}
		create := func() {
			admin.Create(kubetest.Pod{Namespace: "default", Name: pod, Node: node})
			write()
		}
		create()
		return intenttest.World{
			New: func(to intenttest.Submitter) (intent.Source, error) {
				return kubernetes.New(local{to, "pod.default." + pod + "."}, kubernetes.Options{
					Kubeconfig: s.Kubeconfig(user(node), strings.TrimPrefix(proxy.URL(), "http://")),
					Silence:    20 * time.Second, // less than the law waits
					Node:       node, Decode: models.Decode, Attached: func(string) bool { return true }}), nil
			},
			Put:    func(key, value string) { values[key] = json.RawMessage(value); write() },
			Delete: func(key string) { delete(values, key); write() },
			Away:   proxy.Cut,
			Back:   proxy.Mend,
			Replace: func() {
				s.Stop()
				s.Etcd.Wipe()
				s.Start()
				clear(values)
				prepare(admin)
				create()
			},
			Accept: func(source intent.Source) error { source.(*kubernetes.Source).Accept(); return nil },
		}
	})
}

// local gives the values of a pod the names that they have in its annotation.
type local struct {
	intenttest.Submitter
	prefix string
}

func (l local) Submit(txn scheduler.Txn) *scheduler.Handle {
	want := make([]scheduler.Change, len(txn.Want))
	for i, c := range txn.Want {
		c.Key = scheduler.Key(strings.Replace(string(c.Key), l.prefix, "", 1))
		if v, ok := c.Value.(*models.Interface); ok {
			v = proto.CloneOf(v)
			v.Namespace, v.HostName = nil, ""
			c.Value = v
		}
		want[i] = c
	}
	txn.Want = want
	return l.Submitter.Submit(txn)
}
