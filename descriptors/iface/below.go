package iface

import (
	"errors"
	"fmt"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// The types that share the wire of a parent, which may live in another
// namespace: they are born in their own and never move.

type below struct{ fixed }

func (below) needs(_ scheduler.Key, v *models.Interface) []scheduler.Need {
	return parentNeeds(v, "the interface below")
}

// onParent names the parent if that is down, and the kernel refuses to set the link up for it. Of
// the types with a parent only VLANs are refused; the others are up without a carrier.
func (d *iface) onParent(w *wish, err error) error {
	if !errors.Is(err, kernel.ErrDown) {
		return err
	}
	err = fmt.Errorf("a %s can be up only while its parent is: %w", w.value.LinkType(), err)
	return kind.Down(d.Kernel, d.Interfaces, err, w.value.Parent())
}

type macvlan struct{ below }

func (macvlan) spec(w *wish, s *kernel.LinkSpec) error {
	s.Macvlan = &kernel.MacvlanSpec{
		ParentNS: w.parent.NS, Parent: w.parent.Index, Mode: w.value.GetMacvlan().EffectiveMode(),
	}
	return nil
}

func (macvlan) differs(actual, desired *models.Interface) (d kind.Differences) {
	was, is := actual.GetMacvlan(), desired.GetMacvlan()
	d.Must(was.GetParent() != is.GetParent(), "macvlan.parent", was.GetParent(), is.GetParent())
	d.Must(was.EffectiveMode() != is.EffectiveMode(), "macvlan.mode", was.EffectiveMode(), is.EffectiveMode())
	return d
}

func (d *iface) readMacvlan(l kernel.Link) *models.Macvlan {
	v := &models.Macvlan{Parent: d.parentName(l, 0, l.Parent)}
	if s := l.Macvlan; s != nil {
		v.Mode = s.Mode
	}
	return v
}

type vlan struct{ below }

func (vlan) spec(w *wish, s *kernel.LinkSpec) error {
	v := w.value.GetVlan()
	s.Vlan = &kernel.VlanSpec{
		ParentNS: w.parent.NS, Parent: w.parent.Index, ID: int(v.GetId()), Protocol: v.EffectiveProtocol(),
	}
	return nil
}

func (vlan) differs(actual, desired *models.Interface) (d kind.Differences) {
	was, is := actual.GetVlan(), desired.GetVlan()
	d.Must(was.GetParent() != is.GetParent(), "vlan.parent", was.GetParent(), is.GetParent())
	d.Must(was.GetId() != is.GetId(), "vlan.id", was.GetId(), is.GetId())
	d.Must(was.EffectiveProtocol() != is.EffectiveProtocol(), "vlan.protocol", was.EffectiveProtocol(), is.EffectiveProtocol())
	return d
}

func (d *iface) readVlan(l kernel.Link) *models.Vlan {
	v := &models.Vlan{Parent: d.parentName(l, 0, l.Parent)}
	if s := l.Vlan; s != nil {
		v.Id, v.Protocol = uint32(s.ID), s.Protocol
	}
	return v
}

type ipvlan struct{ below }

func (ipvlan) spec(w *wish, s *kernel.LinkSpec) error {
	s.Ipvlan = &kernel.IpvlanSpec{
		ParentNS: w.parent.NS, Parent: w.parent.Index, Mode: w.value.GetIpvlan().EffectiveMode(),
	}
	return nil
}

func (d *iface) readIpvlan(l kernel.Link) *models.Ipvlan {
	v := &models.Ipvlan{Parent: d.parentName(l, 0, l.Parent)}
	if s := l.Ipvlan; s != nil {
		v.Mode = s.Mode
	}
	return v
}

func (ipvlan) differs(actual, desired *models.Interface) (d kind.Differences) {
	was, is := actual.GetIpvlan(), desired.GetIpvlan()
	d.Must(was.GetParent() != is.GetParent(), "ipvlan.parent", was.GetParent(), is.GetParent())
	d.Must(was.EffectiveMode() != is.EffectiveMode(), "ipvlan.mode", was.EffectiveMode(), is.EffectiveMode())
	return d
}
