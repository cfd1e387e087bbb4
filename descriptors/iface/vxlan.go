package iface

import (
	"errors"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// vxlan is a tunnel end. With a parent in another namespace the outer packets
// travel there.
type vxlan struct{ fixed }

func (vxlan) needs(_ scheduler.Key, v *models.Interface) []scheduler.Need {
	return parentNeeds(v, "the interface that carries the tunnel")
}

// parentNeeds needs the interface below, if the value names one.
func parentNeeds(v *models.Interface, why string) []scheduler.Need {
	if v.Parent() == "" {
		return nil
	}
	return []scheduler.Need{kind.OnInterface(v.Parent(), why)}
}

func (vxlan) spec(w *wish, s *kernel.LinkSpec) error {
	v := w.value.GetVxlan()
	s.Vxlan = &kernel.VxlanSpec{
		VNI:      v.GetVni(),
		Local:    addr(v.GetLocal()),
		Remote:   addr(v.GetRemote() + v.GetGroup()), // one of them at most
		Port:     int(v.EffectivePort()),
		Learning: !v.GetNoLearning() && !v.GetExternal(),
		External: v.GetExternal(),
		Parent:   w.parent.Index,
		ParentNS: w.parent.NS,
	}
	return nil
}

func (vxlan) differs(actual, desired *models.Interface) (d kind.Differences) {
	was, is := actual.GetVxlan(), desired.GetVxlan()
	d.Must(was.GetExternal() != is.GetExternal(), "vxlan.external", was.GetExternal(), is.GetExternal())
	d.Must(was.GetVni() != is.GetVni(), "vxlan.vni", was.GetVni(), is.GetVni())
	d.Must(addr(was.GetLocal()) != addr(is.GetLocal()), "vxlan.local", was.GetLocal(), is.GetLocal())
	remote := d.Must
	if was.GetRemote() == noFlood && is.GetRemote() != "" {
		remote = d.May
	}
	remote(addr(was.GetRemote()) != addr(is.GetRemote()), "vxlan.remote", was.GetRemote(), is.GetRemote())
	d.Must(addr(was.GetGroup()) != addr(is.GetGroup()), "vxlan.group", was.GetGroup(), is.GetGroup())
	d.Must(was.EffectivePort() != is.EffectivePort(), "vxlan.port", was.EffectivePort(), is.EffectivePort())
	d.Must(was.GetParent() != is.GetParent(), "vxlan.parent", was.GetParent(), is.GetParent())
	d.Must(was.GetNoLearning() != is.GetNoLearning(), "vxlan.no_learning", was.GetNoLearning(), is.GetNoLearning())
	return d
}

func (d *iface) readVxlan(l kernel.Link) *models.Vxlan {
	s := l.Vxlan
	if s == nil {
		return &models.Vxlan{}
	}
	v := &models.Vxlan{
		Vni: s.VNI, Local: text(s.Local), Port: uint32(s.Port), NoLearning: !s.Learning && !s.External, External: s.External,
		Parent: d.parentName(l, s.ParentNS, s.Parent),
	}
	if s.Remote.IsMulticast() {
		v.Group = text(s.Remote)
	} else {
		v.Remote = text(s.Remote)
	}
	if s.Remote.IsValid() && d.lacksFlood(l) {
		if v.Remote != "" {
			v.Remote = noFlood
		} else {
			v.Group = noFlood
		}
	}
	return v
}

// noFlood is the remote, or the group, of an actual value if the forwarding entry that the kernel
// creates with the vxlan was removed. Without it nothing is sent there. An entry to a remote is added
// again. An entry to a group cannot be created as the kernel does it, so the link is replaced.
const noFlood = "missing"

// flood is the forwarding entry for all MACs that the kernel creates with a vxlan.
func flood(l kernel.Link) kernel.FDBEntry {
	return kernel.FDBEntry{Table: l.Index, MAC: kernel.ZeroMAC, Address: l.Vxlan.Remote}
}

func (d *iface) lacksFlood(l kernel.Link) bool {
	_, err := d.Kernel.FDBEntry(l.NS, flood(l))
	return errors.Is(err, kernel.ErrNotExist)
}

// setFlood adds the forwarding entry to the remote if it is missing.
func (d *iface) setFlood(w *wish, l kernel.Link) error {
	if w.value.GetVxlan().GetRemote() == "" || l.Vxlan == nil || !d.lacksFlood(l) {
		return nil
	}
	return d.Kernel.AddFDBEntry(l.NS, flood(l))
}

// newsOfFlood returns the key of a vxlan whose forwarding entry to its remote or group was removed.
func (d *iface) newsOfFlood(ns kernel.NS, e kernel.FDBEntry) owned.News {
	return d.newsAbout(kernel.LinkRef{NS: ns, Index: e.Table}, func(v *models.Interface) bool {
		x := v.GetVxlan()
		return e.MAC == kernel.ZeroMAC && e.Port == 0 && addr(x.GetRemote()+x.GetGroup()) == e.Address
	})
}

// parentName names the interface below, "" if there is none.
func (d *iface) parentName(l kernel.Link, ns kernel.NS, index int) string {
	if index == 0 {
		return ""
	}
	if ns == 0 {
		ns = l.ParentNS
	}
	if ns == 0 {
		ns = l.NS
	}
	return d.linkName(kernel.LinkRef{NS: ns, Index: index}, "")
}
