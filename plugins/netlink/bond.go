package netlink

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// What ip-link(8) calls the kernel's numbers.
var (
	bondModes = numbered("bond mode", "balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb")
	lacpRates = numbered("lacp rate", "slow", "fast")
	hashes    = numbered("hash policy", "layer2", "layer3+4", "layer2+3", "encap2+3", "encap3+4", "vlan+srcmac")
	failOvers = numbered("fail over mac", "none", "active", "follow")
)

// words are the names of numbers from 0 on.
type words struct {
	what  string
	names []string
}

func numbered(what string, names ...string) words { return words{what, names} }

func (w words) number(name string) (uint32, error) {
	for i, n := range w.names {
		if n == name {
			return uint32(i), nil
		}
	}
	return 0, fmt.Errorf("no %s %q: %w", w.what, name, unix.EINVAL)
}

func (w words) name(n uint32) string {
	if int(n) < len(w.names) {
		return w.names[n]
	}
	return fmt.Sprint(n)
}

// addBond adds the settings that are given.
func addBond(m *message, s *kernel.BondSpec) error {
	for _, x := range []struct {
		typ  int
		of   words
		word *string
	}{
		{unix.IFLA_BOND_MODE, bondModes, s.Mode},
		{unix.IFLA_BOND_AD_LACP_RATE, lacpRates, s.LACPRate},
		{unix.IFLA_BOND_XMIT_HASH_POLICY, hashes, s.XmitHashPolicy},
		{unix.IFLA_BOND_FAIL_OVER_MAC, failOvers, s.FailOverMAC},
	} {
		if x.word == nil {
			continue
		}
		n, err := x.of.number(*x.word)
		if err != nil {
			return err
		}
		m.u8(x.typ, uint8(n))
	}
	for _, x := range []struct {
		typ int
		n   *uint32
	}{
		{unix.IFLA_BOND_MIIMON, s.Miimon}, {unix.IFLA_BOND_UPDELAY, s.UpDelay}, {unix.IFLA_BOND_DOWNDELAY, s.DownDelay},
		{unix.IFLA_BOND_MIN_LINKS, s.MinLinks}, {unix.IFLA_BOND_ARP_INTERVAL, s.ARPInterval},
	} {
		if x.n != nil {
			m.u32(x.typ, *x.n)
		}
	}
	if s.AllPortsActive != nil {
		m.u8(unix.IFLA_BOND_ALL_SLAVES_ACTIVE, uint8(number(*s.AllPortsActive)))
	}
	if s.ARPTargets != nil {
		at := m.open(unix.IFLA_BOND_ARP_IP_TARGET)
		for i, a := range *s.ARPTargets {
			m.addr(i, a)
		}
		m.close(at)
	}
	return nil
}

func parseBond(data []byte) *kernel.BondSpec {
	s := &kernel.BondSpec{ARPTargets: &[]netip.Addr{}}
	word := func(of words, v []byte) *string { return ref(of.name(uint32(asU8(v)))) }
	for typ, v := range attributes(data) {
		switch typ {
		case unix.IFLA_BOND_MODE:
			s.Mode = word(bondModes, v)
		case unix.IFLA_BOND_AD_LACP_RATE:
			s.LACPRate = word(lacpRates, v)
		case unix.IFLA_BOND_XMIT_HASH_POLICY:
			s.XmitHashPolicy = word(hashes, v)
		case unix.IFLA_BOND_FAIL_OVER_MAC:
			s.FailOverMAC = word(failOvers, v)
		case unix.IFLA_BOND_MIIMON:
			s.Miimon = ref(asU32(v))
		case unix.IFLA_BOND_UPDELAY:
			s.UpDelay = ref(asU32(v))
		case unix.IFLA_BOND_DOWNDELAY:
			s.DownDelay = ref(asU32(v))
		case unix.IFLA_BOND_MIN_LINKS:
			s.MinLinks = ref(asU32(v))
		case unix.IFLA_BOND_ARP_INTERVAL:
			s.ARPInterval = ref(asU32(v))
		case unix.IFLA_BOND_ALL_SLAVES_ACTIVE:
			s.AllPortsActive = ref(asU8(v) != 0)
		case unix.IFLA_BOND_ARP_IP_TARGET:
			for _, target := range attributes(v) {
				*s.ARPTargets = append(*s.ARPTargets, asAddr(target))
			}
		}
	}
	return s
}

func ref[T any](v T) *T { return &v }
