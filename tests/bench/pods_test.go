package bench

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/plugins/cni/wire"
	"github.com/plumb-net/plumb/plugins/kubernetes"
	"github.com/plumb-net/plumb/plugins/kubernetes/kubetest"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

const (
	// wave is how many ADDs wait at a time.
	wave = 10
	// annotatedAdd bounds the median from the request that annotates a pod until the ADD of its sandbox is
	// answered, in milliseconds.
	annotatedAdd = 20
)

// BenchmarkPods attaches 200 pods of a real API server in waves: the ADDs wait, then one pod after the other is
// annotated. The floor is the same request until an informer of client-go has seen it.
func BenchmarkPods(b *testing.B) {
	server := kubetest.Start(b)
	b.Setenv("PLUMB_KUBECONFIG", server.Kubeconfig(kubetest.Node("n0"), ""))
	b.Setenv("PLUMB_KUBERNETES_NODE", "n0")
	h, api := newHost(b), server.Client(kubetest.Admin)
	known := api.Changes("n0")
	var took, seen []time.Duration
	for first := 0; first < 200; first += wave {
		var adds sync.WaitGroup
		var mu sync.Mutex
		begun := make([]time.Time, wave)
		for i := range wave {
			name := fmt.Sprintf("pod-%d", first+i)
			uid := api.Create(kubetest.Pod{Namespace: "default", Name: name, Node: "n0"})
			box := netlinktest.New(b)
			adds.Go(func() {
				h.addPod(b, name, uid, box)
				end := time.Now()
				mu.Lock()
				defer mu.Unlock()
				took = append(took, end.Sub(begun[i]))
			})
		}
		time.Sleep(200 * time.Millisecond) // until all wait
		for i := range wave {
			name := fmt.Sprintf("pod-%d", first+i)
			intent := fmt.Sprintf(`{"interface/eth0":{"bridge":{},"addresses":["10.9.%d.%d/16"]}}`, first/wave, i+1)
			mu.Lock()
			begun[i] = time.Now()
			mu.Unlock()
			begin := time.Now()
			api.Annotate("default", name, kubernetes.IntentAnnotation, intent)
			seen = append(seen, known(name, intent).Sub(begin))
		}
		adds.Wait()
	}
	b.Logf("annotation to ADD: median %.1f ms, p99 %.1f ms; informer: median %.1f ms", ms(median(took)), ms(quantile(took, 99)), ms(median(seen)))
	verdict(b, "annotation to answered ADD, median", ms(median(took)), annotatedAdd, "ms")
}

// addPod attaches the sandbox of a pod to a network of mode intent.
func (h *host) addPod(b *testing.B, name, uid string, box *netlinktest.Namespace) {
	err := h.call(wire.Request{Inode: box.Inode,
		Config: json.RawMessage(`{"cniVersion":"1.0.0","name":"green","type":"plumb-cni","mode":"intent"}`),
		Args: spec.Args{Command: "ADD", ContainerID: name, IfName: "eth0", Netns: box.Path,
			Args: "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=" + name + ";K8S_POD_UID=" + uid}})
	if err != nil {
		b.Errorf("ADD %s: %v", name, err)
	}
}
