package iface

import (
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/models"
)

// bridge joins its members to one network.
type bridge struct{ plain }

func (bridge) spec(w *wish, s *kernel.LinkSpec) error {
	s.Bridge = bridgeSpec(w.value.GetBridge())
	return nil
}

func bridgeSpec(v *models.Bridge) *kernel.BridgeSpec {
	stp, snoop, query := v.GetStp(), !v.GetNoMulticastSnooping(), v.GetMulticastQuerier()
	s := &kernel.BridgeSpec{
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

// patchBridge is what of the settings is not as asked, nil if nothing.
func patchBridge(actual *kernel.BridgeSpec, v *models.Bridge) *kernel.BridgeSpec {
	want := bridgeSpec(v)
	if actual != nil {
		if actual.VLANFiltering != nil && want.VLANFiltering == nil {
			want.VLANFiltering = new(bool)
		}
		want.STP = unless(want.STP, actual.STP)
		want.MulticastSnooping = unless(want.MulticastSnooping, actual.MulticastSnooping)
		want.MulticastQuerier = unless(want.MulticastQuerier, actual.MulticastQuerier)
		want.AgeingSeconds = unless(want.AgeingSeconds, actual.AgeingSeconds)
		want.VLANFiltering = unless(want.VLANFiltering, actual.VLANFiltering)
		want.DefaultPVID = unless(want.DefaultPVID, actual.DefaultPVID)
		want.Priority = unless(want.Priority, actual.Priority)
		want.ForwardDelaySeconds = unless(want.ForwardDelaySeconds, actual.ForwardDelaySeconds)
	}
	if *want == (kernel.BridgeSpec{}) {
		return nil
	}
	return want
}

// unless drops a wish that is fulfilled.
func unless[T comparable](want, actual *T) *T {
	if want != nil && actual != nil && *want == *actual {
		return nil
	}
	return want
}

func (bridge) differs(actual, desired *models.Interface) (d kind.Differences) {
	was, is := actual.GetBridge(), desired.GetBridge()
	d.May(was.GetStp() != is.GetStp(), "bridge.stp", was.GetStp(), is.GetStp())
	d.May(was.GetNoMulticastSnooping() != is.GetNoMulticastSnooping(), "bridge.no_multicast_snooping",
		was.GetNoMulticastSnooping(), is.GetNoMulticastSnooping())
	d.May(is.AgeingTime != nil && was.GetAgeingTime() != is.GetAgeingTime(), "bridge.ageing_time",
		was.GetAgeingTime(), is.GetAgeingTime())
	d.May(was.GetMulticastQuerier() != is.GetMulticastQuerier(), "bridge.multicast_querier", was.GetMulticastQuerier(), is.GetMulticastQuerier())
	d.May(was.GetVlanFiltering() != is.GetVlanFiltering(), "bridge.vlan_filtering", was.GetVlanFiltering(), is.GetVlanFiltering())
	d.May(is.DefaultPvid != nil && was.GetDefaultPvid() != is.GetDefaultPvid(), "bridge.default_pvid", was.GetDefaultPvid(), is.GetDefaultPvid())
	d.May(is.Priority != nil && was.GetPriority() != is.GetPriority(), "bridge.priority", was.GetPriority(), is.GetPriority())
	d.May(is.ForwardDelay != nil && was.GetForwardDelay() != is.GetForwardDelay(), "bridge.forward_delay", was.GetForwardDelay(), is.GetForwardDelay())
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
	v.Stp, v.MulticastQuerier, v.VlanFiltering = value(b.STP), value(b.MulticastQuerier), value(b.VLANFiltering)
	v.NoMulticastSnooping = b.MulticastSnooping != nil && !*b.MulticastSnooping
	v.AgeingTime, v.DefaultPvid, v.Priority, v.ForwardDelay = b.AgeingSeconds, long(b.DefaultPVID), long(b.Priority), b.ForwardDelaySeconds
	v.Vlans = d.readVLANs(l, hint.GetVlans())
	return v
}
