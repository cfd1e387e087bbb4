package kerneltest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// Nexthops of a namespace by number.
func (k *Kernel) Nexthops(ns kernel.NS) (list []kernel.Nexthop, err error) {
	err = k.in(ns, "Nexthops", "list nexthops", func(n *namespace) error {
		for _, id := range slices.Sorted(maps.Keys(n.nexthops)) {
			h := *n.nexthops[id]
			h.Group = slices.Clone(h.Group)
			list = append(list, h)
		}
		return nil
	})
	return list, err
}

// AddNexthop adds a nexthop.
func (k *Kernel) AddNexthop(ns kernel.NS, r kernel.Nexthop) error {
	return k.putNexthop(ns, "AddNexthop", "add", r, func(there *kernel.Nexthop) error {
		if there != nil {
			return refused(syscall.EEXIST)
		}
		return nil
	})
}

// ReplaceNexthop puts a nexthop in the place of the one of its number.
func (k *Kernel) ReplaceNexthop(ns kernel.NS, r kernel.Nexthop) error {
	return k.putNexthop(ns, "ReplaceNexthop", "replace", r, func(there *kernel.Nexthop) error {
		switch {
		case there == nil:
			return refused(syscall.ENOENT)
		case (len(there.Group) > 0) != (len(r.Group) > 0):
			return syscall.EINVAL
		}
		return nil
	})
}

var errNoNexthop = errors.New("no nexthop of ours")

func (k *Kernel) putNexthop(ns kernel.NS, method, act string, r kernel.Nexthop, may func(there *kernel.Nexthop) error) error {
	return k.write(ns, method, fmt.Sprintf("%s nexthop %d", act, r.ID), func(n *namespace) error {
		if r.ID == 0 || r.More || r.Index < 0 {
			return fmt.Errorf("%w: %w", errNoNexthop, syscall.EINVAL)
		}
		r.Group = slices.Clone(r.Group)
		if err := n.checkNexthop(&r); err != nil {
			return err
		}
		if err := may(n.nexthops[r.ID]); err != nil {
			return err
		}
		n.nexthops[r.ID] = &r
		seen := r
		k.tell(kernel.Event{NS: n.id, Nexthop: &seen})
		k.refill(n)
		return nil
	})
}

func (n *namespace) checkNexthop(r *kernel.Nexthop) error {
	if len(r.Group) > 0 {
		for i, m := range r.Group {
			if m.Weight < 1 || m.Weight > 256 {
				return fmt.Errorf("weight %d: %w: %w", m.Weight, errNoNexthop, syscall.EINVAL)
			}
			one := n.nexthops[m.ID]
			again := slices.ContainsFunc(r.Group[:i], func(other kernel.NexthopMember) bool { return other.ID == m.ID })
			if one == nil || again || len(one.Group) > 0 || one.Blackhole && len(r.Group) > 1 {
				return syscall.EINVAL
			}
		}
		r.IPv6, r.Index, r.Onlink, r.Encap = false, 0, false, kernel.Encap{}
		return nil
	}
	if r.Blackhole {
		if lo := n.names[loopback]; !lo.Up {
			return refused(syscall.ENETDOWN)
		}
		r.Index, r.Onlink, r.Encap = 0, false, kernel.Encap{}
		return nil
	}
	if err := checkEncap(r.Encap); err != nil {
		return err
	}
	l := n.links[r.Index]
	switch {
	case l == nil:
		return refused(syscall.ENODEV)
	case !l.Up:
		return refused(syscall.ENETDOWN)
	case !l.running:
		return refused(syscall.ENETDOWN)
	case !r.Gateway.IsValid():
		return nil
	case r.Gateway.Is6():
		return n.checkGateway6(&r.Index, r.Gateway, r.Onlink)
	}
	return n.checkWay4(&r.Index, r.Gateway, r.Onlink, 0, tableMain)
}

// DeleteNexthop removes a nexthop, with the routes that refer to it.
func (k *Kernel) DeleteNexthop(ns kernel.NS, id uint32) error {
	return k.write(ns, "DeleteNexthop", fmt.Sprintf("delete nexthop %d", id), func(n *namespace) error {
		h := n.nexthops[id]
		if h == nil {
			return refused(syscall.ENOENT)
		}
		k.dropNexthop(n, h)
		k.tell(kernel.Event{NS: n.id, Nexthop: h, Deleted: true})
		return nil
	})
}

// dropNexthop removes a nexthop from the groups that have it, and those that are empty then.
func (k *Kernel) dropNexthop(n *namespace, h *kernel.Nexthop) {
	delete(n.nexthops, h.ID)
	for _, r := range n.routes.all() {
		if r.Nexthop == h.ID {
			k.removeRoute(n, r, r.Dst.Addr().Is6())
		}
	}
	for _, id := range slices.Sorted(maps.Keys(n.nexthops)) {
		g := n.nexthops[id]
		if len(g.Group) == 0 {
			continue
		}
		g.Group = slices.DeleteFunc(g.Group, func(m kernel.NexthopMember) bool { return m.ID == h.ID })
		if len(g.Group) == 0 {
			k.dropNexthop(n, g)
		}
	}
	k.refill(n)
}

// dropNexthops removes those of a link that has no carrier any more, of which nothing is told.
func (k *Kernel) dropNexthops(l *link) {
	for _, id := range slices.Sorted(maps.Keys(l.ns.nexthops)) {
		if h := l.ns.nexthops[id]; h != nil && h.Index == l.Index {
			k.dropNexthop(l.ns, h)
		}
	}
}

// refill tells in all routes by nexthops where these lead now.
func (k *Kernel) refill(n *namespace) {
	for _, r := range n.routes.all() {
		h := n.nexthops[r.Nexthop]
		if r.Nexthop == 0 || h == nil {
			continue
		}
		n.routes.remove(r)
		n.fill(&r, h)
		n.routes.add(r, false)
	}
}

func (n *namespace) isIPv6(h *kernel.Nexthop) bool {
	if len(h.Group) > 0 {
		one := n.nexthops[h.Group[0].ID]
		return one != nil && one.IPv6
	}
	return h.IPv6
}

// hasGateway6 reports whether packets of IPv4 can go by a nexthop of IPv6.
func (n *namespace) hasGateway6(h *kernel.Nexthop) bool {
	if len(h.Group) > 0 {
		one := n.nexthops[h.Group[0].ID]
		return one != nil && one.Gateway.Is6()
	}
	return h.Gateway.Is6()
}
