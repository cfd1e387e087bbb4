package iface

import (
	"strings"

	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// compare decides how to get from one value to another. The reason names all
// that differs, the things that force a new link first.
func compare(k scheduler.Key, from, to *models.Interface) scheduler.Verdict {
	return differ(k, from, to).Verdict()
}

func equal(k scheduler.Key, actual, desired *models.Interface) bool {
	return compare(k, actual, desired).Change == scheduler.Same
}

// differ lists what is not as asked. Only what is asked counts: an MTU that
// was left to the kernel may be any. Addresses are objects of their own.
func differ(k scheduler.Key, actual, desired *models.Interface) (d kind.Differences) {
	was, is := actual.LinkType(), desired.LinkType()
	d.Must(was != is, "type", was, is)
	where := d.Must
	if desired.GetNamespace() != nil && strings.HasSuffix(actual.GetNamespace().GetPath(), unnamed) {
		where = d.May // an update finds out whether it is the same
	}
	where(selector.Text(actual.GetNamespace()) != selector.Text(desired.GetNamespace()),
		"namespace", actual.GetNamespace().Text(), desired.GetNamespace().Text())
	if was == is {
		d = append(d, typeOf(desired).differs(actual, desired)...)
	}
	// The link itself does not change; an update has its addresses read again.
	d.May(actual.RemovesAddresses() != desired.RemovesAddresses(), "addresses_exclusive", actual.RemovesAddresses(), desired.RemovesAddresses())
	differPort(&d, actual.GetBridgePort(), desired.GetBridgePort())
	hostWas, hostIs := actual.EffectiveHostName(string(k)), desired.EffectiveHostName(string(k))
	if adopts(desired) {
		// Another name is another link.
		d.Must(hostWas != hostIs, "host_name", hostWas, hostIs)
		return append(d, differAdopted(actual, desired)...)
	}
	d.May(hostWas != hostIs, "host_name", hostWas, hostIs)
	d.May(actual.GetAdopt() && !desired.GetAdopt(), "mark", "of others", "ours")
	left := desired.SetsOnce // to others, since the link is there
	d.May(desired.GetMtu() != 0 && actual.GetMtu() != desired.GetMtu() && !left("mtu"), "mtu", actual.GetMtu(), desired.GetMtu())
	macWas, macIs := strings.ToLower(actual.GetMacAddress()), strings.ToLower(desired.GetMacAddress())
	d.May(macIs != "" && macWas != macIs && !left("mac_address"), "mac_address", macWas, macIs)
	d.May(actual.GetMaster() != desired.GetMaster() && !left("master"), "master", actual.GetMaster(), desired.GetMaster())
	d.May(actual.IsEnabled() != desired.IsEnabled(), "enabled", actual.IsEnabled(), desired.IsEnabled())
	differAltNames(&d, actual.GetAlternativeNames(), desired.GetAlternativeNames(), "")
	differOffloads(&d, actual, desired)
	differAccepts(&d, actual, desired)
	return d
}

// disruption says what a change does to the traffic through the link.
func disruption(k scheduler.Key, from, to *models.Interface) scheduler.Disruption {
	switch {
	case from == nil:
		return scheduler.NoDisruption
	case to == nil && !adopts(from):
		return gone(from)
	case to == nil:
		return scheduler.Disruptive
	}
	worst := scheduler.NoDisruption
	for _, d := range differ(k, from, to) {
		switch {
		case d.Replace && !adopts(to):
			return gone(from)
		case d.Replace, strings.HasPrefix(d.What, "enabled true"), strings.HasPrefix(d.What, "master"):
			worst = max(worst, scheduler.Disruptive)
		case strings.HasPrefix(d.What, "alternative_names"), strings.HasPrefix(d.What, "accept_"), strings.HasPrefix(d.What, "mark "): // packets know nothing of it
		default:
			worst = max(worst, scheduler.Brief)
		}
	}
	return worst
}

// gone: what stands on a bridge, a vrf or a bond loses its ground with it.
func gone(v *models.Interface) scheduler.Disruption {
	if v.GetBridge() != nil || v.GetVrf() != nil || v.GetBond() != nil {
		return scheduler.Cascading
	}
	return scheduler.Disruptive
}
