package iface

import (
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
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
	d.Must(addr(was.GetRemote()) != addr(is.GetRemote()), "vxlan.remote", was.GetRemote(), is.GetRemote())
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
	return v
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
