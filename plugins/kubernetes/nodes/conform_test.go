package nodes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
	"github.com/plumb-net/plumb/plugins/intent"
	"github.com/plumb-net/plumb/plugins/intent/intenttest"
	"github.com/plumb-net/plumb/plugins/kubernetes/kubetest"
	"github.com/plumb-net/plumb/plugins/kubernetes/nodes"
	"github.com/plumb-net/plumb/scheduler"
)

// TestConform holds the source to the contract of sources of intent. The origin of each law is one NodeIntent, for a node
// of its own. All laws share an API server, except the one that replaces it.
func TestConform(t *testing.T) {
	start := func(t *testing.T) *kubetest.Server {
		s := kubetest.Start(t)
		s.Client(kubetest.Admin).ServeNodeIntents()
		return s
	}
	shared := start(t)
	worlds := 0
	intenttest.Conform(t, func(t *testing.T) intenttest.World {
		s := shared
		if strings.HasSuffix(t.Name(), "replaced-origin") {
			s = start(t)
		}
		node := fmt.Sprintf("n%d", worlds)
		worlds++
		admin, proxy := s.Client(kubetest.Admin), etcdtest.StartProxy(t, s.Addr())
		values := map[string]json.RawMessage{}
		write := func() {
			text, err := json.Marshal(values)
			if err != nil {
				t.Fatal(err)
			}
			admin.WantOnNodes("of-"+node, fmt.Sprintf("{nodeSelector: {matchLabels: {name: %s}}, intent: %s}", node, text))
		}
		create := func() {
			admin.CreateNode(node, "name="+node)
			write()
		}
		create()
		sched := scheduler.New(scheduler.Options{}) // without kinds: all that is submitted is ready
		ctx, stop := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { _ = sched.Run(ctx) })
		t.Cleanup(func() { stop(); running.Wait() })
		return intenttest.World{
			New: func(to intenttest.Submitter) (intent.Source, error) {
				return nodes.New(to, nodes.Options{
					Kubeconfig: s.Kubeconfig(kubetest.Admin, strings.TrimPrefix(proxy.URL(), "http://")),
					Silence:    20 * time.Second, // less than the law waits
					Node:       node, Decode: models.Decode, Engine: sched}), nil
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
				admin.ServeNodeIntents()
				create()
			},
			Accept: func(source intent.Source) error { source.(*nodes.Source).Accept(); return nil },
		}
	})
}
