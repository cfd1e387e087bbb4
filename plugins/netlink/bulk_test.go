package netlink_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink"
)

// Both ends of a veth, a link that is gone, one that is named twice: all in one
// deletion, and nothing but what was named.
func TestDeleteLinks(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	ns, n := b.open(t)
	var indexes []int
	for i := range 70 { // more than one batch
		l := b.add(t, b.Own(), kernel.LinkSpec{Name: fmt.Sprintf("v%d", i), Up: true, Veth: &kernel.VethSpec{PeerNS: ns, PeerName: fmt.Sprintf("p%d", i)}})
		indexes = append(indexes, l.Index)
	}
	both := b.add(t, b.Own(), kernel.LinkSpec{Name: "a", Veth: &kernel.VethSpec{PeerName: "b"}})
	br := b.add(t, b.Own(), kernel.LinkSpec{Name: "br0", Bridge: &kernel.BridgeSpec{}})
	b.add(t, b.Own(), kernel.LinkSpec{Name: "stays", Group: 4711, Veth: &kernel.VethSpec{PeerName: "stays-p"}})
	indexes = append(indexes, both.Index, both.Parent, br.Index, br.Index, 9999)
	if err := b.DeleteLinks(b.Own(), indexed(indexes...)); err != nil {
		t.Fatal(err)
	}
	if left := b.own.Names(t); !reflect.DeepEqual(left, []string{"stays-p", "stays"}) {
		t.Errorf("left %v", left)
	}
	if left := n.Names(t); len(left) != 0 {
		t.Errorf("peers left %v", left)
	}
	if err := b.DeleteLinks(b.Own(), indexed(indexes...)); err != nil {
		t.Errorf("again: %v", err)
	}
	if err := b.DeleteLinks(b.Own(), nil); err != nil {
		t.Errorf("none: %v", err)
	}
}

// Somebody puts a link of his into our group at the worst moment.
func TestDeleteLinksSparesForeignMembers(t *testing.T) {
	const group = 12345
	var b *bench
	b = newKernel(t, netlink.Options{Random: func() uint32 {
		b.own.IP(t, fmt.Sprintf("link set foreign group %d", group))
		return group
	}})
	b.add(t, b.Own(), kernel.LinkSpec{Name: "foreign", Bridge: &kernel.BridgeSpec{}})
	x := b.add(t, b.Own(), kernel.LinkSpec{Name: "x", Bridge: &kernel.BridgeSpec{}})
	y := b.add(t, b.Own(), kernel.LinkSpec{Name: "y", Bridge: &kernel.BridgeSpec{}})
	if err := b.DeleteLinks(b.Own(), indexed(x.Index, y.Index)); err != nil {
		t.Fatal(err)
	}
	if left := b.own.Names(t); !reflect.DeepEqual(left, []string{"foreign"}) {
		t.Errorf("left %v", left)
	}
}

// Links that share the group by chance are not deleted with it, and it is none that all are in.
func TestDeleteLinksInAGroupThatIsUsed(t *testing.T) {
	numbers := []uint32{0, 1 << 31, 1<<31 | 12345}
	used := 0
	b := newKernel(t, netlink.Options{Random: func() uint32 { used++; return numbers[used-1] }})
	b.add(t, b.Own(), kernel.LinkSpec{Name: "foreign", Group: 12345, Bridge: &kernel.BridgeSpec{}})
	x := b.add(t, b.Own(), kernel.LinkSpec{Name: "x", Bridge: &kernel.BridgeSpec{}})
	y := b.add(t, b.Own(), kernel.LinkSpec{Name: "y", Bridge: &kernel.BridgeSpec{}})
	if err := b.DeleteLinks(b.Own(), indexed(x.Index, y.Index)); err != nil {
		t.Fatal(err)
	}
	if left := b.own.Names(t); !reflect.DeepEqual(left, []string{"foreign"}) || used != len(numbers) {
		t.Errorf("left %v after %d numbers", left, used)
	}
}

// One that cannot be deleted is told, keeps its group and does not keep others.
func TestDeleteLinksWithOneThatStays(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	b.own.IP(t, "link set lo group 99")
	lo, err := b.Link(b.Own(), "lo")
	if err != nil {
		t.Fatal(err)
	}
	x := b.add(t, b.Own(), kernel.LinkSpec{Name: "x", Bridge: &kernel.BridgeSpec{}})
	if err := b.DeleteLinks(b.Own(), []kernel.Link{lo, x}); !errors.Is(err, kernel.ErrUnsupported) {
		t.Errorf("deleting lo: %v", err)
	}
	if lo, err := b.Link(b.Own(), "lo"); err != nil || lo.Group != 99 {
		t.Errorf("%+v, %v", lo, err)
	}
	if left := b.own.Names(t); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

// indexed are links of which no more is known.
func indexed(indexes ...int) (links []kernel.Link) {
	for _, index := range indexes {
		links = append(links, kernel.Link{Index: index})
	}
	return links
}
