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
	stp, snoop := v.GetStp(), !v.GetNoMulticastSnooping()
	return &kernel.BridgeSpec{STP: &stp, MulticastSnooping: &snoop, AgeingSeconds: v.AgeingTime}
}

// patchBridge is what of the settings is not as asked, nil if nothing.
func patchBridge(actual *kernel.BridgeSpec, v *models.Bridge) *kernel.BridgeSpec {
	want := bridgeSpec(v)
	if actual != nil {
		want.STP = unless(want.STP, actual.STP)
		want.MulticastSnooping = unless(want.MulticastSnooping, actual.MulticastSnooping)
		want.AgeingSeconds = unless(want.AgeingSeconds, actual.AgeingSeconds)
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
	return d
}

// readBridge is a bridge as the kernel has it; forward is an object of its own.
func readBridge(b *kernel.BridgeSpec, hint *models.Bridge) *models.Bridge {
	v := &models.Bridge{Forward: hint.GetForward()}
	if b == nil {
		return v
	}
	v.Stp = b.STP != nil && *b.STP
	v.NoMulticastSnooping = b.MulticastSnooping != nil && !*b.MulticastSnooping
	v.AgeingTime = b.AgeingSeconds
	return v
}
