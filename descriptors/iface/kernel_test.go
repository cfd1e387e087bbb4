package iface_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// dig finds a field of an object by its path.
func dig(object any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		m, _ := object.(map[string]any)
		object = m[name]
	}
	return object
}

func TestVethIsBornInPlace(t *testing.T) {
	b := newBench(t, "blue")
	b.make("br0", `{"bridge":{}}`)
	// The end with the smaller key makes the pair, knowing what the other wants.
	kb, vb := b.want("web", `{"namespace":{"netns":"blue"},"host_name":"eth0","mtu":1400,"mac_address":"02:00:00:00:00:02","veth":{"peer":"port"}}`)
	port := b.make("port", `{"veth":{"peer":"web"},"mtu":1400,"master":"br0"}`)
	eth0 := b.nets["blue"].Show(t, "eth0")
	if eth0 == nil || fmt.Sprint(eth0["mtu"]) != "1400" || eth0["address"] != "02:00:00:00:00:02" {
		t.Fatalf("the other end was not born as it should be: %v", eth0)
	}
	index := int(eth0["ifindex"].(float64))
	web, err := b.create(kb, vb)
	if err != nil {
		t.Fatal(err)
	}
	if web.Index != index {
		t.Errorf("the other end has index %d, was born with %d", web.Index, index)
	}
	b.same("web", "port")
	if b.ledger.Writes() != 2 {
		t.Errorf("%d writes of the ledger, want one for the bridge and one for the pair", b.ledger.Writes())
	}

	// Deleting one end removes both; the other's deletion finds nothing.
	for _, name := range []string{"web", "port"} {
		if err := b.delete(name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.LinkByIndex(port.NS, port.Index); !errors.Is(err, kernel.ErrNotExist) {
		t.Errorf("the pair is still there: %v", err)
	}
	b.same()
}

func TestEitherEndMendsAPair(t *testing.T) {
	for _, mender := range []string{"a", "b"} {
		t.Run(mender, func(t *testing.T) {
			b := newBench(t, "blue")
			kb, vb := b.want("b", `{"namespace":{"netns":"blue"},"veth":{"peer":"a"}}`)
			b.make("a", `{"veth":{"peer":"b"}}`)
			if _, err := b.create(kb, vb); err != nil {
				t.Fatal(err)
			}
			b.own.IP(t, "link del dev a")
			k := scheduler.Key(models.InterfaceKey(mender))
			v, _ := b.self.Wanted(k)
			if _, err := b.create(k, v); err != nil {
				t.Fatalf("make the pair again: %v", err)
			}
			for _, other := range []string{"a", "b"} {
				k := scheduler.Key(models.InterfaceKey(other))
				v, _ := b.self.Wanted(k)
				if _, err := b.create(k, v); err != nil {
					t.Fatal(err)
				}
			}
			b.same("a", "b")
		})
	}
}

func TestForeignLinksStay(t *testing.T) {
	b := newBench(t, "blue")
	group := kernel.Group(label)
	blue := b.nets["blue"]
	for _, cmd := range []string{
		"link add eth0 type bridge",
		fmt.Sprintf("link add eth1 group %d type bridge", group), // the same group
		"link add eth2 type bridge",
	} {
		blue.IP(t, cmd)
	}
	blue.IP(t, "link set eth2 alias plumb:other:interface/x")
	before := blue.IP(t, "-o link show")
	for i := range 3 {
		name := fmt.Sprintf("x%d", i)
		_, err := b.try(name, fmt.Sprintf(`{"namespace":{"netns":"blue"},"host_name":"eth%d","bridge":{}}`, i))
		var class *scheduler.OpError
		if !errors.As(err, &class) || class.Owner == "" {
			t.Errorf("eth%d: %v, want a conflict", i, err)
		}
		b.self.drop(scheduler.Key(models.InterfaceKey(name)))
	}
	// The far end of a veth may be what is in the way.
	b.want("y", `{"namespace":{"netns":"blue"},"host_name":"eth0","veth":{"peer":"p"}}`)
	_, err := b.try("p", `{"veth":{"peer":"y"}}`)
	if err == nil || !strings.Contains(err.Error(), "eth0 is there already in netns blue") {
		t.Errorf("far end: %v", err)
	}
	if after := blue.IP(t, "-o link show"); after != before {
		t.Errorf("foreign links were touched:\n%s\n%s", before, after)
	}
	if len(b.ledger.Entries("")) != 0 {
		t.Errorf("the ledger names what was never made:\n%s", b.ledger)
	}
}

// A link of ours that somebody deleted and made anew, even with the same index,
// is no longer ours.
func TestDeleteSparesASuccessor(t *testing.T) {
	b := newBench(t)
	ref := b.make("bridge0", `{"bridge":{}}`)
	b.own.IP(t, "link del dev bridge0")
	b.own.IP(t, fmt.Sprintf("link add bridge0 index %d type bridge", ref.Index))
	if err := b.delete("bridge0"); err != nil {
		t.Fatal(err)
	}
	if b.own.Show(t, "bridge0") == nil {
		t.Error("the successor was deleted")
	}
}

func TestDeleteInADeadNamespaceIsSuccess(t *testing.T) {
	b := newBench(t)
	ref := kernel.LinkRef{NS: 12345, Index: 7}
	k, v := b.want("x", `{"namespace":{"netns":"dead"},"bridge":{}}`)
	if err := b.kind.Delete(context.Background(), k, v, ref); err != nil {
		t.Fatal(err)
	}
}

// One write of the ledger for a batch, one deletion for many.
func TestBatches(t *testing.T) {
	b := newBench(t, "blue")
	const n = 20
	var ends, others []*op
	for i := range n {
		kb, vb := b.want(fmt.Sprintf("z%02d", i), fmt.Sprintf(`{"namespace":{"netns":"blue"},"veth":{"peer":"a%02d"}}`, i))
		ka, va := b.want(fmt.Sprintf("a%02d", i), fmt.Sprintf(`{"veth":{"peer":"z%02d"}}`, i))
		ends, others = append(ends, &op{Key: ka, Value: va}), append(others, &op{Key: kb, Value: vb})
	}
	for _, ops := range [][]*op{ends, others} {
		b.kind.CreateBatch(context.Background(), ops)
		for _, o := range ops {
			if o.Err != nil {
				t.Fatal(o.Key, o.Err)
			}
			b.self.put(o.Key, o.Value, o.Meta)
		}
	}
	if b.ledger.Writes() != 1 {
		t.Errorf("%d writes of the ledger for %d pairs, want 1", b.ledger.Writes(), n)
	}
	b.same()
	for _, ops := range [][]*op{others, ends} { // as the scheduler would: those that need the other first
		b.kind.DeleteBatch(context.Background(), ops)
		for _, o := range ops {
			if o.Err != nil {
				t.Fatal(o.Key, o.Err)
			}
			b.self.drop(o.Key)
		}
	}
	b.same()
	if names := b.own.Names(t); len(names) != 0 {
		t.Errorf("left: %v", names)
	}
	if left := b.ledger.Entries(""); len(left) != 0 {
		t.Errorf("the ledger still names %d", len(left))
	}
}

func TestMasterMustLiveInTheSameNamespace(t *testing.T) {
	b := newBench(t, "blue")
	b.make("br", `{"namespace":{"netns":"blue"},"bridge":{}}`)
	_, err := b.try("t", `{"tap":{},"master":"br"}`)
	if err == nil || !strings.Contains(err.Error(), "master br lives in netns blue and this interface in the agent's own namespace") {
		t.Error(err)
	}
}

func TestTunnelIdentifierInUse(t *testing.T) {
	b := newBench(t)
	b.own.IP(t, "link add theirs type vxlan id 7 dstport 4789 remote 192.0.2.9")
	_, err := b.try("vx", `{"vxlan":{"vni":7,"remote":"192.0.2.2"}}`)
	if err == nil || !strings.Contains(err.Error(), "vni 7 is in use by the link theirs") {
		t.Error(err)
	}
}

// A mark that does not fit into an alias is cut, and compared with those of the
// keys that are known.
func TestMarkThatWasCut(t *testing.T) {
	b := newBench(t)
	b.label = strings.Repeat("l", 63)
	b.restart()
	name := strings.Repeat("n", 200)
	value := `{"host_name":"bridge0","bridge":{}}`
	ref := b.make(name, value)
	if alias := b.own.Show(t, "bridge0")["ifalias"].(string); len(alias) != 255 {
		t.Errorf("the alias has %d bytes", len(alias))
	}
	b.same(name)
	b.restart()
	b.want(name, value)
	b.same(name)
	*b.ledger = kernel.MemLedger{}
	b.same(name)
	b.self.put(scheduler.Key(models.InterfaceKey(name)), b.value(value), ref)
	if err := b.delete(name); err != nil {
		t.Fatal(err)
	}
	if names := b.own.Names(t); len(names) != 0 {
		t.Errorf("left %v", names)
	}
}
