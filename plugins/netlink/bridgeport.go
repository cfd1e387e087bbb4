package netlink

import (
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// portFlags are the settings of a port that are on or off, with their attributes.
func portFlags(s *kernel.PortSpec) map[int]**bool {
	return map[int]**bool{
		unix.IFLA_BRPORT_ISOLATED: &s.Isolated, unix.IFLA_BRPORT_MODE: &s.Hairpin, unix.IFLA_BRPORT_LEARNING: &s.Learning,
		unix.IFLA_BRPORT_UNICAST_FLOOD: &s.UnicastFlood, unix.IFLA_BRPORT_MCAST_FLOOD: &s.MulticastFlood,
		unix.IFLA_BRPORT_BCAST_FLOOD: &s.BroadcastFlood, unix.IFLA_BRPORT_GUARD: &s.BPDUGuard,
		unix.IFLA_BRPORT_PROTECT: &s.RootBlock, unix.IFLA_BRPORT_FAST_LEAVE: &s.FastLeave,
		unix.IFLA_BRPORT_NEIGH_SUPPRESS: &s.NeighSuppress,
	}
}

// porting sets how its bridge treats a port, nil if nothing of that is to change.
func porting(index int, p kernel.LinkPatch) (*message, error) {
	if p.Port == nil || *p.Port == (kernel.PortSpec{}) {
		return nil, nil
	}
	m := newMessage(unix.RTM_NEWLINK, 0)
	m.link(unix.AF_UNSPEC, index, 0, 0)
	info := m.open(unix.IFLA_LINKINFO)
	m.bytes(unix.IFLA_INFO_SLAVE_KIND, []byte("bridge"))
	data := m.open(unix.IFLA_INFO_SLAVE_DATA)
	if p.Port.Cost != nil {
		m.u32(unix.IFLA_BRPORT_COST, *p.Port.Cost)
	}
	if p.Port.Priority != nil {
		m.u16(unix.IFLA_BRPORT_PRIORITY, *p.Port.Priority)
	}
	flags := portFlags(p.Port)
	for _, typ := range slices.Sorted(maps.Keys(flags)) {
		if on := *flags[typ]; on != nil {
			m.u8(typ, uint8(number(*on)))
		}
	}
	m.close(data)
	m.close(info)
	return m, nil
}

func parsePort(data []byte) *kernel.PortSpec {
	s := &kernel.PortSpec{}
	flags := portFlags(s)
	for typ, v := range attributes(data) {
		switch typ {
		case unix.IFLA_BRPORT_COST:
			s.Cost = ref(asU32(v))
		case unix.IFLA_BRPORT_PRIORITY:
			s.Priority = ref(asU16(v))
		}
		if flag := flags[typ]; flag != nil {
			*flag = ref(asU8(v) != 0)
		}
	}
	return s
}

// What linux/if_bridge.h says of VLANs and x/sys does not.
const (
	bridgeFlags    = 0 // IFLA_BRIDGE_FLAGS
	bridgeVLANInfo = 2 // IFLA_BRIDGE_VLAN_INFO
	flagsSelf      = 2 // BRIDGE_FLAGS_SELF

	vlanPVID     = 1 << 1
	vlanUntagged = 1 << 2

	vlanEntry      = 1 // BRIDGE_VLANDB_ENTRY
	vlanEntryInfo  = 1 // BRIDGE_VLANDB_ENTRY_INFO
	vlanEntryRange = 2 // BRIDGE_VLANDB_ENTRY_RANGE

	sizeofVLANMessage = 8 // struct br_vlan_msg
)

// BridgeVLANs are those of the port of a bridge, or of a bridge itself, in their order.
func (k *Kernel) BridgeVLANs(ns kernel.NS, index int) (list []kernel.BridgeVLAN, err error) {
	err = k.in(ns, fmt.Sprintf("list VLANs of link %d", index), func(n *namespace) error {
		list, err = n.bridgeVLANs(index)
		return err
	})
	return list, err
}

func (n *namespace) bridgeVLANs(index int) (list []kernel.BridgeVLAN, err error) {
	if err := checkIndex(index); err != nil {
		return nil, err
	}
	m := newMessage(unix.RTM_GETVLAN, unix.NLM_F_DUMP)
	m.b = append(m.b, unix.AF_BRIDGE, 0, 0, 0)
	m.b = native.AppendUint32(m.b, uint32(index))
	err = n.dump(m, func() { list = nil }, func(_ uint16, body []byte) {
		if len(body) >= sizeofVLANMessage && int(asU32(body[4:])) == index {
			list = append(list, parseVLANs(body[sizeofVLANMessage:])...)
		}
	})
	slices.SortFunc(list, func(a, b kernel.BridgeVLAN) int { return a.ID - b.ID })
	return list, err
}

func parseVLANs(b []byte) (list []kernel.BridgeVLAN) {
	for typ, entry := range attributes(b) {
		if typ != vlanEntry {
			continue
		}
		var flags uint16
		var first, last int
		for typ, v := range attributes(entry) {
			switch typ {
			case vlanEntryInfo:
				if len(v) >= 4 {
					flags, first = asU16(v), int(asU16(v[2:]))
					last = max(last, first)
				}
			case vlanEntryRange:
				last = int(asU16(v))
			}
		}
		for id := first; id <= min(last, 4094) && id > 0; id++ {
			list = append(list, kernel.BridgeVLAN{ID: id, PVID: flags&vlanPVID != 0, Untagged: flags&vlanUntagged != 0})
		}
	}
	return list
}

// SetBridgeVLANs makes the VLANs of a port, or of a bridge itself, those of the list.
func (k *Kernel) SetBridgeVLANs(ns kernel.NS, index int, list []kernel.BridgeVLAN) error {
	return k.in(ns, fmt.Sprintf("set VLANs of link %d", index), func(n *namespace) error {
		there, err := n.bridgeVLANs(index)
		if err != nil {
			return err
		}
		l, err := k.linkByIndex(n, index)
		if err != nil {
			return err
		}
		var gone, come []kernel.BridgeVLAN
		for _, v := range there {
			if !slices.ContainsFunc(list, func(w kernel.BridgeVLAN) bool { return w.ID == v.ID }) {
				gone = append(gone, v)
			}
		}
		for _, v := range list {
			if !slices.Contains(there, v) {
				come = append(come, v)
			}
		}
		if err := n.changeVLANs(unix.RTM_DELLINK, l, gone); err != nil {
			return err
		}
		return n.changeVLANs(unix.RTM_SETLINK, l, come)
	})
}

// vlansPerMessage bounds what one request changes.
const vlansPerMessage = 1000

func (n *namespace) changeVLANs(typ int, l kernel.Link, list []kernel.BridgeVLAN) error {
	for part := range slices.Chunk(list, vlansPerMessage) {
		m := newMessage(typ, 0)
		m.link(unix.AF_BRIDGE, l.Index, 0, 0)
		spec := m.open(unix.IFLA_AF_SPEC)
		if l.Bridge != nil && l.Port == nil {
			m.u16(bridgeFlags, flagsSelf)
		}
		for _, v := range part {
			var flags uint16
			if v.PVID {
				flags |= vlanPVID
			}
			if v.Untagged {
				flags |= vlanUntagged
			}
			info := native.AppendUint16(native.AppendUint16(nil, flags), uint16(v.ID))
			m.bytes(bridgeVLANInfo, info)
		}
		m.close(spec)
		if err := n.do(m, nil); err != nil {
			return err
		}
	}
	return nil
}
