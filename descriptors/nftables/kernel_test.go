package nftables_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kernel/kerneltest"
	"github.com/plumb-net/plumb/descriptors/kind/kindtest"
	kind "github.com/plumb-net/plumb/descriptors/nftables"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/hosttest"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/plugins/nftables"
	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is the kind on a kernel, with stand-ins for namespaces and claims: the agent's own
// and blue.
type bench struct {
	*hosttest.Host
	t         *testing.T
	net, blue *netlinktest.Namespace // of a Linux
	blueNS    kernel.NS
	bluePath  string
	ledger    *kernel.MemLedger
	held      held
	links     kindtest.Links
	tables    kernel.Tables
	fail      string
	poll      chan time.Time
	kind      scheduler.Descriptor[*models.Nftables, kernel.NS]
}

type scope = scheduler.Scope[*models.Nftables, kernel.NS]

// interfaces are the links that there are.
// held are the claims that there are.
type held map[string]string

func (h held) Prefix(claim string) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(h[claim])
	return p, err == nil
}

func (h held) Need(claim string) scheduler.Need {
	return scheduler.On(scheduler.Key(models.IPClaimKey(claim)), "the claim")
}

var errCrash = errors.New("crash")

func newBench(t *testing.T) *bench {
	t.Helper()
	return newBenchOn(t, hosttest.Linux(t))
}

func newBenchOn(t *testing.T, h *hosttest.Host) *bench {
	t.Helper()
	b := &bench{Host: h, t: t, net: h.Net, ledger: &kernel.MemLedger{}, held: held{"web": "10.0.0.7/24"}, links: kindtest.Links{}}
	switch k := h.Kernel.(type) {
	case *kerneltest.Kernel:
		k.Start(7)
		b.tables, b.bluePath = k.Tables(), "/proc/7/ns/net"
	case *netlink.Kernel:
		b.blue = netlinktest.New(t)
		b.tables, b.bluePath = nftables.New(k, ""), b.blue.Path
	}
	var err error
	if b.blueNS, err = h.Open(b.bluePath); err != nil {
		t.Fatal(err)
	}
	b.restart()
	return b
}

func (b *bench) restart() {
	owner := kernel.NewOwner("host7", "boot", b.ledger, func(name string) error {
		if name == b.fail {
			return errCrash
		}
		return nil
	})
	b.kind = kind.New(kind.Deps{Kernel: b.Kernel, Tables: b.tables, Owner: owner, Places: b, Claims: b.held, Interfaces: b.links, Poll: b.poll})
}

// link makes a link in blue, with the name of the interface.
func (b *bench) link(name string) {
	b.t.Helper()
	l, err := b.AddLink(b.blueNS, kernel.LinkSpec{Name: name, Bridge: &kernel.BridgeSpec{}})
	if err != nil {
		b.t.Fatal(err)
	}
	b.links[scheduler.Key(models.InterfaceKey(name))] = l.Ref()
}

func (b *bench) Resolve(_ context.Context, in *models.Namespace) (selector.Place, error) {
	if in.GetIn() == nil {
		return selector.Place{NS: b.Own()}, nil
	}
	return selector.Place{NS: b.blueNS, Path: b.bluePath}, nil
}

func key(name string) scheduler.Key { return scheduler.Key(models.NftablesKey(name)) }

func (b *bench) create(name, value string) error {
	b.t.Helper()
	v := decode(b.t, value)[0]
	if err := b.kind.Validate(key(name), v); err != nil {
		b.t.Fatal(err)
	}
	_, err := b.kind.Create(context.Background(), key(name), v)
	return err
}

func (b *bench) must(name, value string) {
	b.t.Helper()
	if err := b.create(name, value); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) delete(name string) {
	b.t.Helper()
	if err := b.kind.Delete(context.Background(), key(name), &models.Nftables{}, 0); err != nil {
		b.t.Fatal(err)
	}
}

// look lists what is found, with its rules.
func (b *bench) look() string {
	b.t.Helper()
	var list []string
	for f, err := range b.kind.Retrieve(context.Background(), scope{All: true}) {
		if err != nil {
			b.t.Errorf("%s: %v", f.Key, err)
			continue
		}
		list = append(list, string(f.Key)+": "+rules(f.Value))
	}
	return strings.Join(list, "\n")
}

func rules(v *models.Nftables) string {
	var all []string
	for _, c := range v.GetChains() {
		all = append(all, c.GetRules()...)
	}
	return strings.Join(all, "; ")
}

// TestConform holds the kind to the contract of descriptors, on each kernel.
func TestConform(t *testing.T) {
	hosttest.OnEachKernel(t, func(t *testing.T, h *hosttest.Host) { conform(t, newBenchOn(t, h)) })
}

func conform(t *testing.T, b *bench) {
	b.link("b0")
	b.link("b1")
	b.restart()
	sample := func(name string, values ...string) schedulertest.Sample[*models.Nftables] {
		return schedulertest.Sample[*models.Nftables]{Key: key(name), Values: decode(t, strings.Join(values, "\n"))}
	}
	schedulertest.Conform(t, b.kind, schedulertest.Spec[*models.Nftables, kernel.NS]{
		Samples: []schedulertest.Sample[*models.Nftables]{
			sample("filter", `{"chains":[{"name":"in","type":"filter","hook":"input","policy":"drop","rules":["ct state established,related accept","tcp dport {22,80} counter  accept"]}]}`,
				`{"chains":[{"name":"in","type":"filter","hook":"input","priority":"filter + 5"}]}`,
				`{"chains":[{"name":"more","rules":["ip saddr <claim:web> accept"]},{"name":"in","type":"filter","hook":"input","priority":"5","rules":["jump more"]}]}`,
				`{"namespace":{"netns":"blue"},"chains":[{"name":"more"}]}`),
			sample("lists", `{"namespace":{"netns":"blue"},"chains":[{"name":"c","rules":["ip saddr @s drop","tcp dport vmap @m"]},{"name":"c2"}],"sets":[{"name":"s","type":"ipv4_addr","flags":["interval"],"auto_merge":true,"elements":["10.0.0.0/24","10.0.1.0/24"]}],"maps":[{"name":"m","type":"inet_service","data":"verdict","elements":["22 : accept","http : jump c2"]}]}`,
				`{"namespace":{"netns":"blue"},"chains":[{"name":"c2"},{"name":"c","rules":["ip saddr @s drop","tcp dport vmap @m"]}],"sets":[{"name":"s","type":"ipv4_addr","flags":["interval"],"auto_merge":true,"elements":["<claim:web>"]}],"maps":[{"name":"m","type":"inet_service","data":"verdict"}]}`,
				`{"namespace":{"netns":"blue"},"sets":[{"name":"s","type":"ipv4_addr . inet_service","counter":true,"size":10,"elements":["10.0.0.1 . 80","10.0.0.2 . 81 comment \"a, b\""]},{"name":"d","type":"mark","flags":["dynamic","timeout"],"timeout":"5m","elements":["1","2 timeout 1h"]},{"name":"k","type":"ifname","flags":["constant"],"elements":["lo","eth0"]}]}`,
				`{"namespace":{"netns":"blue"},"family":"netdev","chains":[{"name":"c","type":"filter","hook":"ingress","priority":"-5","devices":["b0","b1"],"rules":["ip saddr 10.0.0.0/8 drop"]},{"name":"d","type":"filter","hook":"egress","devices":["b1"]}]}`,
				`{"namespace":{"netns":"blue"},"chains":[{"name":"c","type":"filter","hook":"ingress","devices":["b0"]}]}`),
			sample("six", `{"family":"ip6","table":"a.b"}`, `{"family":"bridge","table":"a.b","chains":[{"name":"c","rules":["accept"]}]}`),
		},
		Refused: map[scheduler.Key]*models.Nftables{"nftables/a:b": {}},
		Restart: func(testing.TB) scheduler.Descriptor[*models.Nftables, kernel.NS] {
			b.restart()
			return b.kind
		},
		Foreign: func(t testing.TB, k scheduler.Key, v *models.Nftables) func() bool {
			theirs := kernel.Table{Family: v.EffectiveFamily(), Name: v.EffectiveTable(string(k)), Chains: []kernel.TableChain{{Name: "theirs"}}}
			place, err := b.Resolve(t.Context(), v.GetNamespace())
			if err == nil {
				err = b.tables.CreateTable(t.Context(), place.NS, theirs)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = b.tables.DeleteTable(context.Background(), place.NS, theirs.Family, theirs.Name) })
			return func() bool {
				read, err := b.tables.Table(t.Context(), place.NS, theirs.Family, theirs.Name)
				return err == nil && len(read.Chains) == 1 && read.Chains[0].Name == "theirs"
			}
		},
		Remove: func(t testing.TB, k scheduler.Key) {
			at := map[scheduler.Key]kernel.NS{key("filter"): b.Own(), key("six"): b.Own(), key("lists"): b.blueNS}
			id := map[scheduler.Key][2]string{key("filter"): {"inet", "filter"}, key("six"): {"ip6", "a.b"}, key("lists"): {"inet", "lists"}}[k]
			if err := b.tables.DeleteTable(t.Context(), at[k], id[0], id[1]); err != nil {
				t.Fatal(err)
			}
		},
		Clone:     proto.CloneOf[*models.Nftables],
		Identical: func(x, y *models.Nftables) bool { return proto.Equal(x, y) },
	})
}

const filter = `{"namespace":{"netns":"blue"},"chains":[{"name":"in","type":"filter","hook":"input","rules":["tcp dport {22,80} counter  accept"]}]}`

// What others change shows in the spelling of nft, what only counts does not.
func TestDrift(t *testing.T) {
	b := newBench(t)
	b.must("filter", filter)
	const asWritten = "nftables/filter: tcp dport {22,80} counter  accept"
	if got := b.look(); got != asWritten {
		t.Errorf("found %s", got)
	}
	b.blue.IP(t, "link set dev lo up")
	_, _ = b.blue.Try("busybox", "nc", "-w", "1", "127.0.0.1", "80") // refused, but counted
	if list := b.blue.Run(t, "nft", "list table inet filter"); strings.Contains(list, "packets 0 ") {
		t.Fatalf("nothing was counted: %s", list)
	}
	b.restart()
	if got := b.look(); got != asWritten {
		t.Errorf("found %s", got)
	}
	b.blue.Run(t, "nft", "add rule inet filter in drop")
	if got := b.look(); got != "nftables/filter: tcp dport { 22, 80 } counter accept; drop" {
		t.Errorf("found %s", got)
	}
	b.must("filter", filter)
	if got := b.look(); got != asWritten {
		t.Errorf("found %s", got)
	}
	b.blue.Run(t, "nft", "delete table inet filter")
	if got := b.look(); got != "" || len(b.ledger.Entries("")) != 0 {
		t.Errorf("found %s, the ledger has %s", got, b.ledger)
	}
}

// The address of a claim stands in the rules; while it is another by now the value
// that is found is not the one that was asked.
func TestClaims(t *testing.T) {
	b := newBench(t)
	const value = `{"chains":[{"name":"c","rules":["ip saddr <claim:web> accept"]}]}`
	b.must("x", value)
	if list := b.net.Run(t, "nft", "list table inet x"); !strings.Contains(list, "ip saddr 10.0.0.7 accept") {
		t.Errorf("made %s", list)
	}
	b.restart()
	if got := b.look(); got != "nftables/x: ip saddr <claim:web> accept" {
		t.Errorf("found %s", got)
	}
	b.held["web"] = "10.0.0.8/24"
	if got := b.look(); got != "nftables/x: ip saddr 10.0.0.7 accept" {
		t.Errorf("found %s", got)
	}
	b.must("x", value)
	if got := b.look(); got != "nftables/x: ip saddr <claim:web> accept" {
		t.Errorf("found %s", got)
	}
	delete(b.held, "web")
	if err := b.create("y", value); err == nil || !strings.Contains(err.Error(), "ipclaim/web holds no address") {
		t.Error(err)
	}
}

// What nft does not understand is the value's fault, says where, and harms nothing.
func TestBadRules(t *testing.T) {
	b := newBench(t)
	b.must("filter", filter)
	before, ledger := b.blue.Run(t, "nft", "list ruleset"), b.ledger.String()
	err := b.create("filter", strings.Replace(filter, "counter  accept", "cuonter accept", 1))
	var invalid *scheduler.InvalidError
	if !errors.As(err, &invalid) || invalid.Fields[0].Field != "chains[0].rules[0]" || !strings.Contains(err.Error(), "nft: syntax error") {
		t.Errorf("%v", err)
	}
	err = b.create("filter", strings.Replace(filter, "counter  accept", "jump nowhere", 1))
	if invalid = nil; errors.As(err, &invalid) || err == nil || !strings.Contains(err.Error(), "chains[0].rules[0]: tcp dport {22,80} jump nowhere: nft: No such file or directory") {
		t.Errorf("what the kernel refuses may do another time: %v", err)
	}
	if after := b.blue.Run(t, "nft", "list ruleset"); after != before || b.ledger.String() != ledger {
		t.Errorf("after\n%s%s\nbefore\n%s%s", after, b.ledger, before, ledger)
	}
	for _, word := range []string{"drop", "maps"} { // nft loads a table called maps, but cannot list it
		err = b.create(word, `{"chains":[{"name":"c"}]}`)
		if invalid = nil; !errors.As(err, &invalid) || invalid.Fields[0].Field != "table" || !strings.Contains(err.Error(), word+": nft cannot list a table of this name") {
			t.Errorf("a word of nft's grammar as a name: %v", err)
		}
	}
	if err := b.create("new", `{"chains":[{"name":"c","rules":["foo"]}]}`); err == nil || strings.Contains(b.ledger.String(), "new") {
		t.Errorf("%v, the ledger has %s", err, b.ledger)
	}
}

// Two selectors that mean one namespace do not fight, and neither takes the table of
// another agent.
func TestOneHolder(t *testing.T) {
	b := newBench(t)
	b.must("filter", filter)
	owner := func(err error) string {
		var class *scheduler.OpError
		if !errors.As(err, &class) {
			t.Errorf("%v, want a conflict", err)
			return ""
		}
		return class.Owner + string(class.On)
	}
	if got := owner(b.create("two", `{"namespace":{"pod":"web"},"table":"filter"}`)); got != "nftables/filter" {
		t.Errorf("owner %q", got)
	}
	b.net.Run(t, "nft", `add table inet filter { comment "plumb:other:nftables/filter"; }`)
	if got := owner(b.create("three", `{"table":"filter"}`)); got != "somebody else" {
		t.Errorf("owner %q", got)
	}
	// One of ours that the ledger has lost is known by its mark.
	*b.ledger = kernel.MemLedger{}
	b.must("filter", filter)
	b.delete("filter")
	if list := b.blue.Run(t, "nft", "list ruleset"); list != "" {
		t.Errorf("left %s", list)
	}
}

// Wherever it crashes, it can be made and deleted afterwards.
func TestCrashes(t *testing.T) {
	for _, point := range []string{"nftables/recorded", "nftables/made", "nftables/deleted"} {
		for _, again := range []bool{true, false} {
			b := newBench(t)
			b.fail = point
			err := b.create("filter", filter)
			if err == nil {
				err = b.kind.Delete(context.Background(), key("filter"), &models.Nftables{}, 0)
			}
			if !errors.Is(err, errCrash) {
				t.Fatalf("%s: %v", point, err)
			}
			b.fail = ""
			b.restart()
			if again {
				b.must("filter", filter)
				if got := b.look(); got != "nftables/filter: tcp dport {22,80} counter  accept" {
					t.Errorf("%s: found %s", point, got)
				}
			}
			b.delete("filter")
			if list := b.blue.Run(t, "nft", "list ruleset"); list != "" || b.look() != "" {
				t.Errorf("%s: left %s", point, list)
			}
		}
	}
}
