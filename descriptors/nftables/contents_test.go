package nftables_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// list is what nft lists of the table filter in blue, on one line.
func (b *bench) list() string {
	b.t.Helper()
	return strings.Join(strings.Fields(b.blue.Run(b.t, "nft", "list table inet filter")), " ")
}

// connect has a packet come to a port of blue, where nobody listens.
func (b *bench) connect(port string) {
	b.blue.IP(b.t, "link set dev lo up")
	_, _ = b.blue.Try("busybox", "nc", "-w", "1", "127.0.0.1", port)
}

// reason is why what is found is not as asked; "" if it is.
func (b *bench) reason(name, value string) string {
	b.t.Helper()
	for f, err := range b.kind.Retrieve(context.Background(), scope{Keys: []scheduler.Key{key(name)}}) {
		if err != nil {
			b.t.Fatal(err)
		}
		return b.kind.Compare(key(name), f.Value, decode(b.t, value)[0]).Reason
	}
	return "it is not there"
}

const sets = `{"namespace":{"netns":"blue"},
"chains":[{"name":"in","type":"filter","hook":"input","rules":["tcp dport 80 add @seen { ip saddr }","tcp dport vmap @ports","ip saddr @blocked drop"]}],
"sets":[{"name":"seen","type":"ipv4_addr","flags":["dynamic"]},
{"name":"blocked","type":"ipv4_addr","flags":["interval"],"auto_merge":true,"elements":["10.0.0.0/24","10.0.1.0/24","<claim:web>"]}],
"maps":[{"name":"ports","type":"inet_service","data":"verdict","elements":["22 : drop","http : accept"]}]}`

func setsWith(old, now string) string {
	return strings.ReplaceAll(strings.Replace(sets, old, now, 1), "\n", "")
}

// What packets add is no drift, and stays while only elements of other sets change,
// whoever has changed them.
func TestElements(t *testing.T) {
	b := newBench(t)
	asked := setsWith("", "")
	b.must("filter", asked)
	b.connect("80")
	kept := func(when string) {
		t.Helper()
		if !strings.Contains(b.list(), "elements = { 127.0.0.1 }") {
			t.Errorf("%s: what packets have added has gone: %s", when, b.list())
		}
	}
	kept("made")
	if got := b.reason("filter", asked); got != "" {
		t.Errorf("after a packet: %s", got)
	}
	other := setsWith(`"22 : drop"`, `"22 : accept","23 : drop"`)
	b.must("filter", other)
	kept("one more element")
	if got := b.list(); !strings.Contains(got, "elements = { 22 : accept, 23 : drop, 80 : accept }") {
		t.Errorf("made %s", got)
	}
	b.restart()
	if got := b.reason("filter", other); got != "" {
		t.Errorf("after a restart: %s", got)
	}
	b.blue.Run(t, "nft", "delete element inet filter blocked { 10.0.0.0/23 }; add element inet filter ports { 24 : drop }")
	if got := b.reason("filter", other); got != "set blocked is another, map ports is another" {
		t.Errorf("after somebody else: %s", got)
	}
	b.must("filter", other)
	kept("repaired")
	if got := b.list(); !strings.Contains(got, "10.0.0.0/23") || strings.Contains(got, "24 : drop") {
		t.Errorf("not repaired: %s", got)
	}
	// The address of a claim is one of the elements.
	b.held["web"] = "10.0.7.7/24"
	if got := b.reason("filter", other); got != "set blocked is another" {
		t.Errorf("after the address has moved: %s", got)
	}
	b.must("filter", other)
	kept("another address")
	if got := b.list(); !strings.Contains(got, "10.0.7.7") {
		t.Errorf("made %s", got)
	}
	b.blue.Run(t, "nft", "add element inet filter ports { 24 : drop }")
	b.must("filter", setsWith(`"ip saddr @blocked drop"`, `"ip saddr @blocked accept"`))
	if got := b.list(); strings.Contains(got, "127.0.0.1") || strings.Contains(got, "23 : drop") || !strings.Contains(got, "@blocked accept") {
		t.Errorf("a change of rules replaces the table, not %s", got)
	}
}

// Elements that are for good come with another table.
func TestConstant(t *testing.T) {
	b := newBench(t)
	value := strings.Replace(setsWith(`"flags":["interval"],"auto_merge":true`, `"flags":["constant"]`), "10.0.1.0/24", "10.0.1.1", 1)
	value = strings.Replace(value, "10.0.0.0/24", "10.0.0.1", 1)
	b.must("filter", value)
	value = strings.Replace(value, "10.0.1.1", "10.0.1.2", 1)
	b.must("filter", value)
	if got := b.list(); !strings.Contains(got, "elements = { 10.0.0.1, 10.0.0.7, 10.0.1.2 }") {
		t.Errorf("made %s", got)
	}
}

// What is wrong with an element is told with its place, and harms nothing.
func TestBadElements(t *testing.T) {
	b := newBench(t)
	b.must("filter", setsWith("", ""))
	before, ledger := b.list(), b.ledger.String()
	err := b.create("filter", setsWith(`"http : accept"`, `"http8 : accept"`))
	var invalid *scheduler.InvalidError
	if !errors.As(err, &invalid) || invalid.Fields[0].Field != "maps[0].elements[1]" || !strings.Contains(err.Error(), "http8 : accept: nft: ") {
		t.Errorf("%v", err)
	}
	err = b.create("filter", setsWith(`"http : accept"`, `"22 : accept"`))
	if invalid = nil; errors.As(err, &invalid) || err == nil || !strings.Contains(err.Error(), "maps[0].elements[") {
		t.Errorf("what the kernel refuses may do another time: %v", err)
	}
	if b.list() != before || b.ledger.String() != ledger {
		t.Errorf("after\n%s\n%s\nbefore\n%s\n%s", b.list(), b.ledger, before, ledger)
	}
}

// meddling does something after ours was written and before it is read.
type meddling struct {
	kernel.Tables

	then func()
}

func (m meddling) CreateTable(ctx context.Context, ns kernel.NS, t kernel.Table) error {
	err := m.Tables.CreateTable(ctx, ns, t)
	m.then()
	return err
}

func (m meddling) ReplaceTable(ctx context.Context, ns kernel.NS, t kernel.Table) error {
	err := m.Tables.ReplaceTable(ctx, ns, t)
	m.then()
	return err
}

func (m meddling) ReplaceElements(ctx context.Context, ns kernel.NS, t kernel.Table, names []string) error {
	err := m.Tables.ReplaceElements(ctx, ns, t, names)
	m.then()
	return err
}

// What somebody else changes after ours was written and before it is read back is not taken for
// ours, be it all of a table or elements alone that were written.
func TestMeanwhile(t *testing.T) {
	made := setsWith("", "")
	elements := setsWith(`"22 : drop"`, `"22 : accept"`)
	more := setsWith(`"ip saddr @blocked drop"`, `"accept","ip saddr @blocked drop"`)
	for _, c := range []struct{ before, value, theirs, shows string }{
		{made, elements, "add rule inet filter in drop", "@blocked drop drop"},
		{made, elements, "add element inet filter blocked { 10.9.0.0/16 }", "10.9.0.0"},
		{made, elements, "add element inet filter ports { 26 : drop }", "26 : drop"},
		{made, more, "add rule inet filter in drop", "@blocked drop drop"},
		{"", made, "add rule inet filter in drop", "@blocked drop drop"},
	} {
		b := newBench(t)
		if c.before != "" {
			b.must("filter", c.before)
		}
		b.tables = meddling{b.tables, sync.OnceFunc(func() { b.blue.Run(t, "nft", c.theirs) })}
		b.restart()
		b.must("filter", c.value)
		if got := b.list(); strings.Contains(got, c.shows) {
			t.Errorf("%s: %s", c.theirs, got)
		}
		if why := b.reason("filter", c.value); why != "" {
			t.Errorf("%s: %s", c.theirs, why)
		}
	}
}

// watched does something after it was looked at what there is.
type watched struct {
	kernel.Tables

	then func()
}

func (w watched) Table(ctx context.Context, ns kernel.NS, family, name string) (kernel.Table, error) {
	t, err := w.Tables.Table(ctx, ns, family, name)
	w.then()
	return t, err
}

// Nor is what somebody else changes before elements are written, after it was found that these
// are all that is different.
func TestBeforehand(t *testing.T) {
	b := newBench(t)
	b.must("filter", setsWith("", ""))
	b.tables = watched{b.tables, sync.OnceFunc(func() { b.blue.Run(t, "nft", "add rule inet filter in drop") })}
	b.restart()
	value := setsWith(`"22 : drop"`, `"22 : accept"`)
	b.must("filter", value)
	if got, why := b.list(), b.reason("filter", value); strings.Contains(got, "@blocked drop drop") || why != "" {
		t.Errorf("%s: %s", why, got)
	}
}

// A chain at a device has the name of its link, which is in the namespace of the table.
// The value asks for another one when the link is another, or has another name.
func TestDevices(t *testing.T) {
	b := newBench(t)
	const value = `{"namespace":{"netns":"blue"},"family":"netdev","chains":[{"name":"in","type":"filter","hook":"ingress","devices":["up"],"rules":["counter drop"]}]}`
	if err := b.create("filter", value); err == nil || !strings.Contains(err.Error(), "interface/up is not there any more") {
		t.Error(err)
	}
	b.link("up")
	b.blue.Rename(t, "up", "eth.7")
	b.must("filter", value)
	if list := b.blue.Run(t, "nft", "list table netdev filter"); !strings.Contains(list, `device "eth.7"`) {
		t.Errorf("made %s", list)
	}
	b.restart()
	if got := b.reason("filter", value); got != "" {
		t.Errorf("after a restart: %s", got)
	}
	b.blue.Run(t, "nft", "add rule netdev filter in accept")
	if got := b.reason("filter", value); got != "chain in is another" {
		t.Errorf("after somebody else: %s", got)
	}
	err := b.create("other", strings.Replace(value, `"namespace":{"netns":"blue"},`, "", 1))
	var class *scheduler.OpError
	if !errors.As(err, &class) || class.On != "interface/up" || !strings.Contains(err.Error(), "lives in another namespace than the table") {
		t.Errorf("in another namespace: %v", err)
	}
	need := b.kind.Needs(key("filter"), decode(t, value)[0])[1]
	link := need.Project(&models.Interface{}, b.links["interface/up"])
	if named := need.Project(&models.Interface{HostName: "eth0"}, b.links["interface/up"]); named == link {
		t.Error("another name is not told")
	}
	b.blue.IP(t, "link del dev eth.7")
	b.link("up")
	if another := need.Project(&models.Interface{}, b.links["interface/up"]); another == link {
		t.Error("another link is not told")
	}
	b.must("filter", value)
	if list := b.blue.Run(t, "nft", "list table netdev filter"); !strings.Contains(list, `device "up"`) {
		t.Errorf("made %s", list)
	}
}

// A flowtable is made where the kernel has them, and else told of with its place.
func TestFlowtable(t *testing.T) {
	b := newBench(t)
	b.link("up")
	b.link("down")
	const value = `{"namespace":{"netns":"blue"},"flowtables":[{"name":"fast","devices":["up","down"],"counter":true}],"chains":[{"name":"passing","type":"filter","hook":"forward","rules":["ct state established flow add @fast"]}]}`
	_, err := b.blue.Try("nft", "add table inet theirs; add flowtable inet theirs f { hook ingress priority 0; devices = { up }; }")
	_, _ = b.blue.Try("nft", "delete table inet theirs")
	if err != nil { // a kernel without flowtables
		if err := b.create("filter", value); err == nil || !strings.Contains(err.Error(), "flowtables[0]: nft: ") || !strings.Contains(err.Error(), "nf_flow_table") {
			t.Error(err)
		}
		return
	}
	b.must("filter", value)
	b.restart()
	if got := b.reason("filter", value); got != "" {
		t.Errorf("after a restart: %s", got)
	}
}
