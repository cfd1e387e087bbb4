package route

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// retrieve reads the routes that the ledger names.
func (d *route) retrieve(_ context.Context, s scope) iter.Seq2[found, error] {
	return func(yield func(found, error) bool) {
		d.read.Store(true)
		reading := d.Owner.Reading()
		r := &search{d: d, dumps: map[kernel.NS]*dump{}, known: map[scheduler.Key]*models.Route{}}
		for _, kn := range s.Known {
			r.known[kn.Key] = kn.Value
		}
		var gone []string
		for _, e := range r.entries(s) {
			f, there, err := r.look(e)
			if !there && err == nil {
				gone = append(gone, e.ID)
				continue
			}
			if !yield(f, err) {
				return
			}
		}
		reading.Forget(gone...)
	}
}

// search is one reading.
type search struct {
	d     *route
	dumps map[kernel.NS]*dump
	known map[scheduler.Key]*models.Route
}

// dump is all routes of a namespace that carry our number.
type dump struct {
	routes map[string][]kernel.Route // by identity
	err    error
}

func (r *search) entries(s scope) []kernel.Entry {
	if s.All {
		return r.d.Owner.Entries(prefix)
	}
	var list []kernel.Entry
	for _, k := range s.Keys {
		if e, ok := r.d.Owner.Entry(string(k)); ok {
			list = append(list, e)
		}
	}
	return list
}

func (r *search) look(e kernel.Entry) (f found, there bool, err error) {
	f.Key = scheduler.Key(e.ID)
	ns, err := e.Find(r.d.Kernel)
	if errors.Is(err, kernel.ErrNoNamespace) {
		return f, false, nil // dead, and all that was in it
	}
	if err != nil {
		return f, false, err
	}
	dp := r.dump(ns)
	if dp.err != nil {
		return f, false, fmt.Errorf("read the routes of its namespace: %w", dp.err)
	}
	routes := dp.routes[e.Mark]
	if len(routes) == 0 {
		return f, false, nil
	}
	if other := r.d.keyAt(ns, routes[0]); other != "" && other != f.Key && r.d.isWanted(other) {
		return f, false, nil // it is that key's
	}
	like := r.like(e)
	best := routes[0]
	for _, route := range routes {
		if v := r.known[f.Key]; v != nil && equal(f.Key, r.d.value(ns, route, like), v) {
			best = route
		}
	}
	f.Value, f.Meta = r.d.value(ns, best, like), at(ns, best)
	r.d.note(ns, f.Key, best)
	return f, true, nil
}

func (r *search) dump(ns kernel.NS) *dump {
	if r.dumps[ns] != nil {
		return r.dumps[ns]
	}
	dp := &dump{routes: map[string][]kernel.Route{}}
	r.dumps[ns] = dp
	var all []kernel.Route
	if all, dp.err = r.d.Kernel.Routes(ns); errors.Is(dp.err, kernel.ErrNoNamespace) {
		dp.err = nil
	}
	for _, route := range all {
		if route.Protocol == r.d.Owner.Protocol() {
			id := identityOf(route).String()
			dp.routes[id] = append(dp.routes[id], route)
		}
	}
	return dp
}

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

// value is a route as a value, faithful to the kernel. What the kernel does not
// know, the names of places and claims, is taken from the value that it is like.
func (d *route) value(ns kernel.NS, r kernel.Route, like *models.Route) *models.Route {
	v := &models.Route{
		Destination: r.Dst.String(), Source: text(r.Src), Metric: r.Metric, Mtu: uint32(r.MTU), Onlink: r.Onlink,
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
	case len(r.NextHops) > 0:
		for _, h := range r.NextHops {
			v.Nexthops = append(v.Nexthops, &models.NextHop{
				Interface: d.linkName(ns, h.Index), Gateway: text(h.Gateway), Weight: uint32(h.Weight),
			})
		}
	case r.Type != "unicast":
		// IPv6 shows the loopback as the way of routes that lead nowhere.
		v.Namespace = like.GetNamespace()
	default:
		v.Interface, v.Gateway = d.linkName(ns, r.Index), text(r.Gateway)
	}
	return v
}

// claimed reports whether a route leads to what the claim of a value holds now.
func (d *route) claimed(like *models.Route, r kernel.Route) bool {
	if like.DestinationClaim() == "" {
		return false
	}
	plain, err := d.plain(like)
	return err == nil && plain.GetDestination() == r.Dst.String() && plain.EffectiveMetric() == r.Metric
}

// linkName is the logical name of a link, or one that no interface can have.
func (d *route) linkName(ns kernel.NS, index int) string {
	if name, ok := d.Owner.NameOf(d.Kernel, d.Names, kernel.LinkRef{NS: ns, Index: index}); ok {
		return name
	}
	return fmt.Sprintf("?%d", index)
}
