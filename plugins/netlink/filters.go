package netlink

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// What golang.org/x/sys/unix does not name of linux/pkt_cls.h and its neighbors.
const (
	parentIngress = 0xfffffff2 // TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS)
	parentEgress  = 0xfffffff3

	u32Divisor = 4
	u32Sel     = 5
	u32Act     = 7

	actKind    = 1
	actOptions = 2
	actCookie  = 6

	mirredParms  = 2
	egressMirror = 2                  // TCA_EGRESS_MIRROR
	actNext      = 0xffffffff         // TC_ACT_UNSPEC: on to the next filter
	u32Terminal  = 1                  // TC_U32_TERMINAL
	sizeofSel    = 16                 // struct tc_u32_sel, without its keys
	sizeofKey    = 16                 // struct tc_u32_key
	sizeofMirred = 7 * 4              // struct tc_mirred
	markSize     = 16                 // TC_COOKIE_MAX_SIZE
	offsetTo     = sizeofMirred - 1*4 // in struct tc_mirred
	offsetAct    = sizeofMirred - 2*4
)

func hookOf(egress bool) uint32 {
	if egress {
		return parentEgress
	}
	return parentIngress
}

// Filters at a hook of a link; see [kernel.Traffic].
func (k *Kernel) Filters(ns kernel.NS, index int, egress bool) (list []kernel.Filter, err error) {
	err = k.in(ns, fmt.Sprintf("list filters of link %d", index), func(n *namespace) (err error) {
		list, err = n.filters(index, egress)
		return err
	})
	return list, err
}

func (n *namespace) filters(index int, egress bool) ([]kernel.Filter, error) {
	list, err := n.filtersAndTables(index, egress)
	return slices.DeleteFunc(list, func(f kernel.Filter) bool { return f.Handle == 0 }), err
}

func (n *namespace) filtersAndTables(index int, egress bool) (list []kernel.Filter, err error) {
	if err := checkIndex(index); err != nil {
		return nil, err
	}
	m := newMessage(unix.RTM_GETTFILTER, unix.NLM_F_DUMP)
	m.traffic(index, 0, hookOf(egress), 0)
	err = n.dump(m, func() { list = nil }, func(_ uint16, body []byte) {
		if f, ok := parseFilter(body); ok {
			list = append(list, f)
		}
	})
	return list, err
}

// lastPref is the first that a filter of ours has, and those that come later have lower ones. Where
// nobody says one the kernel chooses from 0xc000 down.
const lastPref = 0x7000

// freePref is a place before all filters of a link, or if that cannot be the first that is
// free. It is free at both hooks: the kernel shows a filter of u32 at both if each has a table
// of u32 in that place.
func (n *namespace) freePref(index int) (uint16, error) {
	used, first := map[uint16]bool{}, uint16(lastPref+1)
	for _, egress := range []bool{false, true} {
		list, err := n.filtersAndTables(index, egress)
		if err != nil {
			return 0, err
		}
		for _, f := range list {
			used[f.Pref] = true
			first = min(first, f.Pref)
		}
	}
	if first > 1 {
		return first - 1, nil
	}
	for pref := uint16(1); pref != 0; pref++ {
		if !used[pref] {
			return pref, nil
		}
	}
	return 0, unix.ENOSPC
}

// AddFilter adds a filter that mirrors; see [kernel.Traffic]. It is one of u32, which every
// kernel with filters has; many lack matchall.
func (k *Kernel) AddFilter(ns kernel.NS, f kernel.Filter) error {
	return k.in(ns, fmt.Sprintf("mirror link %d by %d", f.Index, f.To), func(n *namespace) error {
		mark, err := hex.DecodeString(f.Mark)
		if err != nil || len(mark) > markSize {
			return fmt.Errorf("%q is no mark: %w", f.Mark, unix.EINVAL)
		}
		for _, index := range []int{f.Index, f.To} {
			if err := checkIndex(index); err != nil {
				return err
			}
		}
		if f.Pref, err = n.freePref(f.Index); err != nil {
			return err
		}
		err = n.do(newFilter(f, mark), nil)
		if errors.Is(err, unix.ENOENT) { // what else it names is there
			return unknownModule("filters of u32 with mirred", "cls_u32 act_mirred", err)
		}
		return err
	})
}

func newFilter(f kernel.Filter, mark []byte) *message {
	m := newMessage(unix.RTM_NEWTFILTER, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	m.traffic(f.Index, 0, hookOf(f.Egress), uint32(f.Pref)<<16|allPackets)
	m.str(unix.TCA_KIND, "u32")
	options := m.open(unix.TCA_OPTIONS)
	sel := make([]byte, sizeofSel+sizeofKey) // nothing at 0 is nothing: all
	sel[0], sel[2] = u32Terminal, 1
	m.bytes(u32Sel, sel)
	actions := m.open(u32Act)
	first := m.open(1)
	m.str(actKind, "mirred")
	m.bytes(actCookie, mark)
	act := m.open(actOptions)
	parms := make([]byte, sizeofMirred)
	native.PutUint32(parms[8:], actNext)
	native.PutUint32(parms[offsetAct:], egressMirror)
	native.PutUint32(parms[offsetTo:], uint32(f.To))
	m.bytes(mirredParms, parms)
	for _, start := range []int{act, first, actions, options} {
		m.close(start)
	}
	return m
}

// allPackets is the part of a filter's header that says of which protocol it is.
const allPackets = unix.ETH_P_ALL>>8 | unix.ETH_P_ALL&0xff<<8

// DeleteFilter removes a filter, and its table if there is nothing else in it: the kernel keeps
// an empty one, which would look like a filter.
func (k *Kernel) DeleteFilter(ns kernel.NS, f kernel.Filter) error {
	return k.in(ns, fmt.Sprintf("delete a filter of link %d", f.Index), func(n *namespace) error {
		if err := n.deleteFilter(f, f.Handle); err != nil {
			return err
		}
		left, err := n.filters(f.Index, f.Egress)
		if err != nil || slices.ContainsFunc(left, func(o kernel.Filter) bool { return o.Pref == f.Pref }) {
			return err
		}
		if err := n.deleteFilter(f, 0); !errors.Is(err, kernel.ErrNotExist) {
			return err
		}
		return nil
	})
}

func (n *namespace) deleteFilter(f kernel.Filter, handle uint32) error {
	m := newMessage(unix.RTM_DELTFILTER, 0)
	m.traffic(f.Index, handle, hookOf(f.Egress), uint32(f.Pref)<<16|allPackets)
	m.str(unix.TCA_KIND, "u32")
	err := n.do(m, nil)
	if errors.Is(err, unix.EINVAL) { // its hook is gone
		err = fmt.Errorf("%w: %w", kernel.ErrNotExist, err)
	}
	return err
}

// parseFilter reads the body of a message about a filter at a hook of a link. The Handle of what
// is none, but a table of them, is 0.
func parseFilter(body []byte) (f kernel.Filter, ok bool) {
	if len(body) < sizeofTcMsg {
		return f, false
	}
	f.Index, f.Handle = int(int32(asU32(body[4:]))), asU32(body[8:])
	parent, info := asU32(body[12:]), asU32(body[16:])
	f.Egress, f.Pref = parent == parentEgress, uint16(info>>16)
	kind, all := "", info&0xffff == allPackets
	var options []byte
	for typ, v := range attributes(body[sizeofTcMsg:]) {
		switch typ {
		case unix.TCA_KIND:
			kind = asString(v)
		case unix.TCA_OPTIONS:
			options = v
		}
	}
	if kind == "u32" {
		parseU32(options, &f, all)
	}
	return f, f.Index > 0 && parent>>16 == uint32(kernel.HookHandle)
}

func parseU32(options []byte, f *kernel.Filter, all bool) {
	to := 0
	for typ, v := range attributes(options) {
		switch typ {
		case u32Divisor:
			f.Handle = 0
		case u32Sel:
			all = all && len(v) >= sizeofSel && !slices.ContainsFunc(v[3:], func(c byte) bool { return c != 0 })
		case u32Act:
			for i, one := range attributes(v) {
				if i == 1 {
					f.Mark, to = parseMirror(one)
				} else {
					all = false
				}
			}
		}
	}
	if all {
		f.To = to
	}
}

// parseMirror reads an action; to is 0 of another one.
func parseMirror(b []byte) (mark string, to int) {
	kind := ""
	for typ, v := range attributes(b) {
		switch typ {
		case actKind:
			kind = asString(v)
		case actCookie:
			mark = hex.EncodeToString(v)
		case actOptions:
			for typ, v := range attributes(v) {
				if typ == mirredParms && len(v) >= sizeofMirred && asU32(v[8:]) == actNext && asU32(v[offsetAct:]) == egressMirror {
					to = int(asU32(v[offsetTo:]))
				}
			}
		}
	}
	if kind != "mirred" {
		to = 0
	}
	return mark, to
}
