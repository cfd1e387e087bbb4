package nftables_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/plugins/nftables"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is the port in a namespace of the test.
type bench struct {
	*nftables.Tables
	t   *testing.T
	net *netlinktest.Namespace
	k   *netlink.Kernel
	ns  kernel.NS
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, net: netlinktest.New(t)}
	k, err := netlink.New(netlink.Options{OwnPath: netlinktest.New(t).Path, NamedDir: netlinktest.Dir(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	if b.ns, err = k.Open(b.net.Path); err != nil {
		t.Fatal(err)
	}
	b.k, b.Tables = k, nftables.New(k, "")
	return b
}

func (b *bench) read(family, name string) kernel.Table {
	b.t.Helper()
	table, err := b.Table(context.Background(), b.ns, family, name)
	if err != nil {
		b.t.Fatal(err)
	}
	return table
}

var filter = kernel.Table{Family: "inet", Name: "filter", Comment: "plumb:host:nftables/filter", Chains: []kernel.TableChain{
	{Name: "input", Type: "filter", Hook: "input", Priority: "10", Policy: "drop", Rules: []string{
		"jump  more", `tcp dport { 22,80 } counter accept comment "{ a;b"`,
		"ip saddr { " + strings.Join(addresses(60), ",") + " } drop"}},
	{Name: "more", Rules: []string{"ct state established,related accept"}},
}}

func addresses(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("10.0.%d.1", i))
	}
	return list
}

// What is made is read back, in the spelling of nft, and in this namespace only.
func TestThereAndBack(t *testing.T) {
	b := newBench(t)
	if err := b.CreateTable(t.Context(), b.ns, filter); err != nil {
		t.Fatal(err)
	}
	got := b.read("inet", "filter")
	want := filter.Chains[0]
	if got.Comment != filter.Comment || len(got.Chains) != 2 || len(got.Chains[0].Rules) != 3 {
		t.Fatalf("%+v", got)
	}
	in := got.Chains[0]
	if in.Name != want.Name || in.Type != want.Type || in.Hook != want.Hook || in.Priority != "filter + 10" || in.Policy != want.Policy {
		t.Errorf("%+v", in)
	}
	if in.Rules[0] != "jump more" || in.Rules[1] != `tcp dport { 22, 80 } counter accept comment "{ a;b"` {
		t.Errorf("%q", in.Rules)
	}
	if strings.Count(in.Rules[2], ",") != 59 || !strings.HasSuffix(in.Rules[2], "} drop") {
		t.Errorf("a set of many lines became %q", in.Rules[2])
	}
	if err := b.CreateTable(t.Context(), b.ns, filter); !errors.Is(err, kernel.ErrExist) {
		t.Errorf("made again: %v", err)
	}
	if _, err := b.Table(t.Context(), b.k.Own(), "inet", "filter"); !errors.Is(err, kernel.ErrNotExist) {
		t.Errorf("in another namespace: %v", err)
	}
	if err := b.DeleteTable(t.Context(), b.ns, "inet", "filter"); err != nil {
		t.Fatal(err)
	}
	if err := b.DeleteTable(t.Context(), b.ns, "inet", "filter"); !errors.Is(err, kernel.ErrNotExist) {
		t.Errorf("deleted again: %v", err)
	}
}

// A table is replaced as one, or stays as it is; others are not touched.
func TestReplace(t *testing.T) {
	b := newBench(t)
	b.net.Run(t, "nft", "add table inet theirs; add chain inet theirs c")
	theirs := b.net.Run(t, "nft", "list table inet theirs")
	for _, rules := range [][]string{{"accept"}, {"drop", "accept"}} {
		next := filter
		next.Chains = []kernel.TableChain{{Name: "one", Rules: rules}}
		if err := b.ReplaceTable(t.Context(), b.ns, next); err != nil {
			t.Fatal(err)
		}
		if got := b.read("inet", "filter").Chains; len(got) != 1 || len(got[0].Rules) != len(rules) {
			t.Errorf("%+v", got)
		}
	}
	before := b.net.Run(t, "nft", "list ruleset")
	broken := filter
	broken.Chains = []kernel.TableChain{{Name: "one", Rules: []string{"accept", "jump nowhere"}}}
	if err := b.ReplaceTable(t.Context(), b.ns, broken); err == nil {
		t.Error("a jump to nowhere is taken")
	}
	if after := b.net.Run(t, "nft", "list ruleset"); after != before || !strings.Contains(after, strings.TrimSpace(theirs)) {
		t.Errorf("after a failure\n%s\nbefore\n%s", after, before)
	}
}

// What nft does not understand is told with its place and in its words.
func TestTextErrors(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		chain kernel.TableChain
		want  string
	}{
		{kernel.TableChain{Name: "c", Rules: []string{"accept", "tcp dport http8 accept"}}, `chains[1].rules[1]: nft: Could not resolve service: Servname not supported for ai_socktype, at "http8"`},
		{kernel.TableChain{Name: "c", Rules: []string{"foo bar"}}, `chains[1].rules[0]: nft: No symbol type information, at "foo"`},
		{kernel.TableChain{Name: "c", Rules: []string{"tcp dport"}}, "chains[1].rules[0]: nft: syntax error, unexpected newline, at its end"},
		{kernel.TableChain{Name: "c", Type: "nat", Hook: "input", Priority: "nowhere", Policy: "accept"}, `chains[1]: nft: invalid priority expression value in this context., at "priority nowhere"`},
	} {
		table := filter
		table.Chains = []kernel.TableChain{{Name: "first"}, c.chain}
		err := b.CreateTable(t.Context(), b.ns, table)
		var wrong *kernel.TextError
		if !errors.As(err, &wrong) || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
	if out := b.net.Run(t, "nft", "list ruleset"); out != "" {
		t.Errorf("left: %s", out)
	}
}

// The same of sets, maps and flowtables, by the line of the one that is wrong.
func TestSetErrors(t *testing.T) {
	b := newBench(t)
	set := func(typ string, elements ...string) kernel.Table {
		return kernel.Table{Family: "inet", Name: "x", Sets: []kernel.TableSet{{Name: "first", Type: "mark", Elements: []string{"1", "2"}}, {Name: "s", Type: typ, Elements: elements}}}
	}
	verdicts := kernel.Table{Family: "inet", Name: "x", Maps: []kernel.TableSet{{Name: "m", Type: "mark", Data: "verdict", Elements: []string{"1 : drop", "2 : jump nowhere", "3 : drop"}}}}
	for _, c := range []struct {
		table      kernel.Table
		want, text string
	}{
		{set("ipv4_adr"), `sets[1]: nft: unknown datatype ipv4_adr, at "ipv4_adr"`, ""},
		{set("mark", "1", "x", "2"), `sets[1].elements[1]: nft: `, "x"},
		{set("inet_service", "80", "22 timeout 5m"), `sets[1].elements[1]: nft: Invalid argument, at "22"`, "22 timeout 5m"},
		{verdicts, `maps[0].elements[1]: nft: `, "2 : jump nowhere"},
		{kernel.Table{Family: "inet", Name: "x", Flowtables: []kernel.TableFlowtable{{Name: "f", Priority: "nowhere", Devices: []string{"lo"}}}}, `flowtables[0]: nft: `, ""},
		{kernel.Table{Family: "netdev", Name: "x", Chains: []kernel.TableChain{{Name: "c", Type: "filter", Hook: "ingress", Devices: []string{"lo"}, Priority: "srcnat", Policy: "accept"}}}, `chains[0]: nft: `, ""},
	} {
		err := b.CreateTable(t.Context(), b.ns, c.table)
		var wrong *kernel.TextError
		if !errors.As(err, &wrong) || !strings.HasPrefix(err.Error(), c.want) || wrong.Text != c.text {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
	if out := b.net.Run(t, "nft", "list ruleset"); out != "" {
		t.Errorf("left: %s", out)
	}
}

// Sets, maps and devices are read back, their elements in order, but not those that
// packets or time change. Elements are replaced without the rest.
func TestSets(t *testing.T) {
	b := newBench(t)
	table := kernel.Table{Family: "inet", Name: "x", Comment: "plumb:host:nftables/x",
		Chains: []kernel.TableChain{{Name: "c", Rules: []string{"ip saddr @s drop", "meta mark vmap @m"}},
			{Name: "in", Type: "filter", Hook: "ingress", Devices: []string{"lo"}, Priority: "filter", Policy: "accept"}},
		Sets: []kernel.TableSet{{Name: "s", Type: "ipv4_addr", Flags: []string{"interval"}, AutoMerge: true, Elements: addresses(60)},
			{Name: "d", Type: "mark", Flags: []string{"dynamic", "timeout"}, Timeout: "1h", Size: 7, Counter: true, Elements: []string{"0x00000001"}}},
		Maps: []kernel.TableSet{{Name: "m", Type: "mark", Data: "verdict", Elements: []string{"0x00000001 : jump c2", `0x00000002 comment "a, b" : drop`}}},
	}
	table.Chains = append(table.Chains, kernel.TableChain{Name: "c2"})
	if err := b.CreateTable(t.Context(), b.ns, table); err != nil {
		t.Fatal(err)
	}
	want := table
	want.Sets = slices.Clone(table.Sets)
	want.Sets[0].Elements = slices.Sorted(slices.Values(addresses(60)))
	want.Sets[1].Elements = nil
	if got := b.read("inet", "x"); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	table.Sets[0].Elements, want.Sets[0].Elements = []string{"10.1.0.0/16"}, []string{"10.1.0.0/16"}
	table.Maps[0].Elements = nil
	if err := b.ReplaceElements(t.Context(), b.ns, table, []string{"s"}); err != nil {
		t.Fatal(err)
	}
	want.Maps = []kernel.TableSet{{Name: "m", Type: "mark", Data: "verdict", Elements: []string{"0x00000001 : jump c2", `0x00000002 comment "a, b" : drop`}}}
	if got := b.read("inet", "x"); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if err := b.ReplaceElements(t.Context(), b.ns, table, []string{"m", "s"}); err != nil {
		t.Fatal(err)
	}
	if got := b.read("inet", "x"); len(got.Maps[0].Elements) != 0 {
		t.Errorf("left %q", got.Maps[0].Elements)
	}
	if list := b.net.Run(t, "nft", "list set inet x d"); !strings.Contains(list, "0x00000001") {
		t.Errorf("another set has lost its elements: %s", list)
	}
}

// The generation is another after each change, and the same after none.
func TestGeneration(t *testing.T) {
	b := newBench(t)
	generation := func() uint32 {
		t.Helper()
		n, err := b.Generation(b.ns)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	first := generation()
	b.net.Run(t, "nft", "add table inet theirs")
	second := generation()
	if second == first || generation() != second {
		t.Errorf("%d, then %d, then %d", first, second, generation())
	}
	b.net.Run(t, "nft", "list ruleset")
	if generation() != second {
		t.Error("reading changes it")
	}
}

// Changes count as such, in their namespace.
func TestWrites(t *testing.T) {
	b := newBench(t)
	before := b.k.WritesIn(b.ns)
	if err := b.ReplaceTable(t.Context(), b.ns, filter); err != nil {
		t.Fatal(err)
	}
	b.read("inet", "filter")
	if n := b.k.WritesIn(b.ns) - before; n != 1 {
		t.Errorf("%d writes, want 1", n)
	}
}

// A host without nft hears what is missing. A process that hangs ends with its context.
func TestProgram(t *testing.T) {
	b := newBench(t)
	_, err := nftables.New(b.k, "/nowhere/nft").Table(t.Context(), b.ns, "inet", "x")
	if !errors.Is(err, kernel.ErrNoProgram) || !strings.Contains(err.Error(), "the package nftables") {
		t.Error(err)
	}
	if _, err := b.Table(t.Context(), 1, "inet", "x"); !errors.Is(err, kernel.ErrNoNamespace) {
		t.Errorf("no such namespace: %v", err)
	}
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	slow := filepath.Join(t.TempDir(), "nft")
	if err := os.WriteFile(slow, []byte("#!/bin/sh\nexec "+sleep+" 600\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := nftables.New(b.k, slow).Table(ctx, b.ns, "inet", "x"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
