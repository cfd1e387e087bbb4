package iface

import (
	"errors"
	"net/netip"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// bond makes its ports work as one.
type bond struct{ plain }

func (bond) spec(w *wish, s *kernel.LinkSpec) error {
	s.Bond = bondSpec(w.value.GetBond())
	return nil
}

// bondSpec is what is asked for; the kernel takes no setting that its mode does not have.
func bondSpec(v *models.Bond) *kernel.BondSpec {
	s := &kernel.BondSpec{Mode: &v.Mode, AllPortsActive: &v.AllPortsActive}
	if v.Mode == "802.3ad" {
		rate := v.EffectiveLacpRate()
		s.LACPRate, s.MinLinks = &rate, &v.MinLinks
	}
	if slices.Contains([]string{"balance-xor", "802.3ad", "balance-tlb"}, v.Mode) {
		policy := v.EffectiveXmitHashPolicy()
		s.XmitHashPolicy = &policy
	}
	if v.Mode == "active-backup" {
		who := v.EffectiveFailOverMac()
		s.FailOverMAC = &who
	}
	if v.GetArpInterval() != 0 {
		targets := addrs(v.GetArpTargets())
		s.ARPInterval, s.ARPTargets = &v.ArpInterval, &targets
		return s
	}
	every := v.EffectiveMiimon()
	s.Miimon, s.UpDelay, s.DownDelay = &every, &v.Updelay, &v.Downdelay
	return s
}

func addrs(texts []string) []netip.Addr {
	list := make([]netip.Addr, len(texts))
	for i, text := range texts {
		list[i] = addr(text)
	}
	return list
}

// patchBond is what of the settings is not as asked, nil if nothing.
func patchBond(actual *kernel.BondSpec, v *models.Bond) *kernel.BondSpec {
	want := bondSpec(v)
	if actual != nil {
		want.Mode = unless(want.Mode, actual.Mode)
		want.Miimon = unless(want.Miimon, actual.Miimon)
		want.UpDelay = unless(want.UpDelay, actual.UpDelay)
		want.DownDelay = unless(want.DownDelay, actual.DownDelay)
		want.LACPRate = unless(want.LACPRate, actual.LACPRate)
		want.XmitHashPolicy = unless(want.XmitHashPolicy, actual.XmitHashPolicy)
		want.MinLinks = unless(want.MinLinks, actual.MinLinks)
		want.FailOverMAC = unless(want.FailOverMAC, actual.FailOverMAC)
		want.ARPInterval = unless(want.ARPInterval, actual.ARPInterval)
		want.AllPortsActive = unless(want.AllPortsActive, actual.AllPortsActive)
		if a, b := want.ARPTargets, actual.ARPTargets; a != nil && b != nil && slices.Equal(*a, *b) {
			want.ARPTargets = nil
		}
	}
	if *want == (kernel.BondSpec{}) {
		return nil
	}
	return want
}

func (bond) differs(actual, desired *models.Interface) (d kind.Differences) {
	was, is := actual.GetBond(), desired.GetBond()
	d.Must(was.GetMode() != is.GetMode(), "bond.mode", was.GetMode(), is.GetMode())
	d.Must(was.EffectiveFailOverMac() != is.EffectiveFailOverMac(), "bond.fail_over_mac", was.EffectiveFailOverMac(), is.EffectiveFailOverMac())
	d.May(was.EffectiveMiimon() != is.EffectiveMiimon(), "bond.miimon", was.EffectiveMiimon(), is.EffectiveMiimon())
	if is.EffectiveMiimon() != 0 {
		d.May(was.GetUpdelay() != is.GetUpdelay(), "bond.updelay", was.GetUpdelay(), is.GetUpdelay())
		d.May(was.GetDowndelay() != is.GetDowndelay(), "bond.downdelay", was.GetDowndelay(), is.GetDowndelay())
	}
	d.May(was.EffectiveLacpRate() != is.EffectiveLacpRate(), "bond.lacp_rate", was.EffectiveLacpRate(), is.EffectiveLacpRate())
	d.May(was.EffectiveXmitHashPolicy() != is.EffectiveXmitHashPolicy(), "bond.xmit_hash_policy",
		was.EffectiveXmitHashPolicy(), is.EffectiveXmitHashPolicy())
	d.May(was.GetMinLinks() != is.GetMinLinks(), "bond.min_links", was.GetMinLinks(), is.GetMinLinks())
	d.May(was.GetArpInterval() != is.GetArpInterval(), "bond.arp_interval", was.GetArpInterval(), is.GetArpInterval())
	d.May(is.GetArpInterval() != 0 && !slices.Equal(addrs(was.GetArpTargets()), addrs(is.GetArpTargets())),
		"bond.arp_targets", was.GetArpTargets(), is.GetArpTargets())
	d.May(was.GetAllPortsActive() != is.GetAllPortsActive(), "bond.all_ports_active", was.GetAllPortsActive(), is.GetAllPortsActive())
	return d
}

func readBond(s *kernel.BondSpec) *models.Bond {
	if s == nil {
		return &models.Bond{}
	}
	v := &models.Bond{
		Mode: value(s.Mode), Miimon: value(s.Miimon), Updelay: value(s.UpDelay), Downdelay: value(s.DownDelay),
		ArpInterval: value(s.ARPInterval), AllPortsActive: value(s.AllPortsActive),
	}
	switch v.Mode { // of others the kernel shows what it does not use
	case "802.3ad":
		v.LacpRate, v.MinLinks, v.XmitHashPolicy = value(s.LACPRate), value(s.MinLinks), value(s.XmitHashPolicy)
	case "balance-xor", "balance-tlb":
		v.XmitHashPolicy = value(s.XmitHashPolicy)
	case "active-backup":
		v.FailOverMac = value(s.FailOverMAC)
	}
	if s.ARPTargets != nil {
		for _, a := range *s.ARPTargets {
			v.ArpTargets = append(v.ArpTargets, a.String())
		}
	}
	return v
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// setLACPRate changes what the kernel changes only while the bond is down. It stays so for
// a moment; the ports stay in it.
func (d *iface) setLACPRate(w *wish, l *kernel.Link) error {
	p := patchBond(l.Bond, w.value.GetBond())
	if p == nil || p.LACPRate == nil || !l.Up {
		return nil
	}
	down, up := false, true
	if err := d.Kernel.SetLink(l.NS, l.Index, kernel.LinkPatch{Up: &down}); err != nil {
		return err
	}
	err := d.Kernel.SetLink(l.NS, l.Index, kernel.LinkPatch{Bond: p})
	return errors.Join(err, d.Kernel.SetLink(l.NS, l.Index, kernel.LinkPatch{Up: &up}), d.again(l))
}

// isBond reports whether an interface is a bond. What an existing one is only the kernel
// can tell.
func (d *iface) isBond(k scheduler.Key, ref kernel.LinkRef) (bool, error) {
	v, _, _ := d.Interfaces.Get(k)
	if v.GetExisting() == nil {
		return v.GetBond() != nil, nil
	}
	l, err := d.Kernel.LinkByIndex(ref.NS, ref.Index)
	return l.Bond != nil, err
}

// join brings a link into its bond, or out of one that it is not to be in, and reads it
// again. Other masters take a link as it is.
func (d *iface) join(w *wish, l *kernel.Link) error {
	if w.there && w.value.SetsOnce("master") {
		return nil
	}
	moves := l.Master != w.master.Index
	var mac *string
	if asked := w.value.GetMacAddress(); w.bonded && asked != "" {
		needed := false
		set(&mac, strings.ToLower(asked), l.MAC, &needed) // the bond's would change with it
		moves = moves || needed && !(w.there && w.value.SetsOnce("mac_address"))
	}
	if !moves {
		return nil
	}
	if leaves, err := d.inBond(*l); err != nil || !leaves && !w.bonded {
		return err
	}
	return d.move(l, w.master.Index, mac)
}

// inBond reports whether a link is the port of a bond.
func (d *iface) inBond(l kernel.Link) (bool, error) {
	if l.Master == 0 {
		return false, nil
	}
	m, err := d.Kernel.LinkByIndex(l.NS, l.Master)
	return m.Bond != nil, err
}

// move takes a link from one master, if it has one, to another, 0 for none, and reads it
// again. A link must be down to join a bond, which sets it up; one that leaves a bond is
// down after that.
func (d *iface) move(l *kernel.Link, master int, mac *string) error {
	down, none := false, 0
	p := kernel.LinkPatch{MAC: mac}
	if l.Master != 0 {
		if err := d.Kernel.SetLink(l.NS, l.Index, kernel.LinkPatch{Master: &none}); err != nil {
			return err
		}
		p.Up = &down
	}
	if l.Up {
		p.Up = &down
	}
	if p != (kernel.LinkPatch{}) {
		if err := d.Kernel.SetLink(l.NS, l.Index, p); err != nil {
			return err
		}
	}
	if master != 0 {
		if err := d.Kernel.SetLink(l.NS, l.Index, kernel.LinkPatch{Master: &master}); err != nil {
			return err
		}
	}
	return d.again(l)
}

// again reads a link after a change that says more than was asked.
func (d *iface) again(l *kernel.Link) (err error) {
	*l, err = d.Kernel.LinkByIndex(l.NS, l.Index)
	return err
}
