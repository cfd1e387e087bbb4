package iface

import (
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kernel/kerneltest"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// readings counts how often a link is read by its index.
type readings struct {
	kernel.Kernel
	n int
}

func (r *readings) LinkByIndex(ns kernel.NS, index int) (kernel.Link, error) {
	r.n++
	return r.Kernel.LinkByIndex(ns, index)
}

// What events say of a link while an operation is at it is judged at the end of that, by the
// last one. The link is read only where that does not show it as the operation left it.
func TestMeanwhile(t *testing.T) {
	for name, test := range map[string]struct {
		// told are the events, of the link as it was born, as it is left, and as others make it.
		told func(d *iface, born, left, others kernel.Link)
		// changed: others do change it.
		changed    bool
		reads, new int
	}{
		"nothing":                   {func(*iface, kernel.Link, kernel.Link, kernel.Link) {}, false, 0, 0},
		"all of it":                 {func(d *iface, born, left, _ kernel.Link) { d.news(born, false); d.news(left, false) }, false, 0, 0},
		"not all of it yet":         {func(d *iface, born, _, _ kernel.Link) { d.news(born, false) }, false, 1, 0},
		"others, and put right":     {func(d *iface, _, left, others kernel.Link) { d.news(others, false); d.news(left, false) }, false, 0, 0},
		"others":                    {func(d *iface, _, left, others kernel.Link) { d.news(left, false); d.news(others, false) }, true, 1, 1},
		"others, not told yet":      {func(d *iface, _, left, _ kernel.Link) { d.news(left, false) }, true, 0, 0},
		"a deletion":                {func(d *iface, _, left, _ kernel.Link) { d.news(left, true); d.news(left, false) }, false, 1, 0},
		"its bridge says something": {func(d *iface, _, left, _ kernel.Link) { d.newsOfPort(left.Ref()); d.news(left, false) }, false, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			k := &readings{Kernel: kerneltest.New(kerneltest.Options{})}
			d := &iface{
				Deps:  Deps{Kernel: k, Owner: kernel.NewOwner("test", "boot", &kernel.MemLedger{}, nil), Names: &kernel.Names{}, Interfaces: &Self{}},
				links: map[kernel.LinkRef]*held{},
			}
			told := 0
			d.setNotify(func(...scheduler.Key) { told++ })
			const key = "interface/br0"
			v := &models.Interface{Link: &models.Interface_Bridge{Bridge: &models.Bridge{}}, Mtu: 1400}
			born, err := k.AddLink(k.Own(), kernel.LinkSpec{Name: "br0", Group: d.Owner.Group(), Accepts: acceptsOf(v), Bridge: &kernel.BridgeSpec{}})
			if err != nil {
				t.Fatal(err)
			}
			if name == "its bridge says something" {
				v.Link.(*models.Interface_Bridge).Bridge.Vlans = []*models.BridgeVlan{{Id: 1, Pvid: true, Untagged: true}}
			}
			ref := born.Ref()
			change := func(p kernel.LinkPatch) kernel.Link {
				if err := k.SetLink(ref.NS, ref.Index, p); err != nil {
					t.Fatal(err)
				}
				l, err := k.Kernel.LinkByIndex(ref.NS, ref.Index)
				if err != nil {
					t.Fatal(err)
				}
				return l
			}
			d.links[ref] = &held{key: key, value: v, busy: true}
			mark, up, mtu, less := d.Owner.Mark(key), true, 1400, 1300
			left := change(kernel.LinkPatch{Alias: &mark, Up: &up, MTU: &mtu})
			others := left
			others.MTU = less
			test.told(d, born, left, others)
			if test.changed {
				change(kernel.LinkPatch{MTU: &less})
			}
			if d.settle(ref, v); k.n != test.reads || told != test.new {
				t.Errorf("%d readings, want %d; %d times told, want %d", k.n, test.reads, told, test.new)
			}
		})
	}
}
