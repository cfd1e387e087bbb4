package route

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// retrieve reads the routes that the ledger names.
func (d *route) retrieve(ctx context.Context, s scope) iter.Seq2[found, error] {
	r := &search{d: d, readOnly: s.ReadOnly, dumps: owned.Dumps[routes]{Read: d.routes}, known: map[scheduler.Key]*models.Route{}, links: map[kernel.LinkRef]string{}}
	for _, kn := range s.Known {
		r.known[kn.Key] = kn.Value
	}
	return d.objects.Retrieve(d.together(ctx), s, r.look)
}

// search is one reading.
type search struct {
	d        *route
	readOnly bool
	dumps    owned.Dumps[routes]
	known    map[scheduler.Key]*models.Route
	// links are logical names. After a start each costs a request until interfaces are read.
	links map[kernel.LinkRef]string
}

// routes are those of a namespace.
type routes struct {
	// ours carry our number or may have been taken over.
	ours map[identity][]kernel.Route
	// first are the routes that the kernel uses instead of one in ours.
	first map[identity]kernel.Route
}

func (d *route) routes(ns kernel.NS) (routes, error) {
	all, err := d.withoutTOS(ns)
	rs := routes{map[identity][]kernel.Route{}, map[identity]kernel.Route{}}
	at := 0 // the index of the first route of the identity; routes of one identity are consecutive
	for i, r := range all {
		id := identityOf(r)
		if id != identityOf(all[at]) {
			at = i
		}
		if r.Protocol != d.Owner.Protocol() && !kernel.ByPeople(r.Protocol) {
			continue
		}
		if others := rs.ours[id]; len(others) > 0 {
			rs.ours[id] = append(others, r)
		} else { // nearly always
			rs.ours[id] = all[i : i+1 : i+1]
		}
		if at < i && usesFirst(r.Dst) {
			rs.first[id] = all[at]
		}
	}
	return rs, err
}

// withoutTOS returns the routes of a namespace except those for packets of one TOS, which are never
// ours.
func (d *route) withoutTOS(ns kernel.NS) ([]kernel.Route, error) {
	all, err := d.Kernel.Routes(ns)
	return slices.DeleteFunc(all, func(r kernel.Route) bool { return r.TOS != 0 }), err
}

func (r *search) look(e kernel.Entry) (v *models.Route, ref kernel.LinkRef, err error) {
	k := scheduler.Key(e.ID)
	all, err := r.dumps.Of(e.NS)
	if err != nil {
		return v, ref, fmt.Errorf("read the routes of its namespace: %w", err)
	}
	id := parseIdentity(e.Mark)
	routes := all.ours[id]
	if others := func(there kernel.Route) bool { return !r.d.Owner.Bears(e, there.Protocol) }; slices.ContainsFunc(routes, others) {
		routes = slices.DeleteFunc(slices.Clone(routes), others)
	}
	if len(routes) == 0 {
		return v, ref, kernel.ErrNotExist
	}
	if other := r.d.keyAt(e.NS, routes[0]); other != "" && other != k && r.d.isWanted(other) {
		return v, ref, kernel.ErrNotExist // it is that key's
	}
	like := r.like(e)
	best := routes[0]
	for _, route := range routes {
		if v := r.known[k]; v != nil && equal(k, r.d.value(e.NS, route, like, r.linkName), v) {
			best = route
		}
	}
	if !r.readOnly {
		r.d.note(e.NS, k, best)
	}
	v = r.d.value(e.NS, best, like, r.linkName)
	if first, there := all.first[id]; there && !r.d.Owner.Bears(e, first.Protocol) {
		v.Source = behindOf(first)
	}
	return v, at(e.NS, best), nil
}

func (r *search) linkName(ref kernel.LinkRef) string {
	name, ok := r.links[ref]
	if !ok {
		name = r.d.linkName(ref)
		r.links[ref] = name
	}
	return name
}

func (d *route) linkName(ref kernel.LinkRef) string { return d.Owner.LinkName(d.Kernel, d.Names, ref) }

// like is the value that the route was made for; nil if that is not known.
func (r *search) like(e kernel.Entry) *models.Route {
	if v := r.known[scheduler.Key(e.ID)]; v != nil {
		return v
	}
	v, err := models.DecodeValue[*models.Route](e.Value)
	if err != nil {
		return nil
	}
	return v
}

// moreSettings is the source in actual values of routes to which others have given settings that no
// value has. No desired value can have such a source.
const moreSettings = "?"

// value is a route as a value, faithful to the kernel. What the kernel does not
// know, the names of places and claims, is taken from the value that it is like.
func (d *route) value(ns kernel.NS, r kernel.Route, like *models.Route, linkName func(kernel.LinkRef) string) *models.Route {
	v := &models.Route{
		Destination: r.Dst.String(), Source: text(r.Src), Metric: r.Metric, Mtu: uint32(r.MTU), Onlink: r.Onlink,
		Adopt: r.Protocol != d.Owner.Protocol(),
	}
	if d.claimed(like, r) {
		v.Destination = like.GetDestination()
		if like.GetMetric() == 0 {
			v.Metric = 0 // of which family it is, nobody who compares can know
		}
	}
	if src, err := d.source(like); err == nil && src == r.Src {
		v.Source = like.GetSource()
	}
	if r.More && !v.Adopt { // one that was taken over keeps its settings
		v.Source = moreSettings
	}
	if r.Table != models.MainTable {
		v.Table = r.Table
	}
	if r.Type != "unicast" {
		v.Type = r.Type
	}
	if r.Dst.Addr().Is4() && r.Type == "unicast" {
		v.Scope = r.Scope
	}
	switch {
	case r.Nexthop != 0:
		v.Nexthop = d.nexthopName(ns, r.Nexthop, like)
	case len(r.NextHops) > 0:
		for _, h := range r.NextHops {
			v.Nexthops = append(v.Nexthops, &models.NextHop{
				Interface: linkName(kernel.LinkRef{NS: ns, Index: h.Index}), Gateway: text(h.Gateway), Weight: uint32(h.Weight),
				Encap: kind.EncapFrom(h.Encap),
			})
		}
	case r.Type != "unicast":
		// IPv6 shows the loopback as the way of routes that lead nowhere.
		v.Namespace = like.GetNamespace()
	default:
		v.Interface, v.Gateway = linkName(kernel.LinkRef{NS: ns, Index: r.Index}), text(r.Gateway)
		v.Encap = kind.EncapFrom(r.Encap)
	}
	return v
}

// nexthopName is the nexthop of a value, if it is the one of that number, or a name that
// none can have. The ledger tells, also before the nexthops are read.
func (d *route) nexthopName(ns kernel.NS, id uint32, like *models.Route) string {
	if e, ok := d.Owner.Entry(models.NexthopKey(like.GetNexthop())); ok && e.NS == ns {
		if v, err := models.DecodeValue[*models.Nexthop](e.Value); err == nil && v.GetId() == id {
			return like.GetNexthop()
		}
	}
	return fmt.Sprintf("?%d", id)
}

// claimed reports whether a route leads to what the claim of a value holds now.
func (d *route) claimed(like *models.Route, r kernel.Route) bool {
	if like.DestinationClaim() == "" {
		return false
	}
	plain, err := d.plain(like)
	return err == nil && plain.GetDestination() == r.Dst.String() && plain.EffectiveMetric() == r.Metric
}
