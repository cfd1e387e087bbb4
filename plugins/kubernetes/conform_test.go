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
	shared := kubetest.Start(t)
	worlds := 0
	intenttest.Conform(t, func(t *testing.T) intenttest.World {
		s := shared
		if strings.HasSuffix(t.Name(), "replaced-origin") {
			s = kubetest.Start(t)
		}
		node, pod := fmt.Sprintf("n%d", worlds), fmt.Sprintf("web-%d", worlds)
		worlds++
		admin, proxy := s.Client(kubetest.Admin), etcdtest.StartProxy(t, s.Addr())
		values := map[string]json.RawMessage{}
		create := func() {
			text, err := json.Marshal(values)
			if err != nil {
				t.Fatal(err)
			}
			admin.Create(kubetest.Pod{Namespace: "default", Name: pod, Node: node, Annotations: map[string]string{kubernetes.IntentAnnotation: string(text)}})
		}
		create()
		write := func() {
			text, err := json.Marshal(values)
			if err != nil {
				t.Fatal(err)
			}
			admin.Annotate("default", pod, kubernetes.IntentAnnotation, string(text))
		}
		return intenttest.World{
			New: func(to intenttest.Submitter) (intent.Source, error) {
				return kubernetes.New(local{to, "pod.default." + pod + "."}, kubernetes.Options{
					Kubeconfig: s.Kubeconfig(kubetest.Node(node), strings.TrimPrefix(proxy.URL(), "http://")),
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
