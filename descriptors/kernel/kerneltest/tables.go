package kerneltest

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// Neighbors that somebody has set, of all links.
func (k *Kernel) Neighbors(ns kernel.NS) (list []kernel.Neighbor, err error) {
	err = k.in(ns, "Neighbors", "list neighbors", func(n *namespace) error {
		for _, l := range n.sorted() {
			list = append(list, l.sortedNeighbors()...)
		}
		return nil
	})
	return list, err
}

func (l *link) sortedNeighbors() (list []kernel.Neighbor) {
	for _, one := range l.neighbors {
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b kernel.Neighbor) int { return a.Address.Compare(b.Address) })
	return list
}

// Neighbor is the one of that link and address.
func (k *Kernel) Neighbor(ns kernel.NS, index int, a netip.Addr) (found kernel.Neighbor, err error) {
	err = k.in(ns, "Neighbor", fmt.Sprintf("read neighbor %s of link %d", a, index), func(n *namespace) error {
		l, err := n.forNeighbor(kernel.Neighbor{Index: index, Address: a})
		if err != nil {
			return err
		}
		one, there := l.neighbors[a]
		if !there {
			return refused(syscall.ENOENT)
		}
		found = one
		return nil
	})
	return found, err
}

func (n *namespace) forNeighbor(r kernel.Neighbor) (*link, error) {
	if !r.Address.IsValid() || r.Address.Is4In6() {
		return nil, fmt.Errorf("not an address: %w", syscall.EINVAL)
	}
	return n.link(r.Index)
}

// AddNeighbor makes a permanent neighbor.
func (k *Kernel) AddNeighbor(ns kernel.NS, r kernel.Neighbor) error {
	return k.putNeighbor(ns, "AddNeighbor", "add", r, func(there bool) error {
		if there {
			return refused(syscall.EEXIST)
		}
		return nil
	})
}

// ReplaceNeighbor makes a permanent neighbor, whatever is at its address.
func (k *Kernel) ReplaceNeighbor(ns kernel.NS, r kernel.Neighbor) error {
	return k.putNeighbor(ns, "ReplaceNeighbor", "replace", r, func(bool) error { return nil })
}

func (k *Kernel) putNeighbor(ns kernel.NS, method, act string, r kernel.Neighbor, may func(there bool) error) error {
	return k.write(ns, method, fmt.Sprintf("%s neighbor %s of link %d", act, r.Address, r.Index), func(n *namespace) error {
		l, err := n.forNeighbor(r)
		if err != nil {
			return err
		}
		hw, err := net.ParseMAC(r.MAC)
		if err != nil {
			return fmt.Errorf("%w: %w", err, syscall.EINVAL)
		}
		if r.Address.Is6() && (l.MTU < minMTU6 || k.ipv6Disabled(l)) {
			return syscall.EINVAL
		}
		was, there := l.neighbors[r.Address]
		if err := may(there); err != nil {
			return err
		}
		r.MAC, r.Protocol = hw.String(), cmp.Or(r.Protocol, was.Protocol)
		l.neighbors[r.Address] = r
		k.tell(kernel.Event{NS: n.id, Neighbor: &r})
		return nil
	})
}

// DeleteNeighbor removes a neighbor.
func (k *Kernel) DeleteNeighbor(ns kernel.NS, r kernel.Neighbor) error {
	return k.write(ns, "DeleteNeighbor", fmt.Sprintf("delete neighbor %s of link %d", r.Address, r.Index), func(n *namespace) error {
		l, err := n.forNeighbor(r)
		if err != nil {
			return err
		}
		one, there := l.neighbors[r.Address]
		if !there {
			return refused(syscall.ENOENT)
		}
		delete(l.neighbors, r.Address)
		k.tell(kernel.Event{NS: n.id, Neighbor: &one, Deleted: true})
		return nil
	})
}

// dropNeighbors removes those of a family from a link.
func (k *Kernel) dropNeighbors(l *link, family func(netip.Addr) bool) {
	for _, one := range l.sortedNeighbors() {
		if !family(one.Address) {
			continue
		}
		delete(l.neighbors, one.Address)
		k.tell(kernel.Event{NS: l.ns.id, Neighbor: &one, Deleted: true})
	}
}

// firstRules are there in every namespace.
var firstRules = []kernel.Rule{
	{Priority: 0, Table: tableLocal, Action: "lookup", Protocol: protoKernel},
	{Priority: 32766, Table: tableMain, Action: "lookup", Protocol: protoKernel},
	{Priority: 32767, Table: tableDefault, Action: "lookup", Protocol: protoKernel},
	{IPv6: true, Priority: 0, Table: tableLocal, Action: "lookup", Protocol: protoKernel},
	{IPv6: true, Priority: 32766, Table: tableMain, Action: "lookup", Protocol: protoKernel},
}

// Rules of policy routing, IPv4 first, in the order in which they are asked.
func (k *Kernel) Rules(ns kernel.NS) (list []kernel.Rule, err error) {
	err = k.in(ns, "Rules", "list rules", func(n *namespace) error {
		list = slices.Clone(n.rules)
		slices.SortStableFunc(list, func(a, b kernel.Rule) int {
			if a.IPv6 != b.IPv6 {
				return map[bool]int{false: -1, true: 1}[a.IPv6]
			}
			return cmp.Compare(a.Priority, b.Priority)
		})
		return nil
	})
	return list, err
}

// AddRule adds a rule.
func (k *Kernel) AddRule(ns kernel.NS, r kernel.Rule) error {
	return k.doRule(ns, "AddRule", "add", r, func(n *namespace, at int) error {
		if at >= 0 {
			return refused(syscall.EEXIST)
		}
		n.rules = append(n.rules, r)
		k.tell(kernel.Event{NS: n.id, Rule: &r})
		return nil
	})
}

// DeleteRule removes the rule that says the same.
func (k *Kernel) DeleteRule(ns kernel.NS, r kernel.Rule) error {
	return k.doRule(ns, "DeleteRule", "delete", r, func(n *namespace, at int) error {
		if at < 0 && r.Protocol == 0 { // of any protocol
			at = slices.IndexFunc(n.rules, func(other kernel.Rule) bool {
				other.Protocol = 0
				return other == r
			})
		}
		if at < 0 {
			return refused(syscall.ENOENT)
		}
		r := n.rules[at]
		n.rules = slices.Delete(n.rules, at, at+1)
		k.tell(kernel.Event{NS: n.id, Rule: &r, Deleted: true})
		return nil
	})
}

// doRule hands over where the rule is among those that there are.
func (k *Kernel) doRule(ns kernel.NS, method, act string, r kernel.Rule, do func(n *namespace, at int) error) error {
	return k.write(ns, method, fmt.Sprintf("%s rule %d", act, r.Priority), func(n *namespace) error {
		if r.More || !slices.Contains([]string{"lookup", "nop", "blackhole", "unreachable", "prohibit"}, r.Action) {
			return fmt.Errorf("no rule of ours: %w", syscall.EINVAL)
		}
		for _, p := range []netip.Prefix{r.From, r.To} {
			if p.IsValid() && p.Bits() > 0 && (p.Addr().Is6() != r.IPv6 || p != p.Masked()) {
				return fmt.Errorf("%s is no network of the family: %w", p, syscall.EINVAL)
			}
		}
		return do(n, slices.Index(n.rules, r))
	})
}

// FDB are the forwarding entries that somebody has set.
func (k *Kernel) FDB(ns kernel.NS) (list []kernel.FDBEntry, err error) {
	err = k.in(ns, "FDB", "list forwarding entries", func(n *namespace) error {
		for _, l := range n.sorted() {
			list = append(list, l.fdb...)
		}
		return nil
	})
	slices.SortFunc(list, func(a, b kernel.FDBEntry) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(a.MAC, b.MAC), cmp.Compare(a.VLAN, b.VLAN), a.Address.Compare(b.Address))
	})
	return list, err
}

// FDBEntry is the one in the place of another.
func (k *Kernel) FDBEntry(ns kernel.NS, e kernel.FDBEntry) (found kernel.FDBEntry, err error) {
	err = k.inFDB(ns, "FDBEntry", "read", e, func(l *link, mac string) error {
		e.MAC = mac
		at := slices.IndexFunc(l.fdb, func(other kernel.FDBEntry) bool { return other.Place() == e.Place() })
		if at < 0 {
			return refused(syscall.ENOENT)
		}
		found = l.fdb[at]
		return nil
	})
	return found, err
}

// AddFDBEntry makes an entry.
func (k *Kernel) AddFDBEntry(ns kernel.NS, e kernel.FDBEntry) error {
	return k.inFDB(ns, "AddFDBEntry", "add", e, func(l *link, mac string) error {
		k.writes++
		if err := l.takesFDB(e); err != nil {
			return err
		}
		e.MAC, e.Local, e.Special = mac, false, false
		if slices.ContainsFunc(l.fdb, func(other kernel.FDBEntry) bool {
			if e.Port != 0 && e.VLAN == 0 {
				other.VLAN = 0
			}
			return other.Place() == e.Place()
		}) {
			return refused(syscall.EEXIST)
		}
		l.fdb = append(l.fdb, e)
		k.tell(kernel.Event{NS: ns, FDB: &e})
		return nil
	})
}

// takesFDB reports why a link does not take an entry.
func (l *link) takesFDB(e kernel.FDBEntry) error {
	if e.Port == 0 {
		if l.Vxlan == nil {
			return refused(syscall.EOPNOTSUPP)
		}
		return nil
	}
	p := l.ns.links[e.Port]
	switch {
	case p == nil:
		return refused(syscall.ENODEV)
	case p.master != l:
		return refused(syscall.EOPNOTSUPP)
	case e.VLAN != 0 && !slices.ContainsFunc(p.vlans, func(v kernel.BridgeVLAN) bool { return v.ID == e.VLAN }):
		return fmt.Errorf("VLAN %d is not on the port, see bridge vlan show: %w", e.VLAN, syscall.EINVAL)
	}
	return nil
}

// DeleteFDBEntry removes an entry.
func (k *Kernel) DeleteFDBEntry(ns kernel.NS, e kernel.FDBEntry) error {
	return k.inFDB(ns, "DeleteFDBEntry", "delete", e, func(l *link, mac string) error {
		k.writes++
		e.MAC = mac
		at := slices.IndexFunc(l.fdb, func(other kernel.FDBEntry) bool { return other.Place() == e.Place() && other.Port == e.Port })
		if at < 0 {
			return refused(syscall.ENOENT)
		}
		gone := l.fdb[at]
		l.fdb = slices.Delete(l.fdb, at, at+1)
		k.tell(kernel.Event{NS: ns, FDB: &gone, Deleted: true})
		return nil
	})
}

func (k *Kernel) inFDB(ns kernel.NS, method, act string, e kernel.FDBEntry, do func(l *link, mac string) error) error {
	return k.in(ns, method, fmt.Sprintf("%s forwarding entry %s of link %d", act, e.MAC, max(e.Port, e.Table)), func(n *namespace) error {
		if e.Port == 0 && (!e.Address.IsValid() || e.Address.Is4In6()) || e.VLAN < 0 || e.VLAN > 4094 {
			return fmt.Errorf("not a forwarding entry: %w", syscall.EINVAL)
		}
		l, err := n.link(e.Table)
		if err != nil {
			return err
		}
		hw, err := net.ParseMAC(e.MAC)
		if err != nil {
			return fmt.Errorf("%w: %w", err, syscall.EINVAL)
		}
		return do(l, hw.String())
	})
}
