package iface

import (
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/models"
)

// bridge joins its members to one network.
type bridge struct{ plain }

func (bridge) spec(w *wish, s *kernel.LinkSpec) error {
	want := bridgeSpec(w.value.GetBridge())
	s.Bridge = &want
	return nil
}

func (bridge) patch(w *wish, l kernel.Link, p *kernel.LinkPatch) {
	want := bridgeSpec(w.value.GetBridge())
	if l.Bridge != nil && l.Bridge.VLANFiltering != nil && want.VLANFiltering == nil {
		want.VLANFiltering = new(bool)
	}
	p.Bridge = lacking(want, l.Bridge)
}

func bridgeSpec(v *models.Bridge) kernel.BridgeSpec {
	stp, snoop, query := v.GetStp(), !v.GetNoMulticastSnooping(), v.GetMulticastQuerier()
	s := kernel.BridgeSpec{
		STP: &stp, MulticastSnooping: &snoop, MulticastQuerier: &query, AgeingSeconds: v.AgeingTime,
		DefaultPVID: short(v.DefaultPvid), Priority: short(v.Priority), ForwardDelaySeconds: v.ForwardDelay,
	}
	if filter := true; v.GetVlanFiltering() { // a kernel that knows no VLANs does not take false either
		s.VLANFiltering = &filter
	}
	return s
}

// short is a number that validation has seen to be small enough.
func short(n *uint32) *uint16 {
	if n == nil {
		return nil
	}
	v := uint16(*n)
	return &v
}

func long(n *uint16) *uint32 {
	if n == nil {
		return nil
	}
	v := uint32(*n)
	return &v
}

func (bridge) differs(actual, desired *models.Interface) (d kind.Differences) {
	was, is := actual.GetBridge(), desired.GetBridge()
	d.May(was.GetStp() != is.GetStp(), "bridge.stp", was.GetStp(), is.GetStp())
	d.May(was.GetNoMulticastSnooping() != is.GetNoMulticastSnooping(), "bridge.no_multicast_snooping",
		was.GetNoMulticastSnooping(), is.GetNoMulticastSnooping())
	mayOptional(&d, "bridge.ageing_time", was.AgeingTime, is.AgeingTime)
	d.May(was.GetMulticastQuerier() != is.GetMulticastQuerier(), "bridge.multicast_querier", was.GetMulticastQuerier(), is.GetMulticastQuerier())
	d.May(was.GetVlanFiltering() != is.GetVlanFiltering(), "bridge.vlan_filtering", was.GetVlanFiltering(), is.GetVlanFiltering())
	mayOptional(&d, "bridge.default_pvid", was.DefaultPvid, is.DefaultPvid)
	mayOptional(&d, "bridge.priority", was.Priority, is.Priority)
	mayOptional(&d, "bridge.forward_delay", was.ForwardDelay, is.ForwardDelay)
	differVLANs(&d, "bridge.vlans", was.GetVlans(), is.GetVlans())
	return d
}

// readBridge is a bridge as the kernel has it; forward is an object of its own.
func (d *iface) readBridge(l kernel.Link, hint *models.Bridge) *models.Bridge {
	v := &models.Bridge{Forward: hint.GetForward()}
	b := l.Bridge
	if b == nil {
		return v
	}
	v.Stp, v.MulticastQuerier, v.VlanFiltering = orZero(b.STP), orZero(b.MulticastQuerier), orZero(b.VLANFiltering)
	v.NoMulticastSnooping = b.MulticastSnooping != nil && !*b.MulticastSnooping
	v.AgeingTime, v.DefaultPvid, v.Priority, v.ForwardDelay = b.AgeingSeconds, long(b.DefaultPVID), long(b.Priority), b.ForwardDelaySeconds
	v.Vlans = d.readVLANs(l, hint.GetVlans())
	return v
}
