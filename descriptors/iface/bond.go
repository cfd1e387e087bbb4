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
	want := bondSpec(w.value.GetBond())
	s.Bond = &want
	return nil
}

func (bond) patch(w *wish, l kernel.Link, p *kernel.LinkPatch) {
	p.Bond = lacking(bondSpec(w.value.GetBond()), l.Bond)
}

// bondSpec is what is asked for; the kernel takes no setting that its mode does not have.
func bondSpec(v *models.Bond) kernel.BondSpec {
	s := kernel.BondSpec{Mode: &v.Mode, AllPortsActive: &v.AllPortsActive}
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
		Mode: orZero(s.Mode), Miimon: orZero(s.Miimon), Updelay: orZero(s.UpDelay), Downdelay: orZero(s.DownDelay),
		ArpInterval: orZero(s.ARPInterval), AllPortsActive: orZero(s.AllPortsActive),
	}
	switch v.Mode { // of others the kernel shows what it does not use
	case "802.3ad":
		v.LacpRate, v.MinLinks, v.XmitHashPolicy = orZero(s.LACPRate), orZero(s.MinLinks), orZero(s.XmitHashPolicy)
	case "balance-xor", "balance-tlb":
		v.XmitHashPolicy = orZero(s.XmitHashPolicy)
	case "active-backup":
		v.FailOverMac = orZero(s.FailOverMAC)
	}
	if s.ARPTargets != nil {
		for _, a := range *s.ARPTargets {
			v.ArpTargets = append(v.ArpTargets, a.String())
		}
	}
	return v
}

func orZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// setLACPRate changes what the kernel changes only while the bond is down. It stays so for
// a moment; the ports stay in it.
func (d *iface) setLACPRate(w *wish, l *kernel.Link) error {
	p := lacking(bondSpec(w.value.GetBond()), l.Bond)
	if p == nil || p.LACPRate == nil || !l.Up {
		return nil
	}
	down, up := false, true
	if err := d.Kernel.SetLink(l.NS, l.Index, kernel.LinkPatch{Up: &down}); err != nil {
		return err
	}
	err := d.Kernel.SetLink(l.NS, l.Index, kernel.LinkPatch{Bond: p})
	return errors.Join(err, d.Kernel.SetLink(l.NS, l.Index, kernel.LinkPatch{Up: &up}), d.reread(l))
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
	if asked := w.value.GetMacAddress(); w.bonded && asked != "" && !(w.there && w.value.SetsOnce("mac_address")) {
		set(&mac, strings.ToLower(asked), l.MAC) // the bond's would change with it
		moves = moves || mac != nil
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
	return d.reread(l)
}

// reread reads a link after a change that says more than was asked.
func (d *iface) reread(l *kernel.Link) (err error) {
	*l, err = d.Kernel.LinkByIndex(l.NS, l.Index)
	return err
}
