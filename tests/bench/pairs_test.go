package bench

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	vish "github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// BenchmarkPairs makes veth pairs and takes them away: one end in the host's
// namespace in a bridge, the other in another namespace with an address, both
// up and marked.
//
//	create    from the return of the etcd transaction to the last key that the
//	          agent tells to be configured; the floor makes the same in place
//	withdraw  from before the etcd deletion to the last link that the kernel
//	          tells to be gone; the floor is one deletion of a group
//
// One op is one round of all, by the agent and by the plain program.
func BenchmarkPairs(b *testing.B) {
	for _, n := range []int{100, 500} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { pairs(b, n) })
	}
}

func pairs(b *testing.B, n int) {
	h := newHost(b)
	end := h.follow("interface/br0", 1, "configured")
	h.write(put("interface/br0", `{"bridge":{}}`))
	end()
	f := newFloor(b)
	var made, gone, floorMade, floorGone []time.Duration
	for range b.N {
		m, g := h.pairs(n)
		made, gone = append(made, m), append(gone, g)
		m, g = f.pairs(n)
		floorMade, floorGone = append(floorMade, m), append(floorGone, g)
	}
	b.ReportMetric(ms(median(made)), "create-ms")
	b.ReportMetric(ms(median(floorMade)), "floor-create-ms")
	b.ReportMetric(ms(median(gone)), "withdraw-ms")
	b.ReportMetric(ms(median(floorGone)), "floor-withdraw-ms")
	b.ReportMetric(0, "ns/op")
	verdict(b, fmt.Sprintf("%d veth pairs, etcd put to configured", n), ratio(made, floorMade), 1.3, "× floor")
	verdict(b, fmt.Sprintf("%d veth pairs, deletion to the last link gone", n), ratio(gone, floorGone), 1.5, "× floor")
}

func addressOf(i int) [4]byte { return [4]byte{10, byte(i >> 8), byte(i), 1} }

// pairs writes the intent for n pairs, waits, checks, and takes it away.
func (h *host) pairs(n int) (made, gone time.Duration) {
	h.b.Helper()
	var ops []clientv3.Op
	for i := range n {
		a := addressOf(i)
		ops = append(ops,
			put(fmt.Sprintf("interface/v%d", i), fmt.Sprintf(`{"veth":{"peer":"p%d"},"master":"br0"}`, i)),
			put(fmt.Sprintf("interface/p%d", i), fmt.Sprintf(
				`{"veth":{"peer":"v%d"},"namespace":{"netns":"peers"},"addresses":["%d.%d.%d.%d/24"]}`, i, a[0], a[1], a[2], a[3])))
	}
	last := h.follow("interface/", 2*n, "configured")
	_, put := h.write(ops...)
	made = last().Sub(put)
	h.check(n)

	away := deletions(h.b, h.Namespace)
	begin, _ := h.write(clientv3.OpDelete(config("interface/v"), clientv3.WithPrefix()), clientv3.OpDelete(config("interface/p"), clientv3.WithPrefix()))
	gone = away(n).Sub(begin)
	netlinktest.Eventually(h.b, "nothing is left", func() bool {
		return len(h.peers.Names(h.b)) == 0 && len(h.Names(h.b)) == 1
	})
	return made, gone
}

// check reads what was made with ip(8).
func (h *host) check(n int) {
	h.b.Helper()
	count := func(ns *netlinktest.Namespace, args string, good func(map[string]any) bool) (c int) {
		for _, l := range ns.JSON(h.b, args) {
			if good(l) {
				c++
			}
		}
		return c
	}
	up := func(l map[string]any) bool { return slices.Contains(l["flags"].([]any), any("UP")) }
	members := count(h.Namespace, "link show", func(l map[string]any) bool {
		return l["master"] == "br0" && up(l) && l["ifalias"] == "plumb:"+label+":interface/"+l["ifname"].(string)
	})
	addressed := count(h.peers, "-4 address show", func(l map[string]any) bool {
		return up(l) && l["ifalias"] != nil && len(l["addr_info"].([]any)) == 1
	})
	if members != n || addressed != n {
		h.b.Fatalf("all is told to be configured, but of %d pairs %d are in the bridge and %d have their address", n, members, addressed)
	}
}

// deletions returns how to wait for n links to be gone.
func deletions(b testing.TB, n *netlinktest.Namespace) (until func(int) time.Time) {
	b.Helper()
	ns, err := netns.GetFromPath(n.Path)
	if err != nil {
		b.Fatal(err)
	}
	updates, done := make(chan vish.LinkUpdate, 10_000), make(chan struct{})
	err = vish.LinkSubscribeWithOptions(updates, done, vish.LinkSubscribeOptions{
		Namespace: &ns, ReceiveBufferSize: 32 << 20, ReceiveBufferForceSize: true})
	ns.Close()
	if err != nil {
		b.Fatal(err)
	}
	return func(n int) time.Time {
		defer close(done)
		late := time.After(time.Minute)
		for seen := map[int32]bool{}; len(seen) < n; {
			select {
			case u := <-updates:
				if u.Header.Type == 17 && u.IfInfomsg.Family == 0 { // RTM_DELLINK, not a bridge port
					seen[u.IfInfomsg.Index] = true
				}
			case <-late:
				b.Fatalf("only %d links are gone", len(seen))
			}
		}
		return time.Now()
	}
}

// floor is the plain program with two namespaces of its own.
type floor struct {
	here, there *plain
	peers       *os.File
}

func newFloor(b testing.TB) *floor {
	own, peers := netlinktest.New(b), netlinktest.New(b)
	file, err := os.Open(peers.Path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { file.Close() })
	f := &floor{newPlain(b, own), newPlain(b, peers), file}
	f.here.bridge(2, "br0")
	return f
}

func (f *floor) pairs(n int) (made, gone time.Duration) {
	const group = 7
	begin := time.Now()
	for i := range n {
		v, p := fmt.Sprintf("v%d", i), fmt.Sprintf("p%d", i)
		vi, pi := uint32(100+i), uint32(100+i)
		f.here.veth(vi, v, pi, p, group, 2, int(f.peers.Fd()))
		f.here.mark(vi, "plumb:bench:interface/"+v)
		f.there.mark(pi, "plumb:bench:interface/"+p)
		f.there.address(pi, 24, addressOf(i))
	}
	made = time.Since(begin)
	begin = time.Now()
	f.here.deleteGroup(group)
	return made, time.Since(begin)
}
