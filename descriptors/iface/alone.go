package iface

import (
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/models"
)

// The types that stand on nothing.

// alone is a type without any settings.
type alone struct{ plain }

func (alone) spec(w *wish, s *kernel.LinkSpec) error {
	s.Plain = w.value.LinkType()
	return nil
}

type vrf struct{ plain }

func (vrf) spec(w *wish, s *kernel.LinkSpec) error {
	s.Vrf = &kernel.VrfSpec{Table: w.value.GetVrf().GetTable()}
	return nil
}

func (vrf) differs(actual, desired *models.Interface) (d kind.Differences) {
	was, is := actual.GetVrf().GetTable(), desired.GetVrf().GetTable()
	d.Must(was != is, "vrf.table", was, is)
	return d
}

func readVrf(s *kernel.VrfSpec) *models.Vrf {
	if s == nil {
		return &models.Vrf{}
	}
	return &models.Vrf{Table: s.Table}
}

// tuntap is a device whose other side is a local process.
type tuntap struct{ plain }

func (tuntap) spec(w *wish, s *kernel.LinkSpec) error {
	if v := w.value.GetTun(); v != nil {
		s.Tuntap = &kernel.TuntapSpec{Tun: true, Owner: v.Owner, Group: v.Group, MultiQueue: v.GetMultiQueue()}
		return nil
	}
	v := w.value.GetTap()
	s.Tuntap = &kernel.TuntapSpec{Owner: v.Owner, Group: v.Group, MultiQueue: v.GetMultiQueue(), VnetHdr: v.GetVnetHdr()}
	return nil
}

func (tuntap) differs(actual, desired *models.Interface) (d kind.Differences) {
	type flags interface {
		GetOwner() uint32
		GetGroup() uint32
		GetMultiQueue() bool
	}
	was, is := flags(actual.GetTap()), flags(desired.GetTap())
	if desired.GetTun() != nil {
		was, is = actual.GetTun(), desired.GetTun()
	}
	name := desired.LinkType()
	d.Must(was.GetOwner() != is.GetOwner(), name+".owner", was.GetOwner(), is.GetOwner())
	d.Must(was.GetGroup() != is.GetGroup(), name+".group", was.GetGroup(), is.GetGroup())
	d.Must(was.GetMultiQueue() != is.GetMultiQueue(), name+".multi_queue", was.GetMultiQueue(), is.GetMultiQueue())
	hdrWas, hdrIs := actual.GetTap().GetVnetHdr(), desired.GetTap().GetVnetHdr()
	d.Must(hdrWas != hdrIs, name+".vnet_hdr", hdrWas, hdrIs)
	return d
}

func readTuntap(s *kernel.TuntapSpec, v *models.Interface) {
	switch {
	case s == nil:
	case s.Tun:
		v.Link = &models.Interface_Tun{Tun: &models.Tun{Owner: s.Owner, Group: s.Group, MultiQueue: s.MultiQueue}}
	default:
		v.Link = &models.Interface_Tap{Tap: &models.Tap{Owner: s.Owner, Group: s.Group, MultiQueue: s.MultiQueue, VnetHdr: s.VnetHdr}}
	}
}
