package netlink_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink"
)

// Of many names each is answered as if it were asked for by itself, in whatever order they come.
func TestLinksByName(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	ns, own := b.open(t)
	other, _ := b.open(t)
	var specs []kernel.LinkSpec
	for i := range 100 {
		specs = append(specs, kernel.LinkSpec{Name: fmt.Sprintf("a%d", i), Veth: &kernel.VethSpec{PeerNS: other, PeerName: fmt.Sprintf("p%d", i)}})
	}
	if _, errs := b.AddLinks(ns, specs); errors.Join(errs...) != nil {
		t.Fatal(errors.Join(errs...))
	}
	own.IP(t, "link property add dev a7 altname another")
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("a%d", i))
		switch i % 10 {
		case 3:
			names = append(names, "gone")
		case 4:
			names = append(names, "no name at all", "a%d")
		case 5:
			names = append(names, "lo", "another", names[0])
		}
	}
	before := b.Writes()
	links, errs := b.LinksByName(ns, names)
	if len(links) != len(names) || len(errs) != len(names) {
		t.Fatalf("%d links and %d errors of %d names", len(links), len(errs), len(names))
	}
	for i, name := range names {
		l, err := b.Link(ns, name)
		if fmt.Sprint(err) != fmt.Sprint(errs[i]) || !reflect.DeepEqual(l, links[i]) {
			t.Errorf("%s: %+v, %v; by itself: %+v, %v", name, links[i], errs[i], l, err)
		}
	}
	if b.Writes() != before {
		t.Error("reading counts as writing")
	}
	if _, errs := b.LinksByName(1, names[:2]); !errors.Is(errs[0], kernel.ErrNoNamespace) || !errors.Is(errs[1], kernel.ErrNoNamespace) {
		t.Error(errs)
	}
	if links, errs := b.LinksByName(ns, nil); len(links) != 0 || len(errs) != 0 {
		t.Error(links, errs)
	}
}

// Of many links, those that cannot be made keep none of the others from being made, wherever
// they stand; what is made, and how it is shown, is as if each were made by itself.
func TestAddLinks(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	ns, _ := b.open(t)
	other, _ := b.open(t)
	const many = 100
	spec := func(name string, i int) kernel.LinkSpec {
		s := kernel.LinkSpec{Name: fmt.Sprintf("%s%d", name, i), Group: 7, Up: i%2 == 0}
		switch i % 10 {
		case 3:
			s.Alias, s.Bridge = "x", &kernel.BridgeSpec{}
		case 4:
			s.Tuntap = &kernel.TuntapSpec{}
		case 5:
			s.Name = fmt.Sprintf("%s%d", name, i-1) // taken
			s.Bridge = &kernel.BridgeSpec{}
		case 6:
			s.Name, s.Bridge = "no name at all", &kernel.BridgeSpec{}
		case 7:
			s.Veth = &kernel.VethSpec{PeerNS: other, PeerName: fmt.Sprintf("%sp%d", name, i-1)} // taken there
		case 8:
			s.Veth = &kernel.VethSpec{PeerNS: 1, PeerName: "p"} // nowhere
		default:
			s.Veth = &kernel.VethSpec{PeerNS: other, PeerName: fmt.Sprintf("%sp%d", name, i), PeerGroup: 7}
			if i%10 == 9 {
				s.Veth.PeerAlias, s.Veth.PeerUp = "y", true
			}
		}
		if i%10 == 7 {
			s.Veth.PeerName = fmt.Sprintf("%sp%d", name, i-5)
		}
		return s
	}
	var specs []kernel.LinkSpec
	for i := range many {
		specs = append(specs, spec("a", i))
	}
	before := b.Writes()
	links, errs := b.AddLinks(ns, specs)
	asked := b.Writes() - before
	before = b.Writes()
	for i := range many {
		l, err := b.AddLink(ns, spec("b", i))
		same := func(text string) string { return strings.NewReplacer("bp", "ap", `"b`, `"a`).Replace(text) }
		if (err == nil) != (errs[i] == nil) || err != nil && same(err.Error()) != errs[i].Error() {
			t.Errorf("link %d: %v, by itself: %v", i, errs[i], err)
		}
		if err != nil {
			continue
		}
		if links[i].Name != specs[i].Name || links[i].Index == 0 || links[i].MAC == l.MAC {
			t.Errorf("link %d: %+v", i, links[i])
		}
		if links[i].Parent == 0 != (l.Parent == 0) {
			t.Errorf("link %d: %+v, by itself: %+v", i, links[i], l)
		}
		shown, err := b.LinkByIndex(ns, links[i].Index)
		if err != nil || shown.Name != links[i].Name || shown.Group != links[i].Group || shown.Alias != links[i].Alias {
			t.Errorf("link %d: %+v is %+v, %v", i, links[i], shown, err)
		}
		links[i].Index, links[i].Name, links[i].MAC, links[i].Parent = l.Index, l.Name, l.MAC, l.Parent
		if got, want := fmt.Sprintf("%+v", links[i]), fmt.Sprintf("%+v", l); l.Type == "veth" && got != want {
			t.Errorf("link %d:\n%s\nby itself:\n%s", i, got, want)
		}
	}
	if alone := b.Writes() - before; asked != alone {
		t.Errorf("%d writes for all, %d for one after the other", asked, alone)
	}
	if _, errs := b.AddLinks(1, specs[:2]); !errors.Is(errs[0], kernel.ErrNoNamespace) || !errors.Is(errs[1], kernel.ErrNoNamespace) {
		t.Errorf("no namespace: %v", errs)
	}
}

// The same of changes. What takes several requests is done in its order, and ends at the first
// that is refused.
func TestSetLinks(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	ns, _ := b.open(t)
	br, err := b.AddLink(ns, kernel.LinkSpec{Name: "br0", Bridge: &kernel.BridgeSpec{}})
	if err != nil {
		t.Fatal(err)
	}
	var specs []kernel.LinkSpec
	for i := range 100 {
		specs = append(specs, kernel.LinkSpec{Name: fmt.Sprintf("a%d", i), Veth: &kernel.VethSpec{PeerName: fmt.Sprintf("p%d", i)}})
	}
	links, errs := b.AddLinks(ns, specs)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	var changes []kernel.LinkChange
	for i, l := range links {
		c := kernel.LinkChange{Index: l.Index, Patch: kernel.LinkPatch{Alias: ref("x"), Master: &br.Index, Up: ref(true)}}
		switch i % 10 {
		case 3:
			c.Index = 1 << 20
		case 4:
			c.Index = 0
		case 5:
			c.Patch.Master = ref(1 << 20)
		case 6:
			c.Patch.Name = ref("br0") // refused, and with it what comes after it
		case 7:
			c.Patch.MTU, c.Patch.Port = ref(1400), &kernel.PortSpec{Isolated: ref(true)}
		case 8:
			c.Patch = kernel.LinkPatch{}
		}
		changes = append(changes, c)
	}
	before := b.Writes()
	errs = b.SetLinks(ns, changes)
	if n := b.Writes() - before; n != 10*(4+1+1+1+3) {
		t.Errorf("%d writes", n)
	}
	for i, l := range links {
		want, refused := kernel.Link{Alias: "x", Up: true, Master: br.Index, MTU: 1500}, false
		switch i % 10 {
		case 3, 4, 6:
			want, refused = kernel.Link{MTU: 1500}, true
		case 5:
			want.Master, refused = 0, true
		case 7:
			want.MTU = 1400
		case 8:
			want = kernel.Link{MTU: 1500}
		}
		if refused != (errs[i] != nil) {
			t.Errorf("change %d: %v", i, errs[i])
		}
		is, err := b.LinkByIndex(ns, l.Index)
		if err != nil || is.Alias != want.Alias || is.Up != want.Up || is.Master != want.Master || is.MTU != want.MTU {
			t.Errorf("change %d: %+v, %v", i, is, err)
		}
		if isolated := is.Port != nil && is.Port.Isolated != nil && *is.Port.Isolated; isolated != (i%10 == 7) {
			t.Errorf("change %d: isolated %v", i, isolated)
		}
	}
}

// The same of addresses, which go together as well.
func TestAddresses(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	ns, _ := b.open(t)
	l, err := b.AddLink(ns, kernel.LinkSpec{Name: "br0", Bridge: &kernel.BridgeSpec{}})
	if err != nil {
		t.Fatal(err)
	}
	var as []kernel.Address
	for i := range 200 {
		a := kernel.Address{Index: l.Index, Prefix: prefix(fmt.Sprintf("10.0.%d.1/24", i))}
		switch i % 10 {
		case 3:
			a.Index = 1 << 20
		case 4:
			a.Prefix = as[i-4].Prefix
		case 5:
			a.Prefix = prefix("::ffff:10.0.0.1/120")
		}
		as = append(as, a)
	}
	for _, c := range []struct {
		name  string
		do    func(kernel.NS, []kernel.Address) []error
		twice error // of an address that was named before
		left  int
	}{
		{"add", b.AddAddresses, kernel.ErrExist, 140},
		{"delete", b.DeleteAddresses, kernel.ErrNotExist, 0},
	} {
		before := b.Writes()
		errs := c.do(ns, as)
		if n := b.Writes() - before; n != 180 {
			t.Errorf("%s: %d writes", c.name, n)
		}
		for i, err := range errs {
			want := map[int]error{3: kernel.ErrNotExist, 4: c.twice}[i%10]
			if i%10 == 5 && err == nil || i%10 != 5 && !errors.Is(err, want) {
				t.Errorf("%s address %d: %v", c.name, i, err)
			}
		}
		if there, err := b.Addresses(ns, l.Index); err != nil || len(there) != c.left {
			t.Errorf("%s: %d are there, %v", c.name, len(there), err)
		}
	}
}
