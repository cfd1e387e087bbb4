package netlink

import (
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// Features are the offloads of a device by the kernel's names.
func (k *Kernel) Features(ns kernel.NS, index int) (all map[string]kernel.Feature, err error) {
	err = k.ethtool(ns, index, "read features", func(g generic) error {
		m := g.ofDevice(unix.ETHTOOL_MSG_FEATURES_GET, unix.ETHTOOL_A_FEATURES_HEADER, index)
		return g.get(m, func(attrs []byte) { all = parseFeatures(attrs) })
	})
	return all, err
}

// SetFeatures asks for features to be on or off.
func (k *Kernel) SetFeatures(ns kernel.NS, index int, on map[string]bool) error {
	return k.ethtool(ns, index, "change features", func(g generic) error {
		m := g.ofDevice(unix.ETHTOOL_MSG_FEATURES_SET, unix.ETHTOOL_A_FEATURES_HEADER, index)
		wanted := m.open(unix.ETHTOOL_A_FEATURES_WANTED)
		bits := m.open(unix.ETHTOOL_A_BITSET_BITS)
		for _, name := range slices.Sorted(maps.Keys(on)) {
			bit := m.open(unix.ETHTOOL_A_BITSET_BITS_BIT)
			m.str(unix.ETHTOOL_A_BITSET_BIT_NAME, name)
			if on[name] {
				m.bytes(unix.ETHTOOL_A_BITSET_BIT_VALUE, nil)
			}
			m.close(bit)
		}
		m.close(bits)
		m.close(wanted)
		return g.set(m)
	})
}

// Rings are those of a device.
func (k *Kernel) Rings(ns kernel.NS, index int) (r kernel.Rings, err error) {
	err = k.ethtool(ns, index, "read rings", func(g generic) error {
		m := g.ofDevice(unix.ETHTOOL_MSG_RINGS_GET, unix.ETHTOOL_A_RINGS_HEADER, index)
		return g.get(m, func(attrs []byte) { r = parseRings(attrs) })
	})
	return r, err
}

// SetRings changes the rings of a device; what is 0 stays.
func (k *Kernel) SetRings(ns kernel.NS, index int, rx, tx uint32) error {
	return k.ethtool(ns, index, "change rings", func(g generic) error {
		m := g.ofDevice(unix.ETHTOOL_MSG_RINGS_SET, unix.ETHTOOL_A_RINGS_HEADER, index)
		addRings(m, rx, tx)
		return g.set(m)
	})
}

func addRings(m *message, rx, tx uint32) {
	if rx != 0 {
		m.u32(unix.ETHTOOL_A_RINGS_RX, rx)
	}
	if tx != 0 {
		m.u32(unix.ETHTOOL_A_RINGS_TX, tx)
	}
}

func (k *Kernel) ethtool(ns kernel.NS, index int, doing string, f func(g generic) error) error {
	return k.in(ns, fmt.Sprintf("%s of link %d", doing, index), func(n *namespace) error {
		if err := checkIndex(index); err != nil {
			return err
		}
		return n.withGeneric(unix.ETHTOOL_GENL_NAME, f)
	})
}

// ofDevice is a request about one device.
func (g generic) ofDevice(command uint8, header, index int) *message {
	m := g.message(command)
	at := m.open(header)
	m.u32(unix.ETHTOOL_A_HEADER_DEV_INDEX, uint32(index))
	m.close(at)
	return m
}

// parseFeatures reads four sets of bits. Those of what can be changed and what never can
// list all features, the others only those that are in them.
func parseFeatures(attrs []byte) map[string]kernel.Feature {
	sets := map[int]map[string]bool{}
	for typ, v := range attributes(attrs) {
		sets[typ] = parseBits(v)
	}
	all := map[string]kernel.Feature{}
	for name, changeable := range sets[unix.ETHTOOL_A_FEATURES_HW] {
		_, on := sets[unix.ETHTOOL_A_FEATURES_ACTIVE][name]
		_, requested := sets[unix.ETHTOOL_A_FEATURES_WANTED][name]
		all[name] = kernel.Feature{On: on, Requested: requested, Fixed: !changeable || sets[unix.ETHTOOL_A_FEATURES_NOCHANGE][name]}
	}
	return all
}

// parseBits reads a set of bits that are named: which are listed, and which of them are set.
func parseBits(b []byte) map[string]bool {
	set := map[string]bool{}
	for typ, list := range attributes(b) {
		if typ != unix.ETHTOOL_A_BITSET_BITS {
			continue
		}
		for _, bit := range attributes(list) {
			name, value := "", false
			for typ, v := range attributes(bit) {
				switch typ {
				case unix.ETHTOOL_A_BITSET_BIT_NAME:
					name = asString(v)
				case unix.ETHTOOL_A_BITSET_BIT_VALUE:
					value = true
				}
			}
			if name != "" {
				set[name] = value
			}
		}
	}
	return set
}

func parseRings(attrs []byte) (r kernel.Rings) {
	for typ, v := range attributes(attrs) {
		switch typ {
		case unix.ETHTOOL_A_RINGS_RX:
			r.RX = asU32(v)
		case unix.ETHTOOL_A_RINGS_TX:
			r.TX = asU32(v)
		case unix.ETHTOOL_A_RINGS_RX_MAX:
			r.MaxRX = asU32(v)
		case unix.ETHTOOL_A_RINGS_TX_MAX:
			r.MaxTX = asU32(v)
		}
	}
	return r
}
