package kerneltest

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

func bondDefaults() *kernel.BondSpec {
	return &kernel.BondSpec{
		Mode: new("balance-rr"), Miimon: new(uint32(0)), UpDelay: new(uint32(0)), DownDelay: new(uint32(0)),
		LACPRate: new("slow"), XmitHashPolicy: new("layer2"), MinLinks: new(uint32(0)), FailOverMAC: new("none"),
		ARPInterval: new(uint32(0)), ARPTargets: &[]netip.Addr{}, AllPortsActive: new(false),
	}
}

// Modes of bonds, by what they ask of their ports.
const lacp = "802.3ad"

// byARP reports whether a mode can tell by ARP whether a port carries.
func byARP(mode string) bool { return mode != lacp && mode != "balance-tlb" && mode != "balance-alb" }

// bondWords are what the settings that are words can be.
var bondWords = map[string][]string{
	"mode":             {"balance-rr", "active-backup", "balance-xor", "broadcast", lacp, "balance-tlb", "balance-alb"},
	"lacp_rate":        {"slow", "fast"},
	"xmit_hash_policy": {"layer2", "layer3+4", "layer2+3", "encap2+3", "encap3+4", "vlan+srcmac"},
	"fail_over_mac":    {"none", "active", "follow"},
}

// changeBond gives a bond the settings that are named, in the order of Linux: those before one
// that is refused stay.
func (l *link) changeBond(to *kernel.BondSpec) error {
	b := l.Bond
	for name, word := range map[string]*string{
		"mode": to.Mode, "lacp_rate": to.LACPRate, "xmit_hash_policy": to.XmitHashPolicy, "fail_over_mac": to.FailOverMAC,
	} {
		if word != nil && !slices.Contains(bondWords[name], *word) {
			return fmt.Errorf("no %s %q: %w", name, *word, syscall.EINVAL)
		}
	}
	if to.Mode != nil {
		if err := l.changeMode(*to.Mode); err != nil {
			return err
		}
	}
	if err := changeMonitors(b, to); err != nil {
		return err
	}
	if to.FailOverMAC != nil {
		if len(l.ports) > 0 {
			return syscall.ENOTEMPTY
		}
		b.FailOverMAC = to.FailOverMAC
	}
	b.XmitHashPolicy = cmp.Or(to.XmitHashPolicy, b.XmitHashPolicy)
	b.AllPortsActive = cmp.Or(to.AllPortsActive, b.AllPortsActive)
	b.MinLinks = cmp.Or(to.MinLinks, b.MinLinks)
	if to.LACPRate != nil {
		switch {
		case *b.Mode != lacp:
			return syscall.EACCES
		case l.Up:
			return syscall.EBUSY
		}
		b.LACPRate = to.LACPRate
	}
	return nil
}

func (l *link) changeMode(mode string) error {
	switch {
	case len(l.ports) > 0:
		return syscall.ENOTEMPTY
	case l.Up:
		return syscall.EBUSY
	}
	b := l.Bond
	b.Mode = &mode
	if !byARP(mode) {
		b.ARPInterval = new(uint32(0))
		if *b.Miimon == 0 {
			b.Miimon = new(uint32(100))
		}
	}
	return nil
}

// changeMonitors sets how a bond finds out which ports carry: by their carriers or by ARP, of
// which the one that is set ends the other. Delays are so many looks at a carrier.
func changeMonitors(b, to *kernel.BondSpec) error {
	if to.Miimon != nil {
		looks := func(delay *uint32) *uint32 { return new(*delay / max(*b.Miimon, 1) * *to.Miimon) }
		b.UpDelay, b.DownDelay, b.Miimon = looks(b.UpDelay), looks(b.DownDelay), to.Miimon
		if *b.Miimon != 0 {
			b.ARPInterval = new(uint32(0))
		}
	}
	for _, x := range []struct{ is, to **uint32 }{{&b.UpDelay, &to.UpDelay}, {&b.DownDelay, &to.DownDelay}} {
		if *x.to == nil {
			continue
		}
		if *b.Miimon == 0 {
			return syscall.EPERM
		}
		*x.is = new(**x.to / *b.Miimon * *b.Miimon)
	}
	if to.ARPInterval != nil {
		switch {
		case *to.ARPInterval != 0 && to.Miimon != nil && *to.Miimon != 0:
			return syscall.EINVAL
		case !byARP(*b.Mode):
			return syscall.EACCES
		}
		b.ARPInterval = to.ARPInterval
		if *b.ARPInterval != 0 {
			b.Miimon, b.UpDelay, b.DownDelay = new(uint32(0)), new(uint32(0)), new(uint32(0))
		}
	}
	if to.ARPTargets == nil {
		return nil
	}
	b.ARPTargets = &[]netip.Addr{}
	for _, a := range *to.ARPTargets {
		if !a.Is4() || a.IsUnspecified() || slices.Contains(*b.ARPTargets, a) {
			return syscall.EINVAL
		}
		*b.ARPTargets = append(*b.ARPTargets, a)
	}
	return nil
}

// joinBond makes a link the port of a bond: it goes up, and is as large. The first one gives the
// bond its hardware address.
func (k *Kernel) joinBond(l, m *link) error {
	switch {
	case l.Vrf != nil:
		return syscall.EPERM
	case l.receives():
		return syscall.EBUSY
	case l == m, l.Up:
		return syscall.EPERM
	case l.MAC == "", l.Name == loopback:
		return syscall.EINVAL
	case m.isBelow(l):
		return syscall.EBUSY
	}
	if len(m.ports) == 0 && !m.givenMAC {
		k.setMAC(m, l.MAC)
	}
	if m.MAC != l.MAC { // which it has meanwhile
		k.dropNeighbors(l, netip.Addr.IsValid)
	}
	l.master, l.freeMTU = m, l.MTU
	m.ports = append(m.ports, l)
	k.setMTU(l, m.MTU)
	if err := k.setUp(l, true); err != nil {
		return err
	}
	k.refresh(m)
	return nil
}

// leaveBond ends that: the link goes down and is as large as it was. Without ports a bond has a
// hardware address of its own.
func (k *Kernel) leaveBond(l, m *link) {
	l.master = nil
	if l.Up {
		k.goDown(l)
	} else {
		k.tellLink(l, false)
	}
	k.setMTU(l, l.freeMTU)
	if len(m.ports) == 0 {
		m.givenMAC = false
		k.setMAC(m, k.newMAC())
	}
	k.refresh(m)
}

// bondCarries reports whether a bond has a carrier. One that does not look at the carriers of its
// ports, which is one by ARP here too, takes all of them to have one.
func (l *link) bondCarries() bool {
	n, enough := 0, 1
	for _, p := range l.ports {
		if *l.Bond.Miimon == 0 || p.running {
			n++
		}
	}
	if *l.Bond.Mode == lacp {
		enough = max(1, int(*l.Bond.MinLinks))
	}
	return n >= enough
}

// bond reads a setting of a bond.
func (c *request) bond(b *kernel.BondSpec, w string) bool {
	number := func() *uint32 { return new(uint32(c.number())) }
	switch w {
	case "mode":
		b.Mode = new(c.next())
	case "miimon":
		b.Miimon = number()
	case "updelay":
		b.UpDelay = number()
	case "downdelay":
		b.DownDelay = number()
	case "lacp_rate":
		b.LACPRate = new(c.next())
	case "xmit_hash_policy":
		b.XmitHashPolicy = new(c.next())
	case "min_links":
		b.MinLinks = number()
	case "fail_over_mac":
		b.FailOverMAC = new(c.next())
	case "arp_interval":
		b.ARPInterval = number()
	case "arp_ip_target":
		b.ARPTargets = &[]netip.Addr{}
		for a := range strings.SplitSeq(c.next(), ",") {
			target, err := netip.ParseAddr(a)
			if err != nil {
				c.fail("%q is no address", a)
			}
			*b.ARPTargets = append(*b.ARPTargets, target)
		}
	case "all_slaves_active":
		b.AllPortsActive = new(c.number() != 0)
	default:
		return false
	}
	return true
}

// bondText are the settings of a bond that are not those it would have anyway.
func bondText(b *kernel.BondSpec) (words []string) {
	d := bondDefaults()
	add := func(word, is, would string) {
		if is != would {
			words = append(words, word+" "+is)
		}
	}
	words = append(words, "mode "+*b.Mode)
	for _, x := range []struct {
		word      string
		is, would *uint32
	}{
		{"miimon", b.Miimon, d.Miimon}, {"updelay", b.UpDelay, d.UpDelay}, {"downdelay", b.DownDelay, d.DownDelay},
		{"min_links", b.MinLinks, d.MinLinks}, {"arp_interval", b.ARPInterval, d.ARPInterval},
	} {
		add(x.word, fmt.Sprint(*x.is), fmt.Sprint(*x.would))
	}
	add("lacp_rate", *cmp.Or(b.LACPRate, d.LACPRate), *d.LACPRate)
	add("xmit_hash_policy", *b.XmitHashPolicy, *d.XmitHashPolicy)
	add("fail_over_mac", *b.FailOverMAC, *d.FailOverMAC)
	var targets []string
	for _, a := range *b.ARPTargets {
		targets = append(targets, a.String())
	}
	add("arp_ip_target", strings.Join(targets, ","), "")
	if *b.AllPortsActive {
		words = append(words, "all_slaves_active 1")
	}
	return words
}
