package hostlink

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

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
	// Names tells which links are ours.
	Names  *kernel.Names
	Places selector.Places
	// Poll gives the moments at which namespaces that are needed but not there
	// are looked for. Default: once a second while Watch runs.
	Poll <-chan time.Time
}

// New makes the kind. What it remembers is where the link is.
func New(deps Deps) scheduler.Descriptor[*models.HostLink, kernel.LinkRef] {
	d := &hostlink{Deps: deps, wanted: map[scheduler.Key]*target{}, seen: map[kernel.LinkRef]sight{}}
	k := kind.Observed[*models.HostLink, kernel.LinkRef](models.KindHostLink)
	k.Retrieve, k.Watch, k.Interest = d.retrieve, d.watch, d.interest
	k.Equal = func(_ scheduler.Key, a, b *models.HostLink) bool { return same(a, b) }
	return k
}

type hostlink struct {
	Deps

	mu     sync.Mutex
	wanted map[scheduler.Key]*target // in other namespaces
	seen   map[kernel.LinkRef]sight  // what the scheduler believes, to know what is news
	events owned.Events
}

// target is a link that is needed in another namespace.
type target struct {
	in   *models.Namespace
	host string
	ns   kernel.NS // where it was looked for last, 0 if nowhere
}

// sight is a link as last read.
type sight struct {
	keys  []scheduler.Key
	value *models.HostLink
}

func (d *hostlink) interest(k scheduler.Key, wanted bool) {
	in, host, ok := selector.ParseLinkKey(k)
	if !ok || in == nil {
		return // the agent's own namespace is always watched
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case !wanted:
		delete(d.wanted, k)
		d.Owner.Leave(string(k))
	case d.wanted[k] == nil:
		d.wanted[k] = &target{in: in, host: host}
	}
}

type (
	found = scheduler.Found[*models.HostLink, kernel.LinkRef]
	scope = scheduler.Scope[*models.HostLink, kernel.LinkRef]
)

func (d *hostlink) retrieve(ctx context.Context, s scope) iter.Seq2[found, error] {
	return func(yield func(found, error) bool) {
		if !s.ReadOnly {
			d.events.Read()
		}
		keys := s.Keys
		if s.All {
			keys = d.targets()
			if !d.all(s, yield) {
				return
			}
		}
		for _, k := range keys {
			f, there, err := d.look(ctx, s, k)
			if (there || err != nil) && !yield(f, err) {
				return
			}
		}
	}
}

func (d *hostlink) targets() []scheduler.Key {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.wanted))
}

func (d *hostlink) asked(k scheduler.Key) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.wanted[k] != nil
}

// all yields the links of the agent's namespace; false when no more is asked for.
func (d *hostlink) all(s scope, yield func(found, error) bool) bool {
	links, err := d.Kernel.Links(d.Kernel.Own())
	if err != nil {
		return yield(found{}, fmt.Errorf("read the links of the agent's namespace: %w", err))
	}
	if !s.ReadOnly {
		d.forgetIn(d.Kernel.Own())
	}
	for _, l := range links {
		if !d.ours(l) && !yield(d.found(s, keyOf(l.Name), l), nil) {
			return false
		}
	}
	return true
}

// look reads one link by its key. In other namespaces it looks only for what is needed.
func (d *hostlink) look(ctx context.Context, s scope, k scheduler.Key) (f found, there bool, err error) {
	f.Key = k
	in, host, ok := selector.ParseLinkKey(k)
	if !ok || in != nil && !d.asked(k) {
		return f, false, nil
	}
	place, err := d.Places.Resolve(ctx, in)
	if !s.ReadOnly {
		d.lookedIn(k, place.NS)
	}
	if errors.Is(err, kernel.ErrNoNamespace) {
		return f, false, nil
	}
	if err != nil {
		return f, false, err
	}
	l, err := d.Kernel.Link(place.NS, host)
	switch {
	case kernel.IsGone(err):
		if !s.ReadOnly {
			d.forgetKey(k)
		}
		return f, false, nil
	case err != nil:
		return f, false, fmt.Errorf("read the link %s in %s: %w", host, in.Text(), err)
	}
	return d.found(s, k, l), !d.ours(l), nil
}

// ours reports whether a link is an interface of ours: by the ledger or its mark, or kept
// although its mark was taken from it. A link that was adopted is its host's.
func (d *hostlink) ours(l kernel.Link) bool {
	key, ours := d.Owner.LinkKey(l)
	if e, _ := d.Owner.Entry(key); ours && !e.Adopted() {
		return key == "" || strings.HasPrefix(key, models.KindInterface+"/")
	}
	if _, kept := d.Names.Of(l.Ref()); kept {
		return l.Group == d.Owner.Group()
	}
	return false
}

func (d *hostlink) found(s scope, k scheduler.Key, l kernel.Link) found {
	f := found{Key: k, Value: valueOf(l), Meta: l.Ref()}
	if !s.ReadOnly {
		d.note(k, l, f.Value)
	}
	return f
}

func (d *hostlink) note(k scheduler.Key, l kernel.Link, v *models.HostLink) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.seen[l.Ref()]
	if !slices.Contains(s.keys, k) {
		s.keys = append(s.keys, k)
	}
	s.value = v
	d.seen[l.Ref()] = s
}

func valueOf(l kernel.Link) *models.HostLink {
	return &models.HostLink{
		HostName: l.Name, Type: l.Type, Index: uint32(l.Index), MacAddress: l.MAC, Mtu: uint32(l.MTU), Enabled: l.Up,
	}
}

func same(a, b *models.HostLink) bool {
	return a.GetHostName() == b.GetHostName() && a.GetType() == b.GetType() && a.GetIndex() == b.GetIndex() &&
		a.GetMacAddress() == b.GetMacAddress() && a.GetMtu() == b.GetMtu() && a.GetEnabled() == b.GetEnabled()
}

func keyOf(host string) scheduler.Key { return scheduler.Key(models.HostLinkKey(host)) }

func (d *hostlink) lookedIn(k scheduler.Key, ns kernel.NS) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.wanted[k]; t != nil {
		t.ns = ns
		d.Owner.Use(string(k), ns)
	}
}

// forgetIn forgets all that was seen in a namespace.
func (d *hostlink) forgetIn(ns kernel.NS) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.seen, func(ref kernel.LinkRef, _ sight) bool { return ref.NS == ns })
}

func (d *hostlink) forgetKey(k scheduler.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.seen, func(_ kernel.LinkRef, s sight) bool { return slices.Contains(s.keys, k) })
}
