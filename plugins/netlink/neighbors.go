package netlink

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// ndaProtocol is NDA_PROTOCOL of linux/neighbour.h.
const ndaProtocol = 12

// Neighbors that somebody has set, of all links, by link and address.
func (k *Kernel) Neighbors(ns kernel.NS) (list []kernel.Neighbor, err error) {
	err = k.in(ns, "list neighbors", func(n *namespace) error {
		all, err := n.neighbors()
		for _, one := range all {
			if one.permanent {
				list = append(list, one.Neighbor)
			}
		}
		return err
	})
	return list, err
}

// neighbor is one of the kernel's table, learnt ones too.
type neighbor struct {
	kernel.Neighbor
	permanent bool
}

func (n *namespace) neighbors() (list []neighbor, err error) {
	m := newMessage(unix.RTM_GETNEIGH, unix.NLM_F_DUMP)
	m.neighbor(unix.AF_UNSPEC, 0, 0)
	err = n.dump(m, func() { list = nil }, func(_ uint16, body []byte) {
		if one, ok := parseNeighbor(body); ok {
			list = append(list, one)
		}
	})
	slices.SortFunc(list, func(a, b neighbor) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), a.Address.Compare(b.Address))
	})
	return list, err
}

// Neighbor is the one of that link and address that somebody has set.
func (k *Kernel) Neighbor(ns kernel.NS, index int, a netip.Addr) (found kernel.Neighbor, err error) {
	err = k.in(ns, fmt.Sprintf("read neighbor %s of link %d", a, index), func(n *namespace) error {
		one, err := n.neighbor(index, a)
		if err == nil && !one.permanent {
			return refused(unix.ENOENT)
		}
		found = one.Neighbor
		return err
	})
	return found, err
}

func (n *namespace) neighbor(index int, a netip.Addr) (one neighbor, err error) {
	if err := checkNeighbor(kernel.Neighbor{Index: index, Address: a}); err != nil {
		return one, err
	}
	m := newMessage(unix.RTM_GETNEIGH, 0)
	m.neighbor(family(a), index, 0)
	m.addr(unix.NDA_DST, a)
	err = n.do(m, func(_ uint16, body []byte) { one, _ = parseNeighbor(body) })
	return one, err
}

// AddNeighbor makes a permanent neighbor. One that the kernel has learnt is nobody's and
// gives way; see [kernel.Kernel].
func (k *Kernel) AddNeighbor(ns kernel.NS, add kernel.Neighbor) error {
	return k.putNeighbor(ns, "add", add, func(n *namespace, m *message) error {
		err := n.do(m, nil)
		if !errors.Is(err, kernel.ErrExist) {
			return err
		}
		if one, readErr := n.neighbor(add.Index, add.Address); readErr != nil || one.permanent {
			return err
		}
		return n.replaceNeighbor(add)
	})
}

// ReplaceNeighbor makes a permanent neighbor, whatever is at its address.
func (k *Kernel) ReplaceNeighbor(ns kernel.NS, r kernel.Neighbor) error {
	return k.putNeighbor(ns, "replace", r, func(n *namespace, _ *message) error { return n.replaceNeighbor(r) })
}

func (n *namespace) replaceNeighbor(r kernel.Neighbor) error {
	m, err := newNeighbor(unix.NLM_F_CREATE|unix.NLM_F_REPLACE, r)
	if err != nil {
		return err
	}
	return n.do(m, nil)
}

// putNeighbor hands over the request to add a neighbor.
func (k *Kernel) putNeighbor(ns kernel.NS, act string, r kernel.Neighbor, put func(*namespace, *message) error) error {
	return k.in(ns, fmt.Sprintf("%s neighbor %s of link %d", act, r.Address, r.Index), func(n *namespace) error {
		m, err := newNeighbor(unix.NLM_F_CREATE|unix.NLM_F_EXCL, r)
		if err != nil {
			return err
		}
		return put(n, m)
	})
}

// DeleteNeighbor removes a neighbor; ErrNotExist if there is none.
func (k *Kernel) DeleteNeighbor(ns kernel.NS, r kernel.Neighbor) error {
	return k.in(ns, fmt.Sprintf("delete neighbor %s of link %d", r.Address, r.Index), func(n *namespace) error {
		if err := checkNeighbor(r); err != nil {
			return err
		}
		m := newMessage(unix.RTM_DELNEIGH, 0)
		m.neighbor(family(r.Address), r.Index, 0)
		m.addr(unix.NDA_DST, r.Address)
		return n.do(m, nil)
	})
}

func checkNeighbor(r kernel.Neighbor) error {
	if !r.Address.IsValid() || r.Address.Is4In6() {
		return fmt.Errorf("not an address: %w", unix.EINVAL)
	}
	return checkIndex(r.Index)
}

func newNeighbor(flags int, r kernel.Neighbor) (*message, error) {
	if err := checkNeighbor(r); err != nil {
		return nil, err
	}
	mac, err := net.ParseMAC(r.MAC)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, unix.EINVAL)
	}
	m := newMessage(unix.RTM_NEWNEIGH, flags)
	m.neighbor(family(r.Address), r.Index, unix.NUD_PERMANENT)
	m.addr(unix.NDA_DST, r.Address)
	m.bytes(unix.NDA_LLADDR, mac)
	if r.Protocol != 0 {
		m.u8(ndaProtocol, r.Protocol)
	}
	return m, nil
}

// neighbor adds the header of neighbor messages (struct ndmsg).
func (m *message) neighbor(family uint8, index int, state uint16) {
	m.b = append(m.b, family, 0, 0, 0)
	m.b = native.AppendUint32(m.b, uint32(index))
	m.b = native.AppendUint16(m.b, state)
	m.b = append(m.b, 0, 0)
}

// parseNeighbor reads the body of a neighbor message; false for the forwarding entries of
// bridges, which come by the same messages, and for proxies.
func parseNeighbor(body []byte) (r neighbor, ok bool) {
	if len(body) < unix.SizeofNdMsg || body[0] != unix.AF_INET && body[0] != unix.AF_INET6 || body[10]&unix.NTF_PROXY != 0 {
		return r, false
	}
	r.Index = int(asU32(body[4:]))
	r.permanent = asU16(body[8:])&unix.NUD_PERMANENT != 0
	for typ, v := range attributes(body[unix.SizeofNdMsg:]) {
		switch typ {
		case unix.NDA_DST:
			r.Address = asAddr(v)
		case unix.NDA_LLADDR:
			r.MAC = net.HardwareAddr(v).String()
		case ndaProtocol:
			r.Protocol = asU8(v)
		}
	}
	return r, r.Address.IsValid()
}
