package kerneltest

import (
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"syscall"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// traffic is what is done to the packets of a link. The zero value is what the kernel gives
// every link.
type traffic struct {
	root, hook *kernel.Qdisc
	filters    map[bool][]filter // of what leaves, and of what comes in, in the order of their places
	tables     uint32            // how many tables of filters there were
}

// filter is one that mirrors.
type filter struct {
	kernel.Filter
	to *link
}

// Qdiscs are those that somebody has set, by link.
func (k *Kernel) Qdiscs(ns kernel.NS) (list []kernel.Qdisc, err error) {
	err = k.in(ns, "Qdiscs", "list queueing disciplines", func(n *namespace) error {
		for _, l := range n.sorted() {
			for _, q := range []*kernel.Qdisc{l.traffic.root, l.traffic.hook} {
				if q != nil {
					list = append(list, *q)
				}
			}
		}
		return nil
	})
	return list, err
}

// AddQdisc sets a qdisc where nobody has.
func (k *Kernel) AddQdisc(ns kernel.NS, q kernel.Qdisc) error {
	return k.putQdisc(ns, "AddQdisc", "add", q, func(there *kernel.Qdisc) error {
		if there != nil {
			return refused(syscall.EEXIST)
		}
		return nil
	})
}

// ReplaceQdisc puts a qdisc in the place of another. One of the same handle is changed.
func (k *Kernel) ReplaceQdisc(ns kernel.NS, handle uint16, q kernel.Qdisc) error {
	return k.putQdisc(ns, "ReplaceQdisc", "replace", q, func(there *kernel.Qdisc) error {
		switch {
		case handle != q.Handle:
			return nil
		case there == nil:
			return refused(syscall.ENOENT)
		case there.Handle != handle:
			return refused(syscall.EEXIST)
		case there.Kind != q.Kind:
			return syscall.EINVAL
		}
		return nil
	})
}

// putQdisc sets a qdisc if it may be in the place of what is there.
func (k *Kernel) putQdisc(ns kernel.NS, method, act string, q kernel.Qdisc, may func(there *kernel.Qdisc) error) error {
	return k.write(ns, method, fmt.Sprintf("%s %s of link %d", act, q.Kind, q.Index), func(n *namespace) error {
		l, err := n.link(q.Index)
		if err != nil {
			return err
		}
		if q, err = kept(q); err != nil {
			return err
		}
		place := l.traffic.place(q)
		if err := may(*place); err != nil {
			return err
		}
		if *place != nil && (*place).Handle != q.Handle {
			k.tellQdisc(l, **place, true)
		}
		*place = &q
		k.tellQdisc(l, q, false)
		return nil
	})
}

func (t *traffic) place(q kernel.Qdisc) **kernel.Qdisc {
	if q.Hook() {
		return &t.hook
	}
	return &t.root
}

// kept is a qdisc as the kernel keeps it: of a limit for how long a burst takes.
func kept(q kernel.Qdisc) (kernel.Qdisc, error) {
	switch {
	case q.More, q.Handle == 0:
	case q.Hook() && (q.Kind == kernel.HookBoth || q.Kind == kernel.HookIngress):
		return kernel.Qdisc{Index: q.Index, Handle: q.Handle, Kind: q.Kind}, nil
	case q.Hook():
	case q.Kind == "tbf" && q.Tbf.Burst > 0:
		const tick = 64 // nanoseconds
		q.Tbf.Burst = kernel.BurstOf(q.Tbf.Rate, uint32(uint64(q.Tbf.Burst)*1e9/max(q.Tbf.Rate, 1)/tick))
		q.Netem = kernel.Netem{}
		return q, nil
	case q.Kind == "netem":
		q.Tbf = kernel.Tbf{}
		return q, nil
	}
	return q, fmt.Errorf("no queueing discipline of ours: %w", syscall.EINVAL)
}

// DeleteQdisc removes the one of its handle at its place.
func (k *Kernel) DeleteQdisc(ns kernel.NS, q kernel.Qdisc) error {
	return k.write(ns, "DeleteQdisc", fmt.Sprintf("delete %s of link %d", q.Kind, q.Index), func(n *namespace) error {
		l, err := n.link(q.Index)
		if err != nil {
			return err
		}
		place := l.traffic.place(q)
		switch there := *place; {
		case there == nil && q.Hook():
			return refused(syscall.ENOENT)
		case there == nil || there.Handle != q.Handle: // what every link has at its root has none
			return fmt.Errorf("%w: %w", kernel.ErrNotExist, syscall.EINVAL)
		default:
			if *place = nil; q.Hook() {
				l.traffic.filters = nil
			}
			k.tellQdisc(l, *there, true)
			return nil
		}
	})
}

// Filters are those at a hook of a link.
func (k *Kernel) Filters(ns kernel.NS, index int, egress bool) (list []kernel.Filter, err error) {
	err = k.in(ns, "Filters", fmt.Sprintf("list filters of link %d", index), func(n *namespace) error {
		l, err := n.link(index)
		if index > 0 && err != nil {
			return nil // the kernel lists none
		}
		if err != nil {
			return err
		}
		for _, f := range l.traffic.filters[egress] {
			list = append(list, f.seen())
		}
		return nil
	})
	return list, err
}

// seen is a filter as it is told: a link that has gone is none any more.
func (f filter) seen() kernel.Filter {
	f.To = 0
	if f.to.ns.links[f.to.Index] == f.to {
		f.To = f.to.Index
	}
	return f.Filter
}

// AddFilter adds one that mirrors, before all that are there.
func (k *Kernel) AddFilter(ns kernel.NS, f kernel.Filter) error {
	return k.write(ns, "AddFilter", fmt.Sprintf("mirror link %d by %d", f.Index, f.To), func(n *namespace) error {
		if mark, err := hex.DecodeString(f.Mark); err != nil || len(mark) > 16 {
			return fmt.Errorf("%q is no mark: %w", f.Mark, syscall.EINVAL)
		}
		l, err := n.link(f.Index)
		if err != nil {
			return err
		}
		t := &l.traffic
		if t.hook == nil {
			return syscall.EINVAL
		}
		to, err := n.link(f.To)
		if err != nil {
			return err
		}
		if f.Pref, err = t.freePref(); err != nil {
			return err
		}
		if t.filters == nil {
			t.filters = map[bool][]filter{}
		}
		f.Handle = 0x80000800 + t.tables<<20
		t.tables++
		list := t.filters[f.Egress]
		at := slices.IndexFunc(list, func(o filter) bool { return o.Pref > f.Pref })
		if at < 0 {
			at = len(list)
		}
		made := filter{Filter: f, to: to}
		t.filters[f.Egress] = slices.Insert(list, at, made)
		k.tellFilter(l, made.seen(), false)
		return nil
	})
}

// lastPref is the place of the first filter; those that come later have lower ones.
const lastPref = 0x7000

// freePref is a place before all filters of a link, or if that cannot be the first that is free.
func (t *traffic) freePref() (uint16, error) {
	used, first := map[uint16]bool{}, uint16(lastPref+1)
	for _, list := range t.filters {
		for _, f := range list {
			used[f.Pref] = true
			first = min(first, f.Pref)
		}
	}
	if first > 1 {
		return first - 1, nil
	}
	for pref := 1; pref <= math.MaxUint16; pref++ {
		if !used[uint16(pref)] {
			return uint16(pref), nil
		}
	}
	return 0, syscall.ENOSPC
}

// DeleteFilter removes one that was read, and its table.
func (k *Kernel) DeleteFilter(ns kernel.NS, f kernel.Filter) error {
	return k.write(ns, "DeleteFilter", fmt.Sprintf("delete a filter of link %d", f.Index), func(n *namespace) error {
		l, err := n.link(f.Index)
		if err != nil {
			return err
		}
		if l.traffic.hook == nil {
			return fmt.Errorf("%w: %w", kernel.ErrNotExist, syscall.EINVAL)
		}
		list := l.traffic.filters[f.Egress]
		at := slices.IndexFunc(list, func(o filter) bool { return o.Pref == f.Pref && o.Handle == f.Handle })
		if at < 0 {
			return refused(syscall.ENOENT)
		}
		gone := list[at].seen()
		l.traffic.filters[f.Egress] = slices.Delete(list, at, at+1)
		k.tellFilter(l, gone, true)
		k.tellFilter(l, kernel.Filter{Index: f.Index, Egress: f.Egress, Pref: f.Pref}, true) // its table
		return nil
	})
}

func (k *Kernel) tellQdisc(l *link, q kernel.Qdisc, deleted bool) {
	k.tell(kernel.Event{NS: l.ns.id, Qdisc: &q, Deleted: deleted})
}

func (k *Kernel) tellFilter(l *link, f kernel.Filter, deleted bool) {
	k.tell(kernel.Event{NS: l.ns.id, Filter: &f, Deleted: deleted})
}
