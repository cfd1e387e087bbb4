package kubernetes_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
	"github.com/plumb-net/plumb/plugins/kubernetes"
	"github.com/plumb-net/plumb/plugins/kubernetes/kubetest"
	"github.com/plumb-net/plumb/scheduler"
)

var (
	operations = flag.Int("operations", 600, "how many operations TestSameAsInformer plays")
	seed       = flag.Uint64("seed", 0, "seed of TestSameAsInformer; 0: another each time")
)

// TestSameAsInformer plays random operations on pods and faults of the connection. At each rest the source holds
// the same pods as an informer of client-go that has a connection without faults.
func TestSameAsInformer(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("-seed %d", *seed)
	random := rand.New(rand.NewPCG(*seed, 0))
	s := kubetest.Start(t)
	api, proxy := s.Client(kubetest.Admin), etcdtest.StartProxy(t, s.Addr())
	informer := api.Follow("n0")
	source := kubernetes.New(discard{}, kubernetes.Options{
		Kubeconfig: s.Kubeconfig(kubetest.Node("n0"), strings.TrimPrefix(proxy.URL(), "http://")),
		Node:       "n0", Decode: models.Decode, Attached: func(string) bool { return false },
		Silence: 5 * time.Second, // a connection that is frozen is noticed by that
	})
	run(t, source)

	names := make([]string, 12)
	for i := range names {
		names[i] = fmt.Sprintf("pod-%d", i)
	}
	there := map[string]bool{}
	for n := range *operations {
		name := names[random.IntN(len(names))]
		switch k := random.IntN(100); {
		case k < 4:
			proxy.Break()
		case k < 6:
			proxy.Cut()
		case k < 8:
			proxy.Freeze()
		case k < 16:
			proxy.Mend()
			proxy.Thaw()
		case !there[name]:
			node := "n0"
			if random.IntN(5) == 0 {
				node = "n1" // which nobody may see
			}
			api.Create(kubetest.Pod{Namespace: "default", Name: name, Node: node, Annotations: map[string]string{kubernetes.IntentAnnotation: fmt.Sprint(n)}})
			there[name] = true
		case k < 50:
			api.Remove("default", name)
			there[name] = false
		default:
			api.Annotate("default", name, kubernetes.IntentAnnotation, fmt.Sprint(n))
		}
		if n%150 == 149 {
			proxy.Mend()
			proxy.Thaw()
			same(t, source, informer)
		}
	}
}

// same waits until the source and the informer hold the same pods.
func same(t *testing.T, source *kubernetes.Source, informer func() []string) {
	t.Helper()
	var is, want string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		is, want = strings.Join(source.Known(), "\n"), strings.Join(informer(), "\n")
		if is == want {
			return
		}
	}
	t.Fatalf("the source holds\n%s\nthe informer\n%s", is, want)
}

// discard takes transactions and does nothing.
type discard struct{}

func (discard) Submit(scheduler.Txn) *scheduler.Handle { return nil }

// run runs a source until the test ends.
func run(t *testing.T, source *kubernetes.Source) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- source.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
