package netlink

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// Nexthops of a namespace by number, whoever made them.
func (k *Kernel) Nexthops(ns kernel.NS) (list []kernel.Nexthop, err error) {
	err = k.in(ns, "list nexthops", func(n *namespace) error {
		m := newMessage(unix.RTM_GETNEXTHOP, unix.NLM_F_DUMP)
		m.nexthop(unix.AF_UNSPEC, 0, 0)
		err := n.dump(m, func() { list = nil }, func(_ uint16, body []byte) {
			if r, ok := parseNexthop(body); ok {
				list = append(list, r)
			}
		})
		slices.SortFunc(list, func(a, b kernel.Nexthop) int { return cmp.Compare(a.ID, b.ID) })
		return err
	})
	return list, err
}

// AddNexthop adds a nexthop; see [kernel.Nexthops].
func (k *Kernel) AddNexthop(ns kernel.NS, r kernel.Nexthop) error {
	return k.putNexthop(ns, "add", unix.NLM_F_CREATE|unix.NLM_F_EXCL, r)
}

// ReplaceNexthop puts a nexthop in the place of the one of its number; ErrNotExist if there
// is none.
func (k *Kernel) ReplaceNexthop(ns kernel.NS, r kernel.Nexthop) error {
	return k.putNexthop(ns, "replace", unix.NLM_F_REPLACE, r)
}

func (k *Kernel) putNexthop(ns kernel.NS, act string, flags int, r kernel.Nexthop) error {
	return k.in(ns, fmt.Sprintf("%s nexthop %d", act, r.ID), func(n *namespace) error {
		m, err := newNexthop(flags, r)
		if err != nil {
			return err
		}
		return n.do(m, nil)
	})
}

// DeleteNexthop removes a nexthop; ErrNotExist if there is none.
func (k *Kernel) DeleteNexthop(ns kernel.NS, id uint32) error {
	return k.in(ns, fmt.Sprintf("delete nexthop %d", id), func(n *namespace) error {
		m := newMessage(unix.RTM_DELNEXTHOP, 0)
		m.nexthop(unix.AF_UNSPEC, 0, 0)
		m.u32(unix.NHA_ID, id)
		return n.do(m, nil)
	})
}

var errNoNexthop = errors.New("no nexthop of ours")

func newNexthop(flags int, r kernel.Nexthop) (*message, error) {
	if r.ID == 0 || r.More || r.Index < 0 {
		return nil, fmt.Errorf("%w: %w", errNoNexthop, unix.EINVAL)
	}
	family, nflags := uint8(unix.AF_INET), uint32(0)
	switch {
	case len(r.Group) > 0:
		family = unix.AF_UNSPEC
	case r.IPv6:
		family = unix.AF_INET6
	}
	if r.Onlink {
		nflags = unix.RTNH_F_ONLINK
	}
	m := newMessage(unix.RTM_NEWNEXTHOP, flags)
	m.nexthop(family, r.Protocol, nflags)
	m.u32(unix.NHA_ID, r.ID)
	switch {
	case len(r.Group) > 0:
		var members []byte // struct nexthop_grp; its weight counts from 0
		for _, h := range r.Group {
			if h.Weight < 1 || h.Weight > 256 {
				return nil, fmt.Errorf("weight %d: %w: %w", h.Weight, errNoNexthop, unix.EINVAL)
			}
			members = native.AppendUint32(members, h.ID)
			members = append(members, uint8(h.Weight-1), 0, 0, 0)
		}
		m.bytes(unix.NHA_GROUP, members)
	case r.Blackhole:
		m.bytes(unix.NHA_BLACKHOLE, nil)
	default:
		m.u32(unix.NHA_OIF, uint32(r.Index))
		if r.Gateway.IsValid() {
			m.addr(unix.NHA_GATEWAY, r.Gateway)
		}
		return m, addEncap(m, unix.NHA_ENCAP_TYPE, unix.NHA_ENCAP, r.Encap)
	}
	return m, nil
}

// nexthop adds the header of nexthop messages (struct nhmsg). Its scope is the kernel's.
func (m *message) nexthop(family, protocol uint8, flags uint32) {
	m.b = append(m.b, family, 0, protocol, 0)
	m.b = native.AppendUint32(m.b, flags)
}

// parseNexthop reads the body of a nexthop message; false for one without a number.
func parseNexthop(body []byte) (r kernel.Nexthop, ok bool) {
	if len(body) < unix.SizeofNhmsg {
		return r, false
	}
	r.IPv6, r.Protocol = body[0] == unix.AF_INET6, body[2]
	r.Onlink = asU32(body[4:])&unix.RTNH_F_ONLINK != 0
	var encap uint16
	var within []byte
	for typ, v := range attributes(body[unix.SizeofNhmsg:]) {
		switch typ {
		case unix.NHA_ID:
			r.ID = asU32(v)
		case unix.NHA_GROUP:
			r.Group = parseMembers(v)
		case unix.NHA_GROUP_TYPE:
			r.More = r.More || asU16(v) != 0 // not by hash threshold
		case unix.NHA_BLACKHOLE:
			r.Blackhole = true
		case unix.NHA_OIF:
			r.Index = int(asU32(v))
		case unix.NHA_GATEWAY:
			r.Gateway = asAddr(v)
		case unix.NHA_ENCAP_TYPE:
			encap = asU16(v)
		case unix.NHA_ENCAP:
			within = v
		case nhaFDB:
			r.More = true
		}
	}
	r.Encap = parseEncap(encap, within)
	return r, r.ID != 0
}

// nhaFDB is NHA_FDB, which golang.org/x/sys/unix does not name.
const nhaFDB = 11

// parseMembers reads a list of struct nexthop_grp.
func parseMembers(b []byte) (group []kernel.NexthopMember) {
	for ; len(b) >= unix.SizeofNexthopGrp; b = b[unix.SizeofNexthopGrp:] {
		group = append(group, kernel.NexthopMember{ID: asU32(b), Weight: int(b[4]) + 1})
	}
	return group
}
