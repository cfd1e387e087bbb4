package cni

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// wayOut is a default route that a container has.
type wayOut struct {
	family        string // as nft calls it
	table, metric uint32
	by            string // what it leads by
}

func wayOutOf(r *models.Route) wayOut {
	w := wayOut{family: "ip6", table: r.EffectiveTable(), metric: r.EffectiveMetric(), by: r.GetGateway()}
	if p, err := r.Prefix(); err == nil {
		w.family = familyOf(p.Addr())
	}
	return w
}

// defaultsOf are the default routes among wants that are a container's.
func defaultsOf(wants []Want, inside string) (list []wayOut) {
	for _, w := range wants {
		r, ok := w.Value.(*models.Route)
		if !ok || r.GetInterface() != inside || r.DestinationClaim() != "" {
			continue
		}
		if p, err := r.Prefix(); err == nil && p.Bits() == 0 {
			list = append(list, wayOutOf(r))
		}
	}
	return list
}

// defaultsIn are the default routes that the kernel shows in the namespace of a call. One
// by the interface that is asked for is what an earlier try has left.
func (s *Service) defaultsIn(c Call) (list []wayOut, wrong *spec.Error) {
	routes, err := s.host.Routes(c.Netns, c.IfName)
	if err != nil {
		return nil, &spec.Error{Code: spec.TryLater, Msg: "the routes of the container cannot be read", Details: err.Error()}
	}
	for _, r := range routes {
		if r.Dst.Bits() == 0 && r.Type == "unicast" {
			by := "a link"
			if r.Gateway.IsValid() {
				by = r.Gateway.String()
			}
			list = append(list, wayOut{familyOf(r.Dst.Addr()), r.Table, r.Metric, by})
		}
	}
	return list, nil
}

// defaultsFor are the default routes that other attachments of the container have or are
// about to have. The lock is held.
func (s *Service) defaultsFor(c Call) (list []wayOut) {
	for _, sh := range s.nets {
		for k, u := range sh.users {
			if k != c.Key() && k.ContainerID == c.ContainerID && u.inode == c.Inode {
				list = append(list, u.defaults...)
			}
		}
	}
	return list
}

// leftOut are the families of which a container gets no default route, since it has one.
// One that must be is refused where it would be the same as another. The lock is held.
func (s *Service) leftOut(c Call) (families []string, wrong *spec.Error) {
	w := waysOf(c.Network)
	have := append(s.defaultsFor(c), c.defaults...)
	table := cmp.Or(w.table, models.MainTable)
	for _, all := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		own := wayOutOf(&models.Route{Destination: everywhere(all).String(), Metric: w.metric, Table: w.table})
		at := slices.IndexFunc(have, func(o wayOut) bool { return o.family == own.family && o.table == table })
		switch {
		case at < 0:
		case w.byDefault == defaultAuto:
			families = append(families, own.family)
		case w.byDefault == defaultYes && slices.ContainsFunc(have, func(o wayOut) bool { return o.family == own.family && o.table == table && o.metric == own.metric }):
			return nil, inUse("default_route: the container has a default route of metric %d by %s already; give this network another metric, or say auto", own.metric, have[at].by)
		}
	}
	return families, nil
}

// gateways are those of the network of an attachment, by the claims that hold them.
func gateways(wants []Want, network string) (list []netip.Addr) {
	for i := range wants {
		v, ok := wants[i].Value.(*models.IPClaim)
		for n := 0; ok && n < 2; n++ {
			if wants[i].Key == models.IPClaimKey(numbered(ownPrefix+network+":gateway", n)) {
				list = append(list, v.Wanted())
			}
		}
	}
	return list
}
