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

// annotatedAdd bounds the median from the request that annotates a pod until the ADD of its sandbox is answered, in
// milliseconds.
const annotatedAdd = 20

// BenchmarkPods attaches pods of a real API server in 20 waves of one and of ten pods: the ADDs of a wave wait, then
// one pod after the other is annotated. The floor is the same request until an informer of client-go has seen it. All
// of it shares the processors of this machine: the API server, its etcd, the agent and the informer.
func BenchmarkPods(b *testing.B) {
	server := kubetest.Start(b)
	b.Setenv("PLUMB_KUBECONFIG", server.Kubeconfig(kubetest.Node("n0"), ""))
	b.Setenv("PLUMB_KUBERNETES_NODE", "n0")
	p := &pods{host: newHost(b), b: b, api: server.Client(kubetest.Admin)}
	p.seen = p.api.Changes("n0")
	for _, size := range []int{1, 10} {
		var took, seen []time.Duration
		for range 20 {
			adds, informer := p.wave(size)
			took, seen = append(took, adds...), append(seen, informer...)
		}
		b.Logf("waves of %d: annotation to ADD: median %.1f ms, p99 %.1f ms; to the informer: median %.1f ms", size, ms(median(took)), ms(quantile(took, 99)), ms(median(seen)))
		verdict(b, fmt.Sprintf("annotation to answered ADD, waves of %d, median", size), ms(median(took)), annotatedAdd, "ms")
	}
}

// pods is a host that attaches pods.
type pods struct {
	*host
	b     *testing.B
	api   *kubetest.Client
	seen  func(name, intent string) time.Time
	count int
}

// wave attaches some pods, and returns how long it took from each annotation to the answer of the ADD, and to the
// informer.
func (p *pods) wave(size int) (took, seen []time.Duration) {
	var adds sync.WaitGroup
	names, ends := make([]string, size), make([]time.Time, size)
	for i := range size {
		p.count++
		names[i] = fmt.Sprintf("pod-%d", p.count)
		uid := p.api.Create(kubetest.Pod{Namespace: "default", Name: names[i], Node: "n0"})
		box := netlinktest.New(p.b)
		adds.Go(func() {
			p.addPod(p.b, names[i], uid, box)
			ends[i] = time.Now()
		})
	}
	time.Sleep(200 * time.Millisecond) // until all wait
	begins := make([]time.Time, size)
	for i, name := range names {
		intent := fmt.Sprintf(`{"interface/far":{"veth":{"peer":"eth0"}},"interface/eth0":{"veth":{"peer":"far"},"addresses":["10.9.0.%d/16"]}}`, i+1)
		begins[i] = time.Now()
		p.api.Annotate("default", name, kubernetes.IntentAnnotation, intent)
		seen = append(seen, p.seen(name, intent).Sub(begins[i]))
	}
	adds.Wait()
	for i := range size {
		took = append(took, ends[i].Sub(begins[i]))
	}
	return took, seen
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
