package network

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// DefaultRoute is a default route that a container has.
type DefaultRoute struct {
	Family        string // as nft calls it
	Table, Metric uint32
	By            string // what it leads by
}

func defaultRouteOf(r *models.Route) DefaultRoute {
	w := DefaultRoute{Family: "ip6", Table: r.EffectiveTable(), Metric: r.EffectiveMetric(), By: r.GetGateway()}
	if p, err := r.Prefix(); err == nil {
		w.Family = FamilyOf(p.Addr())
	}
	return w
}

// DefaultRoutesOf are the default routes among wants that are a container's.
func DefaultRoutesOf(wants []Want, inside string) (list []DefaultRoute) {
	for _, w := range wants {
		r, ok := w.Value.(*models.Route)
		if !ok || r.GetInterface() != inside || r.DestinationClaim() != "" {
			continue
		}
		if p, err := r.Prefix(); err == nil && p.Bits() == 0 {
			list = append(list, defaultRouteOf(r))
		}
	}
	return list
}

// LeftOut are the families of which a container gets no default route by a network, since
// it has one. One that must be is refused where it would be the same as another.
func LeftOut(conf spec.Config, have []DefaultRoute) (families []string, wrong *spec.Error) {
	w := waysOf(conf)
	table := cmp.Or(w.table, models.MainTable)
	for _, all := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		own := defaultRouteOf(&models.Route{Destination: everywhere(all).String(), Metric: w.metric, Table: w.table})
		at := slices.IndexFunc(have, func(o DefaultRoute) bool { return o.Family == own.Family && o.Table == table })
		switch {
		case at < 0:
		case w.byDefault == defaultAuto:
			families = append(families, own.Family)
		case w.byDefault == defaultYes && slices.ContainsFunc(have, func(o DefaultRoute) bool { return o.Family == own.Family && o.Table == table && o.Metric == own.Metric }):
			return nil, spec.InUse("default_route: the container has a default route of metric %d by %s already; give this network another metric, or say auto", own.Metric, have[at].By)
		}
	}
	return families, nil
}

// Gateways returns the gateways of the pools from which wants claim addresses. pools are the ippools of operators.
func Gateways(wants []Want, pools map[string]*models.IPPool) (list []netip.Addr) {
	add := func(pool *models.IPPool) {
		if gateway, err := netip.ParseAddr(pool.GetGateway()); err == nil {
			list = append(list, gateway)
		}
	}
	for _, w := range wants {
		switch v := w.Value.(type) {
		case *models.IPPool:
			add(v)
		case *models.IPClaim:
			add(pools[v.GetPool()])
		}
	}
	return list
}
