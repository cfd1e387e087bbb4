package iface

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// prefix holds the keys of the kind.
const prefix = models.KindInterface + "/"

// Deps are what the kind works with.
type Deps struct {
	Kernel kernel.Kernel
	Owner  *kernel.Owner
	// Names is kept up to date for the kinds that stand on interfaces.
	Names  *kernel.Names
	Places selector.Places
	// KeyFile reads a file with a key of WireGuard's. The error does not tell what is in
	// it. Nil: there are no such files.
	KeyFile func(file string) (models.WireGuardKey, error)
	// Everywhere opens all network namespaces of the host, so that links that were moved can be
	// found. Nil: only namespaces that are open are searched.
	Everywhere func()
	// Copied, if not nil, is called once for each foreign link with a copy of a mark.
	Copied func(l kernel.Link, key string)
	// Interfaces is what the scheduler knows of this very kind; see [Self].
	Interfaces kind.WantedInterfaces
	// Shadow: nothing is ever made or changed. What an existing link would be adopted for
	// without any change then counts as adopted.
	Shadow bool
	// Announcer tells neighbours which MAC the addresses of links have; nil: nobody does.
	Announcer Announcer
	// Leaving says why the link of a key must not be made although it is wanted; nil:
	// that is never so.
	Leaving func(k scheduler.Key, v *models.Interface) error
	// Poll gives the moments at which the settings of links are read of which the kernel
	// tells nobody. Default: every ten seconds while Watch runs.
	Poll <-chan time.Time
}

// Announcer tells the neighbours of links which MAC their addresses have. Its methods do not fail.
type Announcer interface {
	// Saw notes a link that has been read or created; the MAC may be unknown.
	Saw(l kernel.Link)
	// SetUp announces what could not be announced before links were set up, and Moved the
	// addresses of links that were there before and have another MAC or master, or are up again.
	SetUp(links ...kernel.Link)
	Moved(links ...kernel.Link)
}

type silent struct{}

func (silent) Saw(kernel.Link)      {}
func (silent) SetUp(...kernel.Link) {}
func (silent) Moved(...kernel.Link) {}

// Self lets the kind see itself: it is given to [New], and bound to the kind
// that the registration returns. Until then nothing is in place or wanted.
type Self struct {
	bound atomic.Pointer[kind.WantedInterfaces]
}

// Bind says which kind it is.
func (s *Self) Bind(all kind.WantedInterfaces) { s.bound.Store(&all) }

// Get returns what is in place.
func (s *Self) Get(k scheduler.Key) (v *models.Interface, ref kernel.LinkRef, ok bool) {
	if all := s.bound.Load(); all != nil {
		return (*all).Get(k)
	}
	return v, ref, false
}

// Wanted returns what should be in place.
func (s *Self) Wanted(k scheduler.Key) (v *models.Interface, ok bool) {
	if all := s.bound.Load(); all != nil {
		return (*all).Wanted(k)
	}
	return v, false
}

// New makes the kind. What an operation remembers is where the link is.
func New(deps Deps) scheduler.Descriptor[*models.Interface, kernel.LinkRef] {
	if deps.KeyFile == nil {
		deps.KeyFile = func(file string) (k models.WireGuardKey, err error) {
			return k, fmt.Errorf("%s: files with keys are not read here", file)
		}
	}
	if deps.Announcer == nil {
		deps.Announcer = silent{}
	}
	d := &iface{Deps: deps, links: map[kernel.LinkRef]*held{}, open: map[kernel.NS]scheduler.Key{}}
	d.objects = owned.Objects[*models.Interface, kernel.LinkRef]{
		Kind: models.KindInterface, Kernel: deps.Kernel, Owner: deps.Owner, Prepare: d.prepare}
	k := d.objects.Descriptor()
	k.Create, k.CreateBatch, k.Delete, k.DeleteBatch = kind.CreateOne(d.createBatch), d.createBatch, kind.DeleteOne(d.deleteBatch), d.deleteBatch
	k.Update, k.Compare, k.Equal, k.Disruption = d.update, compare, equal, disruption
	k.Needs, k.Derive, k.Claims = needs, derive, claims
	k.Retrieve, k.Watch, k.ChangedBy = d.retrieve, d.watch, d.objects.ChangedBy
	return k
}

type iface struct {
	Deps

	objects owned.Objects[*models.Interface, kernel.LinkRef]

	mu     sync.Mutex
	links  map[kernel.LinkRef]*held
	macs   map[scheduler.Key]hardware  // see [keepsMAC]
	notify func(...scheduler.Key)      // nil while nobody watches
	open   map[kernel.NS]scheduler.Key // see [iface.findOpen]
}

// held is a link of ours, as the watch must know it to tell news from echo.
type held struct {
	key       scheduler.Key
	value     *models.Interface // as last made or read; nil: not known
	busy      bool              // an operation of ours is at it
	meanwhile meanwhile         // what events said since it is
	marked    bool              // an event or a reading has shown it with an alias
	dead      bool              // deleted by us; the event of its end is still to come
	far       *kernel.Link      // the other end of the cable that was made with it, until it is marked
}

// meanwhile is what events said of a link while an operation was at it. The last one tells
// how it is; what those before it say is of the past. The zero value: nothing.
type meanwhile struct {
	last    *kernel.Link
	unclear bool // one did not say how the link is
}

// as reports whether the events leave no doubt that the link is as the operation left it.
func (m meanwhile) as(so func(kernel.Link) bool) bool {
	return !m.unclear && (m.last == nil || so(*m.last))
}

// nameOf is the logical name in a key.
func nameOf(k scheduler.Key) string { return strings.TrimPrefix(string(k), prefix) }

func keyOf(name string) scheduler.Key { return scheduler.Key(models.InterfaceKey(name)) }

type (
	op    = scheduler.Op[*models.Interface, kernel.LinkRef]
	found = scheduler.Found[*models.Interface, kernel.LinkRef]
	scope = scheduler.Scope[*models.Interface, kernel.LinkRef]
)
