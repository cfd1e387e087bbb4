package netns

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

type (
	op    = scheduler.Op[*models.NetNS, kernel.NS]
	found = scheduler.Found[*models.NetNS, kernel.NS]
	scope = scheduler.Scope[*models.NetNS, kernel.NS]
	known = scheduler.Known[*models.NetNS, kernel.NS]
)

// retrieve yields all names, or those asked for. To read the mark a namespace
// must be open. It is opened for that only if it may be ours: a handle held on
// a stranger's namespace would keep it alive.
func (d *netns) retrieve(_ context.Context, s scope) iter.Seq2[found, error] {
	return func(yield func(found, error) bool) {
		if !s.ReadOnly {
			d.objects.Read()
		}
		reading := d.owner.Reading()
		named, err := d.kernel.ListNamed()
		if err != nil {
			yield(found{}, fmt.Errorf("list the named namespaces: %w", err))
			return
		}
		if !s.ReadOnly {
			d.forget(s, reading, named)
		}
		maybe := d.maybeOurs(s)
		for _, name := range names(s, named) {
			f, there, err := d.look(name, named[name], maybe[keyOf(name)] || d.kernel.Alive(named[name]), !s.ReadOnly)
			if there && f.Meta != 0 && !s.ReadOnly {
				d.keep(f)
			}
			if there && err == nil && f.Foreign && d.refused(name, f.Meta) {
				f.Meta = selector.Refused
			}
			if there && !yield(f, err) {
				return
			}
		}
	}
}

func names(s scope, named map[string]kernel.NS) []string {
	if s.All {
		return slices.Sorted(maps.Keys(named))
	}
	var names []string
	for _, k := range s.Keys {
		if _, there := named[nameOf(k)]; there {
			names = append(names, nameOf(k))
		}
	}
	return names
}

// forget takes leave of what is gone. A file without a namespace is what a
// crash before the mount leaves: whoever makes the namespace makes way for it,
// and if nobody wants it, it goes now.
func (d *netns) forget(s scope, reading kernel.Reading, named map[string]kernel.NS) {
	keys := s.Keys
	if s.All {
		keys = nil
		for _, e := range d.owner.Entries(models.KindNetNS + "/") {
			keys = append(keys, scheduler.Key(e.ID))
		}
	}
	for _, k := range keys {
		if _, there := named[nameOf(k)]; there {
			continue
		}
		d.note(nameOf(k), 0)
		if _, recorded := d.owner.Entry(string(k)); recorded && d.occupied(nameOf(k)) {
			if slices.ContainsFunc(s.Known, func(kn known) bool { return kn.Key == k }) {
				continue
			}
			d.remnant(nameOf(k))
		}
		reading.Forget(string(k))
	}
}

// occupied reports whether something stands under the name.
func (d *netns) occupied(name string) bool {
	_, err := d.kernel.Open(d.path(name))
	return err != nil && !errors.Is(err, kernel.ErrNotExist)
}

// maybeOurs are the keys that somebody wants or that the ledger knows.
func (d *netns) maybeOurs(s scope) map[scheduler.Key]bool {
	maybe := map[scheduler.Key]bool{}
	for _, known := range s.Known {
		maybe[known.Key] = true
	}
	for _, e := range d.owner.Entries(models.KindNetNS + "/") {
		maybe[scheduler.Key(e.ID)] = true
	}
	return maybe
}

func (d *netns) look(name string, ns kernel.NS, maybe, mend bool) (f found, there bool, err error) {
	f = found{Key: keyOf(name), Value: &models.NetNS{}, Meta: ns, Foreign: true}
	if !maybe {
		return f, true, nil
	}
	opened, err := d.kernel.Open(d.path(name))
	switch {
	case kernel.IsGone(err):
		return f, false, nil // gone since the listing
	case err != nil:
		f.Meta = 0
		return f, true, fmt.Errorf("open namespace %s: %w", name, err)
	}
	e, recorded := d.owner.Entry(string(f.Key))
	ours, err := d.ours(name, opened, e, recorded, mend)
	if ours && mend {
		d.owner.SawNamespace(string(f.Key), d.kernel.Cookie(opened))
	}
	f.Meta, f.Foreign = opened, !ours
	return f, true, err
}

// keep notes what was found. A namespace of ours stays open.
func (d *netns) keep(f found) {
	d.note(nameOf(f.Key), f.Meta)
	if !f.Foreign {
		d.owner.Use(string(f.Key), f.Meta)
	}
}

// watch follows the names. Our own doing is known by its identity.
func (d *netns) watch(ctx context.Context, notify func(...scheduler.Key)) error {
	return d.objects.Follow(ctx, d.kernel, func(e kernel.Event) owned.News {
		if e.Named != "" && !d.echo(e) {
			return owned.NewsOf(keyOf(e.Named))
		}
		if name := d.unmarked(e); name != "" {
			return owned.NewsOf(keyOf(name))
		}
		return owned.News{All: e.Lost && e.NS == d.kernel.Own()}
	}, notify)
}

// unmarked is the name of our namespace whose mark an event shows to be changed; else "".
func (d *netns) unmarked(e kernel.Event) string {
	if e.Link == nil || e.Deleted || e.Link.Index != loopback {
		return ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, ns := range d.seen {
		id := string(keyOf(name))
		if entry, recorded := d.owner.Entry(id); ns == e.NS && recorded && entry.Identity != nil && e.Link.Alias != d.owner.Mark(id) {
			return name
		}
	}
	return ""
}

func (d *netns) echo(e kernel.Event) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	ns, known := d.seen[e.Named]
	if e.Deleted {
		return !known
	}
	return known && ns == e.NS
}
