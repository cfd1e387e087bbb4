package address

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// The kernel lists the IPv4 addresses of a link in the order in which they were added, but for this: the
// first of each network is its primary address, and all primary addresses come first. It cannot move an
// address. So one that has to come later is removed and added again.

// placed is an address of ours and its position, 0 for anywhere, which is after the others.
type placed struct {
	kernel.Address
	position uint32
}

// comparePositions orders positions; 0 is after the others.
func comparePositions(a, b uint32) int {
	last := func(p uint32) uint32 {
		if p == 0 {
			return math.MaxUint32
		}
		return p
	}
	return cmp.Compare(last(a), last(b))
}

// misplaced returns those of the addresses that have to be added again, in that order. The addresses are
// in the order of the kernel. As what is added comes last, those that stay are the first of the
// wanted order.
func misplaced(there []placed) []placed {
	wanted := slices.Clone(there)
	slices.SortStableFunc(wanted, func(a, b placed) int { return comparePositions(a.position, b.position) })
	var primary, secondary []placed
	networks := map[netip.Prefix]bool{}
	for _, p := range wanted {
		if networks[p.Network()] {
			secondary = append(secondary, p)
			continue
		}
		networks[p.Network()] = true
		primary = append(primary, p)
	}
	wanted = slices.Concat(primary, secondary)
	stay := 0
	for _, p := range there {
		if p.Prefix == wanted[stay].Prefix {
			stay++
		}
	}
	return wanted[stay:]
}

// placedAmong returns the IPv4 addresses of ours among those of a link. Networks in which others have added
// addresses are left out: one of those may be the primary address.
func (d *address) placedAmong(link kernel.LinkRef, there []kernel.Address, of func(kernel.Address) (position uint32, ours bool)) (list []placed) {
	others := map[netip.Prefix]bool{}
	for _, a := range there {
		if !a.Prefix.Addr().Is4() {
			continue
		}
		position, ours := of(a)
		if _, shared := d.shared.Get(link, a.Prefix); shared || !ours {
			others[a.Network()] = true
		} else {
			list = append(list, placed{a, position})
		}
	}
	return slices.DeleteFunc(list, func(p placed) bool { return others[p.Network()] })
}

// orderNew orders the addresses of links after some have been added, in the order of their positions. There is
// something to do only if others, which were there before, are to come after the first of them.
func (d *address) orderNew(jobs []*job) {
	isNew := map[scheduler.Key]bool{}
	first := map[kernel.LinkRef]*job{}
	for _, j := range jobs {
		if j.err != nil {
			continue
		}
		isNew[j.op.Key] = true
		if link := j.op.Meta.LinkRef; first[link] == nil && j.op.Value.GetPosition() != 0 {
			first[link] = j
		}
	}
	for link, j := range first {
		after := func(h held) bool { return h.position > j.op.Value.GetPosition() && !isNew[h.key] }
		if !slices.ContainsFunc(d.have.In(link), after) {
			continue
		}
		if err := d.order(link); err != nil {
			j.unusable = cmp.Or(j.unusable, err)
		}
	}
}

// order has the IPv4 addresses of a link be in the order of their positions. An address that the kernel
// makes primary in place of one that was removed may come before others, so that some addresses have to be
// added again once more.
func (d *address) order(link kernel.LinkRef) error {
	for range maxOrders {
		there, err := d.Kernel.Addresses(link.NS, link.Index)
		if err != nil {
			return fmt.Errorf("read the addresses of the link to order them: %w", err)
		}
		late := misplaced(d.placedAmong(link, there, func(a kernel.Address) (uint32, bool) {
			h, ours := d.have.Get(link, a.Prefix)
			return h.position, ours
		}))
		if len(late) == 0 {
			return nil
		}
		if err := d.addAgain(link, there, late); err != nil {
			return err
		}
	}
	return errors.New("others change the order of the addresses of the link")
}

// maxOrders is how often addresses of a link are added again before somebody else is thought to change
// them: twice is enough.
const maxOrders = 4

// addAgain removes addresses from a link and adds them again.
func (d *address) addAgain(link kernel.LinkRef, there []kernel.Address, late []placed) error {
	r := &removal{link: link, there: there}
	for _, p := range late {
		r.doomed = append(r.doomed, p.Address)
	}
	again := slices.Clone(r.doomed)
	d.remove([]*removal{r})
	for i, err := range d.Kernel.AddAddresses(link.NS, again) {
		if err != nil && !errors.Is(err, kernel.ErrExist) {
			r.err = cmp.Or(r.err, fmt.Errorf("add %s again, which is to come after other addresses: %w", again[i].Prefix, err))
		}
	}
	return r.err
}

// positions returns the positions that the addresses of a link are to have, also the IPv6 address of a claim. Before the sources have synced
// they are those that the list of the interface or the ledger says.
func (r *search) positions(l link, there []kernel.Address) map[netip.Prefix]uint32 {
	listed, positions := r.d.interfaceOf(l.name).AddressPositions(l.name), map[netip.Prefix]uint32{}
	for _, a := range there {
		if n := r.position(l, a, listed); n != 0 {
			positions[a.Prefix] = n
		}
	}
	return positions
}

func (r *search) position(l link, a kernel.Address, listed map[string]uint32) uint32 {
	if kn := r.wanted[place{l.name, a.Prefix}]; kn.Value != nil {
		return kn.Value.GetPosition()
	}
	k, _ := r.keyOf(l, kernel.AddressRef{LinkRef: l.ref, Prefix: a.Prefix})
	if e, recorded := r.d.Owner.Entry(string(k)); recorded {
		return r.written(true, e).GetPosition()
	}
	return listed[models.AddressKey(l.name, a.Prefix.String())]
}

// late returns the addresses of a link that are to come after others, and do not.
func (r *search) late(l link, there []kernel.Address) map[netip.Prefix]bool {
	if len(l.positions) == 0 {
		return nil
	}
	list := r.d.placedAmong(l.ref, there, func(a kernel.Address) (uint32, bool) {
		at := kernel.AddressRef{LinkRef: l.ref, Prefix: a.Prefix}
		_, ours := r.keyOf(l, at)
		return l.positions[a.Prefix], ours || l.ours
	})
	late := map[netip.Prefix]bool{}
	for _, p := range misplaced(list) {
		late[p.Prefix] = true
	}
	return late
}
