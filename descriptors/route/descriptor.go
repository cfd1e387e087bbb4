package route

import (
	"net/netip"
	"sync/atomic"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// Deps are what the kind works with.
type Deps struct {
	Kernel kernel.Kernel
	Owner  *kernel.Owner
	// Names tells which interface a link is; the interface kind keeps it.
	Names  *kernel.Names
	Places selector.Places
	// Interfaces is what the scheduler knows of the interfaces.
	Interfaces kind.Interfaces
	// Nexthops is what the scheduler knows of the nexthops.
	Nexthops kind.Nexthops
	// Claims tells what ipclaims hold; nil if there are none.
	Claims kind.Claims
	// Wanted reports whether the scheduler wants a route; nil: it wants all that are
	// there.
	Wanted func(k scheduler.Key) bool
}

// New makes the kind. What an operation remembers is the namespace, and the
// link of the first way if there is one.
func New(deps Deps) scheduler.Descriptor[*models.Route, kernel.LinkRef] {
	d := &route{Deps: deps}
	d.objects = owned.Objects[*models.Route, kernel.LinkRef]{
		Kind: models.KindRoute, Kernel: deps.Kernel, Owner: deps.Owner, Prepare: d.prepare, Standing: d.standing}
	k := d.objects.Descriptor()
	k.CreateBatch, k.Update, k.Delete = d.createBatch, d.update, d.delete
	k.Derive = derive
	k.Needs, k.Claims, k.Compare, k.Equal, k.Disruption = d.needs, claims, compare, equal, disruption
	k.Retrieve, k.Watch, k.ChangedBy = d.retrieve, d.watch, d.objects.ChangedBy
	return k
}

type route struct {
	Deps

	objects owned.Objects[*models.Route, kernel.LinkRef]
	have    owned.Memory[kernel.NS, identity, held]
	// way is that of the route that was noted last: most are of few ways.
	way atomic.Pointer[kernel.Route]
}

// held is a route as it was made or read.
type held struct {
	key scheduler.Key
	// way is the route but for its identity, of which only the family is left; many have
	// the same. Without a type: the route is not there, or not as wished.
	way *kernel.Route
}

// there reports whether the route is believed to be there.
func (h held) there() bool { return h.way != nil && h.way.Type != "" }

// route is all of it.
func (h held) route(id identity) kernel.Route {
	r := *h.way
	r.Dst, r.Table, r.Metric = id.dst, id.table, id.metric
	return r
}

type (
	op    = scheduler.Op[*models.Route, kernel.LinkRef]
	found = scheduler.Found[*models.Route, kernel.LinkRef]
	scope = scheduler.Scope[*models.Route, kernel.LinkRef]
)

// note keeps a route and returns what was known under its identity; forget
// drops it.
func (d *route) note(ns kernel.NS, k scheduler.Key, r kernel.Route) (before held, had bool) {
	id := identityOf(r)
	r.Dst, r.Table, r.Metric = netip.PrefixFrom(r.Dst.Addr(), 0).Masked(), 0, 0
	way := d.way.Load()
	if way == nil || !way.Equal(r) {
		fresh := r
		way = &fresh
		d.way.Store(way)
	}
	return d.have.Note(ns, id, held{k, way})
}

func (d *route) forget(ns kernel.NS, r kernel.Route) { d.have.Forget(ns, identityOf(r)) }

// keyAt is the key that the route of that identity belongs to, "" if none is known.
func (d *route) keyAt(ns kernel.NS, r kernel.Route) scheduler.Key {
	if h, _ := d.have.Get(ns, identityOf(r)); h.there() {
		return h.key
	}
	return ""
}

func (d *route) isWanted(k scheduler.Key) bool { return d.Wanted == nil || d.Wanted(k) }
