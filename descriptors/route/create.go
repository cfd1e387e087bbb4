package route

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// wish is one route as it shall be, with all names found in the kernel.
type wish struct {
	key   scheduler.Key
	value *models.Route
	place selector.Place
	route kernel.Route
	// recorded: the ledger named this very route before the operation.
	recorded bool
	// What had its identity before the kernel was asked for it, and what that said.
	before held
	had    bool
	err    error
	// blocked: the kernel was not asked.
	blocked bool
}

// at is what the scheduler keeps.
func (w *wish) at() kernel.LinkRef { return at(w.place.NS, w.route) }

func at(ns kernel.NS, r kernel.Route) kernel.LinkRef {
	switch {
	case r.Nexthop != 0:
		return kernel.LinkRef{NS: ns} // where that leads is its own affair
	case r.Type != "unicast":
		return kernel.LinkRef{NS: ns} // IPv6 shows a way even where there is none
	case len(r.NextHops) > 0:
		return kernel.LinkRef{NS: ns, Index: r.NextHops[0].Index}
	}
	return kernel.LinkRef{NS: ns, Index: r.Index}
}

func (w *wish) entry() kernel.Entry {
	return kernel.Entry{
		ID: string(w.key), NS: w.place.NS, NSPath: w.place.Path,
		Value: models.Encode(w.value), Mark: identityOf(w.route).String(),
	}
}

// resolve finds everything that the value names.
func (d *route) resolve(ctx context.Context, k scheduler.Key, v *models.Route) (*wish, error) {
	plain, err := d.plain(v)
	if err != nil {
		return nil, err
	}
	dst, err := plain.Prefix()
	if err != nil {
		return nil, err
	}
	src, err := d.source(v)
	if err != nil {
		return nil, err
	}
	w := &wish{key: k, value: v, route: kernel.Route{
		Dst: dst, Table: v.EffectiveTable(), Metric: plain.EffectiveMetric(), Protocol: d.Owner.Protocol(),
		Type: v.EffectiveType(), Scope: plain.EffectiveScope(), Src: src, MTU: int(v.GetMtu()),
		Onlink: v.GetOnlink(),
	}}
	ways := hops(v)
	switch {
	case v.GetNexthop() != "":
		err = d.addNexthop(w, v.GetNexthop())
	case len(ways) == 0:
		w.place, err = d.Places.Resolve(ctx, v.GetNamespace())
	default:
		err = d.addWays(w, ways)
	}
	if e, ok := d.Owner.Entry(string(k)); err == nil && ok {
		w.recorded = e.NS == w.place.NS && e.Mark == identityOf(w.route).String()
	}
	return w, err
}

// source is the preferred source address of a value, which a claim may hold; zero
// if it has none.
func (d *route) source(v *models.Route) (netip.Addr, error) {
	claim, claimed := strings.CutPrefix(v.GetSource(), models.ClaimPrefix)
	if !claimed {
		return addr(v.GetSource()), nil
	}
	p, err := kind.Held(d.Claims, claim)
	return p.Addr(), err
}

// plain is a value whose destination is no claim: the address that it holds.
func (d *route) plain(v *models.Route) (*models.Route, error) {
	claim := v.DestinationClaim()
	if claim == "" {
		return v, nil
	}
	p, err := kind.Held(d.Claims, claim)
	if err != nil {
		return nil, err
	}
	return v.To(netip.PrefixFrom(p.Addr(), p.Addr().BitLen())), nil
}

// addNexthop finds the number of a nexthop, and the namespace, which is the route's.
func (d *route) addNexthop(w *wish, name string) error {
	key := models.NexthopKey(name)
	v, ref, there := d.Nexthops(scheduler.Key(key))
	if !there {
		return fmt.Errorf("%s is not there any more", key)
	}
	w.route.Nexthop, w.place.NS = v.GetId(), ref.NS
	if e, ok := d.Owner.Entry(key); ok {
		w.place.Path = e.NSPath
	}
	return nil
}

// addWays finds the links; all must be in one namespace, which is the route's.
func (d *route) addWays(w *wish, ways []hop) error {
	for i, h := range ways {
		ref, err := kind.LinkOf(d.Interfaces, h.iface)
		switch {
		case err != nil:
			return err
		case i == 0:
			w.place.NS = ref.NS
			if e, ok := d.Owner.Entry(models.InterfaceKey(h.iface)); ok {
				w.place.Path = e.NSPath
			}
		case ref.NS != w.place.NS:
			return scheduler.Terminal(fmt.Errorf("interfaces %s and %s live in different namespaces; the ways of one route share one",
				ways[0].iface, h.iface))
		}
		if len(ways) == 1 {
			w.route.Index, w.route.Gateway, w.route.Encap = ref.Index, h.gateway, kind.EncapOf(h.encap)
			return nil
		}
		w.route.NextHops = append(w.route.NextHops, kernel.NextHop{Index: ref.Index, Gateway: h.gateway, Weight: int(h.weight), Encap: kind.EncapOf(h.encap)})
	}
	return nil
}

func (d *route) prepare(ctx context.Context, o *op) (job owned.Job[kernel.LinkRef], err error) {
	w, err := d.resolve(ctx, o.Key, o.Value)
	if err != nil {
		return job, err
	}
	if r, there := d.others(ctx, w); there {
		return owned.Job[kernel.LinkRef]{
			Entries: []kernel.Entry{w.entry().TakeOver(r.Protocol)},
			Make: func() (kernel.LinkRef, error) {
				d.note(w.place.NS, w.key, r)
				return w.at(), nil
			},
		}, nil
	}
	b := d.batchOf(ctx)
	b.wishes = append(b.wishes, w)
	return owned.Job[kernel.LinkRef]{
		Entries: []kernel.Entry{w.entry()},
		Make: func() (kernel.LinkRef, error) {
			d.addAll(ctx, b)
			return w.at(), d.made(ctx, w)
		},
	}, nil
}

// batch are routes that are made together, with few calls of the kernel.
type batch struct {
	wishes []*wish // that are prepared and not asked for
	// everyone is all routes of namespaces, by their identity, whoever made them. It is read
	// once for all: of ten thousand routes that are taken over, reading all for each takes
	// minutes.
	everyone owned.Dumps[map[identity][]kernel.Route]
}

// together has all that is done under the context be one batch.
func (d *route) together(ctx context.Context) context.Context {
	return owned.WithBatch(ctx, d.newBatch())
}

// batchOf is the batch of a context, or one of its own.
func (d *route) batchOf(ctx context.Context) *batch { return owned.BatchOf(ctx, d.newBatch) }

func (d *route) newBatch() *batch {
	b := &batch{}
	b.everyone.Read = func(ns kernel.NS) (map[identity][]kernel.Route, error) {
		routes, err := d.withoutTOS(ns)
		all := make(map[identity][]kernel.Route, len(routes))
		for _, r := range routes {
			all[identityOf(r)] = append(all[identityOf(r)], r)
		}
		return all, err
	}
	return b
}

// addAll asks the kernel for what the batch still has to ask for.
func (d *route) addAll(ctx context.Context, b *batch) {
	for len(b.wishes) > 0 {
		ns, n := b.wishes[0].place.NS, 0
		asked, routes := make([]*wish, 0, len(b.wishes)), make([]*kernel.Route, 0, len(b.wishes))
		for ; n < len(b.wishes) && b.wishes[n].place.NS == ns; n++ {
			w := b.wishes[n]
			if w.err = ctx.Err(); w.err == nil {
				w.err = d.blocked(w)
			}
			if w.blocked = w.err != nil; w.blocked {
				continue
			}
			w.before, w.had = d.note(ns, w.key, w.route) // first, or we take the event for news
			asked, routes = append(asked, w), append(routes, &w.route)
		}
		b.wishes = b.wishes[n:]
		for i, err := range d.Kernel.AddRoutes(ns, routes) {
			asked[i].err = err
		}
	}
}

// blocked says that another key has the very route.
func (d *route) blocked(w *wish) error {
	other := d.holder(w)
	if other == "" {
		return nil
	}
	return scheduler.Blocked(other, explain(w, fmt.Errorf("it is in use by %s", other)))
}

// made ends the making of a route for which the kernel was asked.
func (d *route) made(ctx context.Context, w *wish) error {
	if w.blocked {
		return w.err
	}
	err := w.err
	switch {
	case errors.Is(err, kernel.ErrExist):
		err = d.clash(ctx, w)
	case err != nil:
		err = kind.Down(d.Kernel, d.Interfaces, err, w.value.Interfaces()...)
	}
	if err == nil {
		return d.Owner.Hit("route/made")
	}
	if w.had && w.before.key != w.key {
		d.note(w.place.NS, w.before.key, w.before.route(identityOf(w.route)))
	} else {
		// Whatever happens to the route that stands there is news to us.
		d.note(w.place.NS, w.key, unseen(w.route))
	}
	if !w.recorded {
		d.Owner.Remove(string(w.key))
	}
	return explain(w, err)
}

// others is the route that people made and that a wish takes over as it is.
func (d *route) others(ctx context.Context, w *wish) (kernel.Route, bool) {
	if !w.value.GetAdopt() || w.recorded || d.holder(w) != "" {
		return kernel.Route{}, false
	}
	same, err := d.rivals(ctx, w)
	if err != nil || len(same) != 1 || !kernel.ByPeople(same[0].Protocol) {
		return kernel.Route{}, false
	}
	return same[0], d.alike(w, same[0])
}

// rivals are the routes in the kernel that are where that of a wish is to be.
func (d *route) rivals(ctx context.Context, w *wish) ([]kernel.Route, error) {
	routes, err := d.batchOf(ctx).everyone.Of(w.place.NS)
	return routes[identityOf(w.route)], err
}

func (d *route) createBatch(ctx context.Context, ops []*op) {
	d.objects.CreateBatch(d.together(ctx), ops)
}

// standing is for readings; see [owned.Objects].
func (d *route) standing(ctx context.Context, k scheduler.Key, v *models.Route) (e kernel.Entry, there bool) {
	if !v.GetAdopt() {
		return e, false
	}
	w, err := d.resolve(ctx, k, v)
	if err != nil {
		return e, false
	}
	r, there := d.others(ctx, w)
	return w.entry().TakeOver(r.Protocol), there
}

// unseen is the identity of a route without saying how it is.
func unseen(r kernel.Route) kernel.Route {
	return kernel.Route{Dst: r.Dst, Table: r.Table, Metric: r.Metric}
}

// clash looks at what has the identity. Ours by the ledger is brought into
// shape; ours by its number and equal is success; else it is a conflict.
func (d *route) clash(ctx context.Context, w *wish) error {
	same, err := d.rivals(ctx, w)
	if err == nil && len(same) == 0 {
		same, err = d.rivals(context.Background(), w) // it came since all were read
	}
	if err != nil {
		return err
	}
	owner := "somebody else"
	for _, r := range same {
		if r.Protocol != w.route.Protocol {
			owner = kernel.ProtocolName(r.Protocol)
			continue
		}
		if first, is, err := d.first(ctx, w); is {
			return cmp.Or(err, overtaken(first)) // the kernel would replace that route
		}
		if d.alike(w, r) {
			return nil
		}
		if w.recorded {
			return d.Kernel.ReplaceRoute(w.place.NS, w.route)
		}
	}
	return scheduler.Conflict(owner, errors.New("there is one already, which is not of this key; choose another metric or table, or remove it"))
}

// alike reports whether a route in the kernel is as wished.
func (d *route) alike(w *wish, r kernel.Route) bool {
	return equal(w.key, d.value(w.place.NS, r, w.value, d.linkName), w.value)
}

// holder is another key that has the same route and wants it still. Claims do not see
// that: two interfaces live in one namespace, or a claim holds the destination. From a
// key that is not wanted any more the route is taken over as it stands, and the
// deletion of that one leaves it alone.
func (d *route) holder(w *wish) scheduler.Key {
	other := d.keyAt(w.place.NS, w.route)
	if other == "" || other == w.key {
		return ""
	}
	if d.isWanted(other) {
		return other
	}
	if e, recorded := d.Owner.Entry(string(other)); recorded && e.NS == w.place.NS && e.Mark == identityOf(w.route).String() {
		w.recorded = true
	}
	return ""
}

// update replaces a route in one step. If its way leads to another namespace
// now, it goes from the old one first: the ledger has one place per key.
func (d *route) update(ctx context.Context, k scheduler.Key, from, to *models.Route, was kernel.LinkRef) (kernel.LinkRef, error) {
	w, err := d.resolve(ctx, k, to)
	if err != nil {
		return was, err
	}
	if w.place.NS != was.NS {
		if err := d.delete(ctx, k, from, was); err != nil {
			return was, err
		}
		return d.objects.Create(ctx, k, to)
	}
	if isBehind(from) {
		if first, is, err := d.first(ctx, w); is || err != nil {
			return was, explain(w, cmp.Or(err, overtaken(first))) // the kernel would replace that route
		}
	}
	defer d.Owner.Begin(string(k))()
	before := w.entry()
	if e, ok := d.Owner.Entry(string(k)); ok && e.NS == before.NS && e.Mark == before.Mark {
		before.Prior = e.Prior // until it is replaced it may be that of others
	}
	if err := d.Owner.Record(before); err != nil {
		return was, err
	}
	d.note(was.NS, k, w.route)
	if err := d.Kernel.ReplaceRoute(was.NS, w.route); err != nil {
		d.note(was.NS, k, unseen(w.route))
		return was, explain(w, kind.Down(d.Kernel, d.Interfaces, err, to.Interfaces()...))
	}
	return w.at(), d.Owner.Record(w.entry())
}

func explain(w *wish, err error) error {
	return kind.Encapsulated(w.encapsulates(), fmt.Errorf("route to %s: %w", identityOf(w.route), err))
}

// encapsulates reports whether a way puts packets into others.
func (w *wish) encapsulates() bool {
	return slices.ContainsFunc(append(w.route.NextHops, kernel.NextHop{Encap: w.route.Encap}),
		func(h kernel.NextHop) bool { return h.Encap != kernel.Encap{} })
}
