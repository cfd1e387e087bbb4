package e2e

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

var awayRounds = flag.Int("away", 3, "how many random changes TestGuardsAfterAway makes while the agent is away")

// both is a network of both families. If the host has no other values, the last DEL removes more
// keys than the guard allows at once.
const both = `{"cniVersion":"1.0.0","name":"both","type":"plumb-cni","pool":["10.66.0.0/24","fd66::/64"],"masquerade":true}`

// heldNothing fails the test if a deletion is or was held back.
func heldNothing(h *host.Host) {
	h.T().Helper()
	if held := heldBack(h); len(held) > 0 {
		h.T().Errorf("held back: %+v", held)
	}
	if strings.Contains(h.Log(), "it is held back") {
		h.T().Errorf("a deletion was held back:\n%s", h.Log())
	}
}

// TestLastContainer: on a host without other values, the DEL of the only container always removes
// all its objects, also during a freeze. The next ADD of that id succeeds and gets the same
// address. An ADD during a freeze fails with code 11 and the reason.
func TestLastContainer(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true, NoEngine: true})
	c1 := h.Mount("c1")
	before := h.Exact()
	h.Start()
	for round := range 4 {
		frozen := round == 2
		r := call(h, "ADD", "c1", both)
		if r.Code != 0 || !strings.Contains(r.Out, `"10.66.0.2/24"`) || !strings.Contains(r.Out, `"fd66::2/64"`) {
			t.Fatalf("round %d: ADD: exit %d\n%s%s", round, r.Code, r.Out, r.Err)
		}
		if frozen {
			h.MustCtl("freeze", "-m", "work on the switch")
			h.Mount("c2")
			if r := call(h, "ADD", "c2", both); r.Code != 1 || !strings.Contains(r.Out, `"code": 11`) || !strings.Contains(r.Out, "everything is frozen: work on the switch") {
				t.Errorf("ADD during a freeze: exit %d\n%s%s", r.Code, r.Out, r.Err)
			}
		}
		if r := call(h, "DEL", "c1", both); r.Code != 0 || r.Err != "" {
			t.Errorf("round %d: DEL: exit %d\n%s%s", round, r.Code, r.Out, r.Err)
		}
		if frozen {
			h.MustCtl("unfreeze")
		}
		if names := c1.Names(t); len(names) > 0 {
			t.Errorf("round %d: left in the container: %v", round, names)
		}
		if round == 2 {
			h.Unmount("c2")
		}
		if diff := host.Diff(before, h.Exact()); diff != "" {
			t.Errorf("round %d: left:\n%s", round, diff)
		}
		heldNothing(h)
		if round == 1 {
			h.Stop()
			h.Start()
		}
	}
	if keys := h.Keys("ippool", "ipclaim", "interface", "route", "nftables"); len(keys) > 0 {
		t.Errorf("left: %v", keys)
	}
}

// TestGuardsAfterAway: the intent of links with addresses changes while the agent is stopped, in
// numbers around the limits of the guard. Only a mass deletion of links is held back. Changed or
// removed addresses are not, and neither is a restart without a change.
func TestGuardsAfterAway(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{NoEngine: true, Etcd: etcdtest.Start(t).URL()})
	s := operator(t, h)
	h.Start()
	want := intent{}
	for i := range 25 {
		want[awayKey(i)] = awayLink(i, 1)
	}
	s.commit(want.ops(s)...)
	awaitIntent(h, want)

	h.Stop()
	h.Start()
	awaitIntent(h, want)
	heldNothing(h)
	if n := h.KernelWrites(); n != 0 {
		t.Errorf("a restart without a change wrote %d times to the kernel", n)
	}

	h.Stop()
	want[awayKey(0)], want[awayKey(1)] = awayLink(0, 2), awayLink(1, 0)
	delete(want, awayKey(2))
	s.commit(append(want.ops(s), clientv3.OpDelete(s.prefix+awayKey(2)))...)
	h.Start()
	checkAway(h, want)
	heldNothing(h)

	rng := rand.New(rand.NewPCG(1, 0))
	for round := range *awayRounds {
		h.Stop()
		was, n := maps.Clone(want), len(want)
		r := []int{0, 20, 21, n / 2, n/2 + 1, n}[rng.IntN(6)]
		keys := slices.Sorted(maps.Keys(want))
		rng.Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		var ops []clientv3.Op
		for i, k := range keys {
			if i < min(r, n) {
				delete(want, k)
				ops = append(ops, clientv3.OpDelete(s.prefix+k))
			} else if version := rng.IntN(4); version < 3 {
				want[k] = awayLink(nth(k), version)
			}
		}
		s.commit(append(ops, want.ops(s)...)...)
		h.Start()
		gone := n - len(want)
		mass := gone > 20 && 2*gone > n || len(want) == 0 && gone >= 10
		t.Logf("round %d: %d of %d links are removed; mass deletion: %v", round, gone, n, mass)
		if !mass {
			checkAway(h, want)
		} else {
			h.Eventually("the links that go are held back", func() error {
				if held := heldBack(h); len(held) != 1 || held[0].Count != gone {
					return fmt.Errorf("held: %+v", held)
				}
				return nil
			})
			for k, v := range was { // links whose deletion is held back stay unchanged
				if _, stays := want[k]; stays {
					was[k] = want[k]
				} else {
					was[k] = v
				}
			}
			checkAway(h, was)
			h.MustCtl("release")
			checkAway(h, want)
		}
		if held := heldBack(h); len(held) > 0 {
			t.Errorf("round %d: held back: %+v", round, held)
		}
		for i := range 20 + rng.IntN(25) {
			want[awayKey(i)] = awayLink(i, 1)
		}
		s.commit(want.ops(s)...)
		checkAway(h, want)
	}
}

func awayKey(i int) string { return fmt.Sprint("interface/t", i) }

func nth(key string) (i int) {
	_, _ = fmt.Sscanf(key, "interface/t%d", &i)
	return i
}

// awayLink returns the value of a link, with an address that depends on version unless that is 0.
func awayLink(i, version int) string {
	if version == 0 {
		return `{"tap":{}}`
	}
	return fmt.Sprintf(`{"tap":{},"addresses":["10.%d.%d.1/24"]}`, 20+version, i)
}

// checkAway waits until exactly the links of an intent exist, with exactly their addresses.
func checkAway(h *host.Host, want intent) {
	h.T().Helper()
	wanted := map[string]bool{}
	for k, v := range want {
		name := strings.TrimPrefix(k, "interface/")
		wanted[name] = true
		if _, rest, has := strings.Cut(v, `["`); has {
			address, _, _ := strings.Cut(rest, `"`)
			wanted[name+" "+address] = true
		}
	}
	h.Eventually("links and addresses are as wanted", func() error {
		there := map[string]bool{}
		for line := range strings.Lines(h.Own.IP(h.T(), "-o link show type tun")) {
			there[strings.TrimSuffix(strings.Fields(line)[1], ":")] = true
		}
		for line := range strings.Lines(h.Own.IP(h.T(), "-o -4 addr")) {
			if f := strings.Fields(line); strings.HasPrefix(f[1], "t") {
				there[f[1]+" "+f[3]] = true
			}
		}
		if !maps.Equal(there, wanted) {
			return same(strings.Join(slices.Sorted(maps.Keys(wanted)), "\n"), strings.Join(slices.Sorted(maps.Keys(there)), "\n"))
		}
		return nil
	})
}
