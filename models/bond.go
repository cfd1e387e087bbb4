package models

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// The modes of bonds that settings depend on.
const (
	bondActiveBackup = "active-backup"
	bondLACP         = "802.3ad"
)

// defaultMiimon is how often a bond looks at its ports, in milliseconds. The kernel's own
// default is never, with which it does not notice that one fails.
const defaultMiimon = 100

// maxARPTargets is the kernel's bound (BOND_MAX_ARP_TARGETS).
const maxARPTargets = 16

// EffectiveMiimon is miimon, or its default: 100, with arp_interval 0.
func (x *Bond) EffectiveMiimon() uint32 {
	if x.GetArpInterval() != 0 {
		return x.GetMiimon()
	}
	return orDefault(x.GetMiimon(), defaultMiimon)
}

// EffectiveLacpRate is lacp_rate, default slow.
func (x *Bond) EffectiveLacpRate() string { return orDefault(x.GetLacpRate(), "slow") }

// EffectiveXmitHashPolicy is xmit_hash_policy, default layer2.
func (x *Bond) EffectiveXmitHashPolicy() string { return orDefault(x.GetXmitHashPolicy(), "layer2") }

// EffectiveFailOverMac is fail_over_mac, default none.
func (x *Bond) EffectiveFailOverMac() string { return orDefault(x.GetFailOverMac(), "none") }

func (x *Bond) check(f *findings) {
	if x.GetMode() == "" {
		f.add("bond.mode", "must be given, such as active-backup or 802.3ad")
	}
	onlyIn := func(given bool, field string, modes ...string) {
		if given && !slices.Contains(modes, x.GetMode()) {
			f.add("bond."+field, "is for mode %s; take it out", strings.Join(modes, ", "))
		}
	}
	onlyIn(x.GetLacpRate() != "", "lacp_rate", bondLACP)
	onlyIn(x.GetMinLinks() != 0, "min_links", bondLACP)
	onlyIn(x.GetXmitHashPolicy() != "", "xmit_hash_policy", "balance-xor", bondLACP, "balance-tlb")
	onlyIn(x.GetFailOverMac() != "", "fail_over_mac", bondActiveBackup)
	onlyIn(x.GetArpInterval() != 0, "arp_interval", "balance-rr", bondActiveBackup, "balance-xor", "broadcast")
	for _, d := range []struct {
		field string
		delay uint32
	}{{"updelay", x.GetUpdelay()}, {"downdelay", x.GetDowndelay()}} {
		if every := x.EffectiveMiimon(); d.delay != 0 && (every == 0 || d.delay%every != 0) {
			f.add("bond."+d.field, "must be a multiple of miimon, which is %d", every)
		}
	}
	x.checkARP(f)
}

func (x *Bond) checkARP(f *findings) {
	switch {
	case x.GetArpInterval() != 0 && x.GetMiimon() != 0:
		f.add("bond.arp_interval", "not together with miimon; keep one")
	case x.GetArpInterval() != 0 && len(x.GetArpTargets()) == 0:
		f.add("bond.arp_targets", "must be given with arp_interval, such as [10.0.0.1]")
	case x.GetArpInterval() == 0 && len(x.GetArpTargets()) > 0:
		f.add("bond.arp_targets", "are asked for with arp_interval; give it, such as 1000")
	case len(x.GetArpTargets()) > maxARPTargets:
		f.add("bond.arp_targets", "there may be %d, not %d", maxARPTargets, len(x.GetArpTargets()))
	}
	seen := map[netip.Addr]bool{}
	for i, text := range x.GetArpTargets() {
		at := fmt.Sprintf("bond.arp_targets[%d]", i)
		a, ok := parseIP(text, at, f)
		switch {
		case !ok:
		case !a.Is4():
			f.add(at, "%s is no IPv4 address; ARP asks for no others", a)
		case seen[a]:
			f.add(at, "%s is in the list already", a)
		default:
			checkUnicast(a, at, f)
			seen[a] = true
		}
	}
}
