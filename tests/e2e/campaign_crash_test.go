package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

// TestCrashes kills the agent 50 times while intent changes, half of the times
// with an etcd that dies with it: at named failpoints, each of which must be
// hit, and at random moments. In the end the kernel is as the intent says,
// objects of others are as they were, and cleanup leaves nothing of ours.
func TestCrashes(t *testing.T) {
	t.Parallel()
	random := draw(t)
	for _, name := range stores {
		own := rand.New(rand.NewPCG(random.Uint64(), 0))
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCrashes(t, own, storeURL(t, name))
			c.campaign(25)
			c.heal()
		})
	}
}

// failpoints are the names that stand in the source: those of a kind, and the steps that
// all kinds share.
func failpoints(t *testing.T) (names []string) {
	t.Helper()
	hit := regexp.MustCompile(`\.Hit\((o\.Kind \+ )?"([a-z/-]+)"\)`)
	var shared []string
	err := filepath.WalkDir("../../descriptors", func(path string, f os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range hit.FindAllSubmatch(text, -1) {
			if len(m[1]) > 0 {
				shared = append(shared, string(m[2]))
			} else {
				names = append(names, string(m[2]))
			}
		}
		return err
	})
	for _, name := range slices.Clone(names) {
		kind, _, _ := strings.Cut(name, "/")
		for _, step := range shared {
			names = append(names, kind+step)
		}
	}
	if err != nil || len(shared) < 2 || len(names) < 10 {
		t.Fatalf("failpoints %v, of all kinds %v: %v", names, shared, err)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// crashes is one host whose agent is killed again and again.
type crashes struct {
	*host.Host
	t      *testing.T
	random *rand.Rand
	store  *store
	want   intent
	hits   map[string]int
	missed bool // the last round came not to its failpoint
	// before is the host with what others have on it and nothing of ours.
	before string
	theirs string
}

func newCrashes(t *testing.T, random *rand.Rand, etcd string) *crashes {
	c := &crashes{
		Host: host.New(t, host.Options{Parallel: true, Fast: true, Etcd: etcd, Args: anyDeletions}),
		t:    t, random: random, want: maps.Clone(office), hits: map[string]int{},
	}
	c.store = operator(t, c.Host)
	c.want["interface/up0"] = `{"existing":{},"addresses":["10.70.0.5/24"]}`
	c.want["route/up0"] = `{"interface":"up0","destination":"10.62.0.0/16","gateway":"10.70.0.9"}`
	for _, name := range services {
		c.Run(name, ipv6...)
	}
	c.Start()
	c.store.commit(office.ops(c.store)...)
	awaitIntent(c.Host, office)
	c.AwaitNoDifference()
	group, protocol := c.marks()
	c.store.deleteAll()
	awaitGone(t, c.Host, office)
	c.Stop()
	c.others(group, protocol)
	c.before, c.theirs = c.Exact(), c.foreign()
	return c
}

// marks are the numbers that the agent uses for its links and routes.
func (c *crashes) marks() (group, protocol string) {
	c.t.Helper()
	for _, r := range c.Own.JSON(c.t, "route show table 77") {
		protocol = fmt.Sprint(r["protocol"])
	}
	return fmt.Sprint(c.Own.Show(c.t, "br0")["group"]), protocol
}

// others puts objects of somebody else where ours are: on the same link, in
// the same subnets, tables and bridge, with the same group and protocol.
func (c *crashes) others(group, protocol string) {
	// A firewall as Docker leaves it; in it forward/br0 has rules.
	for _, args := range []string{"-P FORWARD DROP", "-N DOCKER-USER", "-A FORWARD -j DOCKER-USER", "-A DOCKER-USER -s 192.0.2.7 -j DROP"} {
		c.Own.Run(c.t, append([]string{"iptables"}, strings.Fields(args)...)...)
	}
	for _, args := range []string{
		"link add up0 type veth peer name up1",
		"link set up0 up", "link set up1 up", "link set up1 group " + group, "link set up1 alias plumb:other:interface/br0",
		"address add 10.70.0.1/24 dev up0", "address add 10.70.0.7/24 dev up0", "address add 10.50.0.66/24 dev up1",
		"route add 10.61.0.0/16 via 10.70.0.9 metric 5 table 77 protocol " + protocol,
		"route add 10.61.7.0/24 via 10.70.0.9 table 77 protocol " + protocol,
		"route add 10.62.0.0/16 via 10.70.0.9 metric 9 protocol " + protocol,
		"link add theirs type bridge", "link set theirs group " + group, "link add guest type veth peer name guest1",
		"address add 10.50.0.77/24 dev guest",
	} {
		c.Own.IP(c.t, args)
	}
	web := c.In("web")
	web.IP(c.t, "link add theirs up group "+group+" type bridge")
	web.IP(c.t, "address add 10.50.0.88/24 dev theirs")
	for _, ns := range []*netlinktest.Namespace{c.Own, web} {
		ns.Run(c.t, "nft", `add table inet office { comment "plumb:other:nftables/own"; }`)
	}
	netlinktest.Mount(c.t, filepath.Join(c.NetnsDir(), "theirs"))
}

// foreign is what others have, without what we may add to it: addresses on
// up0, and the bridge that guest is in.
func (c *crashes) foreign() string {
	c.t.Helper()
	var b strings.Builder
	tell := func(place string, ns *netlinktest.Namespace) {
		for _, l := range ns.JSON(c.t, "address show") {
			name := l["ifname"].(string)
			if !slices.Contains([]string{"up0", "up1", "theirs", "guest", "guest1"}, name) {
				continue
			}
			fmt.Fprintln(&b, place, l["ifindex"], name, l["address"], l["group"], l["ifalias"])
			for _, a := range l["addr_info"].([]any) {
				if a := a.(map[string]any); a["local"] != "10.70.0.5" && a["family"] == "inet" {
					fmt.Fprintln(&b, place, name, a["local"], a["prefixlen"], a["scope"])
				}
			}
		}
		fmt.Fprintln(&b, place, ns.Run(c.t, "nft", "list table inet office"))
		for _, r := range ns.JSON(c.t, "route show table all") {
			if r["dev"] == "up0" && r["dst"] != "10.70.0.5" && r["prefsrc"] != "10.70.0.5" && !(r["dst"] == "10.62.0.0/16" && r["metric"] == nil) {
				fmt.Fprintln(&b, place, r["dst"], r["gateway"], r["metric"], r["table"], r["protocol"])
			}
		}
	}
	tell("own", c.Own)
	tell("web", c.In("web"))
	fmt.Fprintln(&b, "netns theirs", c.Named("theirs").Inode)
	return b.String()
}

// campaign kills at least as many times, and until every failpoint was hit.
func (c *crashes) campaign(kills int) {
	due := failpoints(c.t)
	c.random.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] })
	for round := 0; round < kills || len(due) > 0; round++ {
		if round == 4*kills {
			c.t.Fatalf("after %d kills these failpoints were never hit: %v", round, due)
		}
		build := round%2 == 0
		point := ""
		for _, p := range due {
			if strings.HasSuffix(p, "/deleted") != build {
				point = p
				break
			}
		}
		if c.missed && !build {
			c.tearDown() // what was never taken away is never made again
			continue
		}
		c.round(build, point)
		c.missed = build && point != "" && c.hits[point] == 0
		due = slices.DeleteFunc(due, func(p string) bool { return p == point })
		if point != "" && c.hits[point] == 0 {
			due = append(due, point) // the others come first
		}
		if round%5 == 4 {
			c.unharmed(fmt.Sprintf("after %d kills, the last at %q", round+1, point))
		}
	}
	c.t.Logf("hits: %v", c.hits)
}

func (c *crashes) unharmed(when string) {
	c.t.Helper()
	if err := same(c.theirs, c.foreign()); err != nil {
		c.t.Fatalf("%s what belongs to others %v", when, err)
	}
}

// round is one life of the agent: it comes up to what the last one left, the
// intent grows or shrinks, and it dies.
func (c *crashes) round(build bool, point string) {
	log := filepath.Join(c.Dir, "hits")
	_ = os.Remove(log)
	c.Env = []string{"PLUMB_FAILPOINT=" + point + "=1", "PLUMB_FAILPOINT_LOG=" + log}
	c.Launch()
	if !build {
		c.settle() // so that there is something to take away
	}
	delay := time.Duration(c.random.IntN(400)) * time.Millisecond
	alive, died := context.WithCancel(context.Background())
	written := make(chan struct{})
	go func() {
		defer close(written)
		c.change(alive, build)
	}()
	if point == "" {
		<-time.After(delay)
		c.Kill9()
	} else if !c.AwaitEnd(3 * time.Second) {
		c.Kill9()
	}
	died()
	<-written
	if text, _ := os.ReadFile(log); len(text) > 0 {
		c.hits[strings.TrimSpace(string(text))]++
	}
}

// tearDown takes everything away in peace, and then kills the agent.
func (c *crashes) tearDown() {
	c.t.Helper()
	c.Env = nil
	c.Start()
	c.store.deleteAll()
	awaitGone(c.t, c.Host, c.want)
	c.Kill9()
}

// settle waits until the agent is through, or has died.
func (c *crashes) settle() {
	ready := func() bool { _, err := c.HTTP("/readyz"); return err == nil }
	for end := time.Now().Add(host.Patience); c.Running() && !ready() && time.Now().Before(end); {
		<-time.After(5 * time.Millisecond)
	}
	if c.Running() {
		c.Ctl("wait", "--all", "--for", "settled", "--timeout", "3s")
	}
}

// change writes in several transactions, in an order of its own, until done or
// the agent died.
func (c *crashes) change(alive context.Context, build bool) {
	keys := c.want.keys()
	c.random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for chunk := range slices.Chunk(keys, 1+c.random.IntN(8)) {
		var ops []clientv3.Op
		for _, k := range chunk {
			op := c.store.op(k, c.want[k])
			if other := detours[k]; c.random.IntN(10) == 0 && other != nil {
				op = c.store.op(k, other[0])
			}
			if !build && c.random.IntN(10) > 0 {
				op = clientv3.OpDelete(c.store.prefix + k)
			}
			ops = append(ops, op)
		}
		for alive.Err() == nil {
			ctx, cancel := context.WithTimeout(alive, time.Second)
			_, err := c.store.Txn(ctx).Then(ops...).Commit()
			cancel()
			if err == nil {
				break
			}
		}
		_, _ = c.Own.Try("ip", "link", "set", "guest", "master", "br0")
	}
}

// heal lets the agent live, and compares with what a calm life comes to.
func (c *crashes) heal() {
	c.Env = nil
	c.Start()
	after := c.calm()
	c.unharmed("in the end")
	c.Stop()
	c.Cleanup()
	if err := same(c.before, c.Exact()); err != nil {
		c.t.Errorf("after cleanup the host is not as before: %v", err)
	}
	c.Start()
	if err := same(c.calm(), after); err != nil {
		c.t.Errorf("the crashes left traces: %v", err)
	}
}

// calm writes all that is wanted and returns the picture that it comes to.
func (c *crashes) calm() string {
	c.t.Helper()
	c.store.commit(c.want.ops(c.store)...)
	awaitIntent(c.Host, c.want)
	c.Own.IP(c.t, "link set guest master br0")
	return quiet(c.Host, func() string { return view(c.Host) })
}
