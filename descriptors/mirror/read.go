package mirror

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// retrieve reads the filters of the keys that the ledger names.
func (d *mirror) retrieve(ctx context.Context, s scope) iter.Seq2[found, error] {
	hooks := owned.Dumps[map[int]string]{Read: d.hooks}
	return d.objects.Retrieve(ctx, s, func(e kernel.Entry) (*models.Mirror, kernel.LinkRef, error) {
		ref := kernel.LinkRef{NS: e.NS, Index: e.Index}
		all, err := hooks.Of(e.NS)
		if err != nil {
			return nil, ref, fmt.Errorf("read the hooks of its namespace: %w", err)
		}
		to, double := map[bool]int{}, false
		for _, egress := range directions {
			if all[e.Index] == "" || egress && all[e.Index] == kernel.HookIngress {
				continue
			}
			mine, _, err := d.filters(e, egress)
			if err != nil {
				return nil, ref, err
			}
			for _, f := range mine {
				_, had := to[egress]
				to[egress], double = f.To, double || had
			}
		}
		if len(to) == 0 && (all[e.Index] != kernel.HookBoth || priorOf(e).Hook) {
			return nil, ref, kernel.ErrNotExist
		}
		if !s.ReadOnly {
			d.note(e, to)
		}
		return d.value(ref, to, double || len(to) == 0), ref, nil
	})
}

// hooks are the kinds of hooks of a namespace by link.
func (d *mirror) hooks(ns kernel.NS) (map[int]string, error) {
	all, err := d.Kernel.Qdiscs(ns)
	hooks := map[int]string{}
	for _, q := range all {
		if q.Hook() {
			hooks[q.Index] = q.Kind
		}
	}
	return hooks, err
}

// value says where copies go. What no value says, two filters where one is enough, two ways, or
// none but still the hook that we made, goes by an interface that none can be.
func (d *mirror) value(ref kernel.LinkRef, to map[bool]int, double bool) *models.Mirror {
	v := &models.Mirror{Interface: d.Owner.LinkName(d.Kernel, d.Names, ref)}
	in, ingress := to[false]
	out, egress := to[true]
	switch {
	case ingress && egress:
		v.Direction, double = "both", double || in != out
	case egress:
		v.Direction, in = "egress", out
	default:
		v.Direction = "ingress"
	}
	if v.To = "?"; !double {
		v.To = d.Owner.LinkName(d.Kernel, d.Names, kernel.LinkRef{NS: ref.NS, Index: in})
	}
	return v
}

// watch turns the kernel's events into keys. Of what goes with its link nothing is told; who
// stands on that learns of it.
func (d *mirror) watch(ctx context.Context, notify func(...scheduler.Key)) error {
	return d.objects.Follow(ctx, d.Kernel, d.heard, notify)
}

func (d *mirror) heard(e kernel.Event) owned.News {
	touched := func(held) bool { return true }
	switch {
	case e.Lost, e.Gone:
	case e.Qdisc != nil && e.Qdisc.Hook() && e.Deleted:
		touched = func(h held) bool { return h.index == e.Qdisc.Index }
	case e.Filter != nil:
		touched = func(h held) bool { return h.index == e.Filter.Index && h.differs(*e.Filter, e.Deleted) }
	default:
		return owned.News{}
	}
	var keys []scheduler.Key
	for _, h := range d.have.Of(func(ns kernel.NS) bool { return ns == e.NS }, e.Gone) {
		if !touched(h) {
			continue
		}
		keys = append(keys, h.key)
		if h.to = nil; !e.Gone { // until it is read
			d.have.Note(e.NS, h.key, h)
		}
	}
	slices.Sort(keys)
	return owned.NewsOf(keys...)
}

// differs reports whether an event of a filter says something else than is believed.
func (h held) differs(f kernel.Filter, deleted bool) bool {
	if deleted && f.Handle == 0 { // all of a place
		return true
	}
	if f.Mark != h.mark {
		return false
	}
	to, believed := h.to[f.Egress]
	return h.to == nil || deleted == (believed && to == f.To)
}
