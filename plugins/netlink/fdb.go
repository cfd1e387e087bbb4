package netlink

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// ndaNextHopID is NDA_NH_ID of linux/neighbour.h.
const ndaNextHopID = 13

// fdbEntry is one of the kernel's table, learnt ones too.
type fdbEntry struct {
	kernel.FDBEntry
	set bool
}

// setEntries are the places where somebody has set an entry, as far as it was read or
// told. An event does not say that an entry that is learnt now was set before, and what
// is learnt comes and goes with every station. The zero value works.
type setEntries struct {
	mu  sync.Mutex
	all map[kernel.FDBPlace]struct{}
}

func (s *setEntries) add(e fdbEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[kernel.FDBPlace]struct{}{}
	}
	s.all[e.FDBEntry.Place()] = struct{}{}
}

// tell notes what an event says, and reports whether it is of an entry that is set or was.
func (s *setEntries) tell(e fdbEntry, gone bool) bool {
	if !gone {
		s.add(e)
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, was := s.all[e.FDBEntry.Place()]
	delete(s.all, e.FDBEntry.Place())
	return was || e.set
}

// FDB are the forwarding entries that somebody has set.
func (k *Kernel) FDB(ns kernel.NS) (list []kernel.FDBEntry, err error) {
	err = k.in(ns, "list forwarding entries", func(n *namespace) error {
		all, err := n.fdbEntries(func(*message) {}, 0)
		for _, e := range all {
			if e.set {
				list = append(list, e.FDBEntry)
			}
		}
		return err
	})
	slices.SortFunc(list, func(a, b kernel.FDBEntry) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(a.MAC, b.MAC), cmp.Compare(a.VLAN, b.VLAN), a.Address.Compare(b.Address))
	})
	return list, err
}

// fdbEntries reads entries, learnt ones too: of the links that the filter adds to the
// request or, with index, of that one and, if it is a port, of its bridge.
func (n *namespace) fdbEntries(filter func(*message), index int) (list []fdbEntry, err error) {
	m := newMessage(unix.RTM_GETNEIGH, unix.NLM_F_DUMP)
	m.neighbor(unix.AF_BRIDGE, index, 0)
	filter(m)
	err = n.dump(m, func() { list = nil }, func(_ uint16, body []byte) {
		if e, ok := parseFDB(body); ok {
			list = append(list, e)
			if e.set {
				n.fdb.add(e)
			}
		}
	})
	return list, err
}

// inTheWay are the entries of which e is one, learnt ones too. Without a VLAN they are those
// of all.
func (n *namespace) inTheWay(e kernel.FDBEntry) (list []fdbEntry, err error) {
	var all []fdbEntry
	if e.Port == 0 {
		all, err = n.fdbEntries(func(*message) {}, e.Table)
	} else {
		all, err = n.fdbEntries(func(m *message) { m.u32(unix.NDA_MASTER, uint32(e.Table)) }, 0)
	}
	for _, one := range all {
		there := one.FDBEntry
		if e.Port != 0 && e.VLAN == 0 {
			there.VLAN = 0
		}
		if there.Place() == e.Place() {
			list = append(list, one)
		}
	}
	return list, err
}

// FDBEntry is the one that somebody has set; see [kernel.Kernel].
func (k *Kernel) FDBEntry(ns kernel.NS, e kernel.FDBEntry) (found kernel.FDBEntry, err error) {
	err = k.inFDB(ns, "read", e, func(n *namespace, mac net.HardwareAddr) error {
		var there []fdbEntry
		var err error
		if e.MAC == kernel.ZeroMAC {
			there, err = n.inTheWay(e) // the kernel would give the first of them
		} else {
			there, err = n.getFDB(e, mac)
		}
		// One that is like those we make goes before another that differs in its port.
		slices.SortStableFunc(there, func(a, b fdbEntry) int { return cmp.Compare(btoi(a.Special), btoi(b.Special)) })
		for _, one := range there {
			if one.set {
				found = one.FDBEntry
				return err
			}
		}
		return cmp.Or(err, refused(unix.ENOENT))
	})
	return found, err
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (n *namespace) getFDB(e kernel.FDBEntry, mac net.HardwareAddr) (list []fdbEntry, err error) {
	m := newMessage(unix.RTM_GETNEIGH, 0)
	if e.Port == 0 {
		m.fdb(e.Table, 0, unix.NTF_SELF)
	} else {
		m.fdb(0, 0, unix.NTF_MASTER)
		m.u32(unix.NDA_MASTER, uint32(e.Table))
	}
	m.bytes(unix.NDA_LLADDR, mac)
	if e.VLAN != 0 {
		m.u16(unix.NDA_VLAN, uint16(e.VLAN))
	}
	err = n.do(m, func(_ uint16, body []byte) {
		if one, ok := parseFDB(body); ok {
			list = append(list, one)
		}
	})
	return list, err
}

// AddFDBEntry makes an entry; see [kernel.Kernel]. Where the kernel itself says exactly
// what is in the way it is asked first. It does not of what stands in VLANs, which it
// would leave half made, nor of a flood entry that is there already.
func (k *Kernel) AddFDBEntry(ns kernel.NS, e kernel.FDBEntry) error {
	return k.inFDB(ns, "add", e, func(n *namespace, mac net.HardwareAddr) error {
		if e.MAC == kernel.ZeroMAC {
			return n.putUnset(e, mac, unix.NLM_F_APPEND)
		}
		if e.Port == 0 || e.VLAN != 0 {
			if err := n.putFDB(e, mac, unix.NLM_F_EXCL); !errors.Is(err, kernel.ErrExist) {
				return err
			}
		}
		err := n.putUnset(e, mac, unix.NLM_F_EXCL)
		for range 3 { // one may be learnt after it was looked for
			if !errors.Is(err, unix.EEXIST) || errors.Is(err, errSet) {
				break
			}
			err = n.putUnset(e, mac, unix.NLM_F_EXCL)
		}
		return err
	})
}

// errSet: somebody has set an entry in that place.
var errSet = refused(unix.EEXIST)

// putUnset makes an entry where nobody has set one; one that was learnt is replaced.
func (n *namespace) putUnset(e kernel.FDBEntry, mac net.HardwareAddr, how int) error {
	there, err := n.inTheWay(e)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(there, func(one fdbEntry) bool { return one.set }) {
		return errSet
	}
	if len(there) > 0 {
		how = unix.NLM_F_REPLACE
	}
	return n.putFDB(e, mac, how)
}

func (n *namespace) putFDB(e kernel.FDBEntry, mac net.HardwareAddr, how int) error {
	m := newMessage(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|how)
	m.oneFDB(e, mac)
	err := n.do(m, nil)
	if errors.Is(err, unix.EINVAL) && e.VLAN != 0 {
		return fmt.Errorf("VLAN %d is not on the port, see bridge vlan show: %w", e.VLAN, err)
	}
	return err
}

// DeleteFDBEntry removes an entry; ErrNotExist if there is none with its MAC and VLAN, and
// of a bridge at its port. A vxlan keeps silent about another address.
func (k *Kernel) DeleteFDBEntry(ns kernel.NS, e kernel.FDBEntry) error {
	return k.inFDB(ns, "delete", e, func(n *namespace, mac net.HardwareAddr) error {
		m := newMessage(unix.RTM_DELNEIGH, 0)
		m.oneFDB(e, mac)
		return n.do(m, nil)
	})
}

// inFDB does something about an entry that can be.
func (k *Kernel) inFDB(ns kernel.NS, act string, e kernel.FDBEntry, do func(*namespace, net.HardwareAddr) error) error {
	return k.in(ns, fmt.Sprintf("%s forwarding entry %s of link %d", act, e.MAC, max(e.Port, e.Table)), func(n *namespace) error {
		if e.Port == 0 && (!e.Address.IsValid() || e.Address.Is4In6()) || e.VLAN < 0 || e.VLAN > 4094 {
			return fmt.Errorf("not a forwarding entry: %w", unix.EINVAL)
		}
		if err := checkIndex(e.Table); err != nil {
			return err
		}
		mac, err := net.ParseMAC(e.MAC)
		if err != nil {
			return fmt.Errorf("%w: %w", err, unix.EINVAL)
		}
		return do(n, mac)
	})
}

// oneFDB adds all that names an entry in a request about it.
func (m *message) oneFDB(e kernel.FDBEntry, mac net.HardwareAddr) {
	if e.Port == 0 {
		m.fdb(e.Table, unix.NUD_PERMANENT, unix.NTF_SELF)
		m.addr(unix.NDA_DST, e.Address)
	} else {
		m.fdb(e.Port, unix.NUD_NOARP, unix.NTF_MASTER)
	}
	m.bytes(unix.NDA_LLADDR, mac)
	if e.VLAN != 0 {
		m.u16(unix.NDA_VLAN, uint16(e.VLAN))
	}
}

// fdb adds the header of messages about forwarding entries.
func (m *message) fdb(index int, state uint16, flags uint8) {
	m.neighbor(unix.AF_BRIDGE, index, state)
	m.b[len(m.b)-2] = flags
}

// parseFDB reads the body of a message about a forwarding entry; false for all other, and
// for the hardware addresses that a link of another type listens to.
func parseFDB(body []byte) (e fdbEntry, ok bool) {
	if len(body) < unix.SizeofNdMsg || body[0] != unix.AF_BRIDGE {
		return e, false
	}
	index, state, flags := int(asU32(body[4:])), asU16(body[8:]), body[10]
	e.set = state&(unix.NUD_PERMANENT|unix.NUD_NOARP) != 0 || flags&unix.NTF_EXT_LEARNED != 0
	e.Special = flags&unix.NTF_EXT_LEARNED != 0
	for typ, v := range attributes(body[unix.SizeofNdMsg:]) {
		switch typ {
		case unix.NDA_LLADDR:
			e.MAC = net.HardwareAddr(v).String()
		case unix.NDA_DST:
			e.Address = asAddr(v)
		case unix.NDA_MASTER:
			e.Table = int(asU32(v))
		case unix.NDA_VLAN:
			e.VLAN = int(asU16(v))
		case unix.NDA_PORT, unix.NDA_VNI, unix.NDA_IFINDEX, ndaNextHopID:
			e.Special = true
		}
	}
	if flags&unix.NTF_SELF != 0 {
		e.Table = index
		return e, e.Address.IsValid() || e.Special
	}
	e.Port, e.Local = index, state&unix.NUD_PERMANENT != 0
	return e, e.Table != 0
}
