package iface

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/models"
)

// How a bridge treats its ports, and the VLANs of ports and bridges. Either is left to others
// where a value says nothing of it, and did not before.

// askedOfBridge is how the bridge is to treat the link, nil if that is left to others.
func (w *wish) askedOfBridge() *models.BridgePort {
	if p := w.value.GetBridgePort(); p != nil {
		return p
	}
	if slices.ContainsFunc(w.before, func(v *models.Interface) bool { return v.GetBridgePort() != nil }) {
		return &models.BridgePort{}
	}
	return nil
}

func portSpec(v *models.BridgePort) kernel.PortSpec {
	is := func(on bool) *bool { return &on }
	return kernel.PortSpec{
		Cost: v.Cost, Priority: short(v.Priority), Isolated: is(v.GetIsolated()), Hairpin: is(v.GetHairpin()),
		Learning: is(!v.GetNoLearning()), UnicastFlood: is(!v.GetNoUnicastFlood()), MulticastFlood: is(!v.GetNoMulticastFlood()),
		BroadcastFlood: is(!v.GetNoBroadcastFlood()), BPDUGuard: is(v.GetBpduGuard()), RootBlock: is(v.GetRootBlock()),
		FastLeave: is(v.GetMulticastFastLeave()), NeighSuppress: is(v.GetNeighSuppress()),
	}
}

// patchPort is what of the settings is not as asked, nil if nothing.
func patchPort(actual *kernel.PortSpec, v *models.BridgePort) *kernel.PortSpec {
	if v == nil {
		return nil
	}
	return lacking(portSpec(v), actual)
}

// differPort: what was asked for and is no longer has the kernel's default again.
func differPort(d *kind.Differences, was, is *models.BridgePort) {
	if is == nil && was == nil {
		return
	}
	was, is = cmp.Or(was, &models.BridgePort{}), cmp.Or(is, &models.BridgePort{})
	d.May(is.Cost != nil && was.GetCost() != is.GetCost(), "bridge_port.cost", was.GetCost(), is.GetCost())
	mayOptional(d, "bridge_port.priority", was.Priority, is.Priority)
	for _, f := range []struct {
		name    string
		was, is bool
	}{
		{"isolated", was.GetIsolated(), is.GetIsolated()},
		{"hairpin", was.GetHairpin(), is.GetHairpin()},
		{"no_learning", was.GetNoLearning(), is.GetNoLearning()},
		{"no_unicast_flood", was.GetNoUnicastFlood(), is.GetNoUnicastFlood()},
		{"no_multicast_flood", was.GetNoMulticastFlood(), is.GetNoMulticastFlood()},
		{"no_broadcast_flood", was.GetNoBroadcastFlood(), is.GetNoBroadcastFlood()},
		{"bpdu_guard", was.GetBpduGuard(), is.GetBpduGuard()},
		{"root_block", was.GetRootBlock(), is.GetRootBlock()},
		{"multicast_fast_leave", was.GetMulticastFastLeave(), is.GetMulticastFastLeave()},
		{"neigh_suppress", was.GetNeighSuppress(), is.GetNeighSuppress()},
	} {
		d.May(f.was != f.is, "bridge_port."+f.name, f.was, f.is)
	}
	differVLANs(d, "bridge_port.vlans", was.GetVlans(), is.GetVlans())
}

// readPort is how the bridge of a link treats it, nil if nothing is asked of that.
func (d *iface) readPort(l kernel.Link, hint *models.BridgePort) *models.BridgePort {
	s := l.Port
	if s == nil || hint == nil {
		return nil
	}
	not := func(on *bool) bool { return on != nil && !*on }
	return &models.BridgePort{
		Cost: s.Cost, Priority: long(s.Priority), Isolated: orZero(s.Isolated), Hairpin: orZero(s.Hairpin),
		NoLearning: not(s.Learning), NoUnicastFlood: not(s.UnicastFlood), NoMulticastFlood: not(s.MulticastFlood),
		NoBroadcastFlood: not(s.BroadcastFlood), BpduGuard: orZero(s.BPDUGuard), RootBlock: orZero(s.RootBlock),
		MulticastFastLeave: orZero(s.FastLeave), NeighSuppress: orZero(s.NeighSuppress), Vlans: d.readVLANs(l, hint.GetVlans()),
	}
}

// each is every VLAN of a list by itself, in order.
func each(list []*models.BridgeVlan) (all []kernel.BridgeVLAN) {
	for _, v := range list {
		for id := v.GetId(); id <= v.Last(); id++ {
			all = append(all, kernel.BridgeVLAN{ID: int(id), PVID: v.GetPvid(), Untagged: v.GetUntagged()})
		}
	}
	slices.SortFunc(all, func(a, b kernel.BridgeVLAN) int { return a.ID - b.ID })
	return all
}

// ranges writes VLANs in as few entries as can be.
func ranges(all []kernel.BridgeVLAN) (list []*models.BridgeVlan) {
	for _, v := range all {
		if n := len(list); n > 0 && !v.PVID && !list[n-1].Pvid && list[n-1].Untagged == v.Untagged && int(list[n-1].Last()) == v.ID-1 {
			list[n-1].To = uint32(v.ID)
			continue
		}
		list = append(list, &models.BridgeVlan{Id: uint32(v.ID), Pvid: v.PVID, Untagged: v.Untagged})
	}
	return list
}

func differVLANs(d *kind.Differences, field string, was, is []*models.BridgeVlan) {
	a, b := each(was), each(is)
	d.May(len(is) > 0 && !slices.Equal(a, b), field, vlanText(a), vlanText(b))
}

// vlanText is a list as people write it: 10 pvid untagged, 20-30.
func vlanText(all []kernel.BridgeVLAN) string {
	var words []string
	for _, v := range ranges(all) {
		text := fmt.Sprint(v.Id)
		if v.Last() != v.Id {
			text += fmt.Sprintf("-%d", v.To)
		}
		if v.Pvid {
			text += " pvid"
		}
		if v.Untagged {
			text += " untagged"
		}
		words = append(words, text)
	}
	return strings.Join(words, ", ")
}

// readVLANs are those of a port or a bridge; they are read only where some are asked for. What
// cannot be read is not there, so that whoever sets it is told why.
func (d *iface) readVLANs(l kernel.Link, hint []*models.BridgeVlan) []*models.BridgeVlan {
	if len(hint) == 0 {
		return nil
	}
	all, err := d.Kernel.BridgeVLANs(l.NS, l.Index)
	if err != nil {
		return nil
	}
	return ranges(all)
}

// setVLANs gives a link that is in its place the VLANs that it lacks.
func (d *iface) setVLANs(v *models.Interface, l kernel.Link) error {
	want := v.GetBridgePort().GetVlans()
	if len(want) == 0 {
		want = v.GetBridge().GetVlans()
	}
	if len(want) == 0 {
		return nil
	}
	all, err := d.Kernel.BridgeVLANs(l.NS, l.Index)
	if err != nil || slices.Equal(all, each(want)) {
		return err
	}
	return d.Kernel.SetBridgeVLANs(l.NS, l.Index, each(want))
}
