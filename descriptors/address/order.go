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

// The kernel lists the IPv4 addresses of a link in the order in which they were added, except that the first
// one of each network is its primary address, and primary addresses precede secondary ones. It cannot
// move an address, so an address that has to come later is removed and added again.

// placed is a managed address and its position. 0, which is any, is after the others.
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

// misplaced returns the addresses that have to be added again, in that order. Its argument is in the order of
// the kernel. An address that is added comes last, so the addresses that stay are the first ones of the
// desired order.
func misplaced(there []placed) []placed {
	desired := slices.Clone(there)
	slices.SortStableFunc(desired, func(a, b placed) int { return comparePositions(a.position, b.position) })
	var primary, secondary []placed
	networks := map[netip.Prefix]bool{}
	for _, p := range desired {
		if networks[p.Network()] {
			secondary = append(secondary, p)
			continue
		}
		networks[p.Network()] = true
		primary = append(primary, p)
	}
	desired = slices.Concat(primary, secondary)
	stay := 0
	for _, p := range there {
		if p.Prefix == desired[stay].Prefix {
			stay++
		}
	}
	return desired[stay:]
}

// placedAmong returns the managed IPv4 addresses of a link. It leaves out networks in which others have added
// addresses, because one of those may be the primary address.
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

// orderNew orders the addresses of links to which some were added, in the order of their positions. That is
// necessary only if others, which were there before, come after the first of them in that order.
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

// order puts the IPv4 addresses of a link into the order of their positions. The kernel makes another address
// primary in place of one that is removed, and that may come before others. Then some addresses are added
// again in a second round.
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
	return errors.New("the addresses of the link are not in order after several tries; another program changes them, see `ip monitor address`")
}

// maxOrders is the number of rounds, of which two suffice if nobody else changes the addresses.
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

// positions returns the desired positions of the addresses of a link; a claim with one may hold an IPv6
// address. Before the sources have synced they are taken from the interface and the ledger.
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

// late returns the addresses of a link that have to be added again to be in order.
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
