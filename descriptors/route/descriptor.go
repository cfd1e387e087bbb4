package route

import (
	"sync"
	"sync/atomic"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

const prefix = models.KindRoute + "/"

// Deps are what the kind works with.
type Deps struct {
	Kernel kernel.Kernel
	Owner  *kernel.Owner
	// Names tells which interface a link is; the interface kind keeps it.
	Names  *kernel.Names
	Places selector.Places
	// Interfaces is what the scheduler knows of the interfaces.
	Interfaces kind.Interfaces
	// Claims tells what ipclaims hold; nil if there are none.
	Claims kind.Claims
	// Wanted reports whether the scheduler wants a route; nil: it wants all that are
	// there.
	Wanted func(k scheduler.Key) bool
}

// New makes the kind. What an operation remembers is the namespace, and the
// link of the first way if there is one.
func New(deps Deps) scheduler.Descriptor[*models.Route, kernel.LinkRef] {
	d := &route{Deps: deps, have: map[kernel.NS]map[identity]*held{}}
	k := kind.Of[*models.Route, kernel.LinkRef](models.KindRoute)
	k.Create, k.CreateBatch, k.Update, k.Delete = d.create, d.createBatch, d.update, d.delete
	k.Needs, k.Claims, k.Compare, k.Equal, k.Disruption = d.needs, claims, compare, equal, disruption
	k.Retrieve, k.Watch = d.retrieve, d.watch
	return k
}

type route struct {
	Deps

	mu   sync.Mutex
	have map[kernel.NS]map[identity]*held // what is there, to know our own echo

	read atomic.Bool // the world was read, perhaps before the watch was in place
}

// held is a route as it was made or read.
type held struct {
	key   scheduler.Key
	route kernel.Route // without a type: it is not there, or not as wished
}

type (
	op    = scheduler.Op[*models.Route, kernel.LinkRef]
	found = scheduler.Found[*models.Route, kernel.LinkRef]
	scope = scheduler.Scope[*models.Route, kernel.LinkRef]
)

// note keeps a route and returns what was known under its identity; forget
// drops it.
func (d *route) note(ns kernel.NS, k scheduler.Key, r kernel.Route) (before *held) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.have[ns] == nil {
		d.have[ns] = map[identity]*held{}
	}
	before = d.have[ns][identityOf(r)]
	d.have[ns][identityOf(r)] = &held{key: k, route: r}
	return before
}

// keyAt is the key that the route of that identity belongs to, "" if none is known.
func (d *route) keyAt(ns kernel.NS, r kernel.Route) scheduler.Key {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.have[ns][identityOf(r)]; h != nil && h.route.Type != "" {
		return h.key
	}
	return ""
}

func (d *route) isWanted(k scheduler.Key) bool { return d.Wanted == nil || d.Wanted(k) }

func (d *route) forget(ns kernel.NS, r kernel.Route) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.have[ns], identityOf(r))
	if len(d.have[ns]) == 0 {
		delete(d.have, ns)
	}
}
