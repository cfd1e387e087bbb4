package nexthop

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// wish is one nexthop as it shall be, with all names found in the kernel.
type wish struct {
	key     scheduler.Key
	value   *models.Nexthop
	place   selector.Place
	nexthop kernel.Nexthop
	// missing is a member of the group that is not there.
	missing scheduler.Key
	// recorded: the ledger named this very nexthop before the operation.
	recorded bool
}

// at is what the scheduler keeps.
func (w *wish) at() kernel.LinkRef { return kernel.LinkRef{NS: w.place.NS, Index: w.nexthop.Index} }

func (w *wish) entry() kernel.Entry {
	return kernel.Entry{ID: string(w.key), NS: w.place.NS, NSPath: w.place.Path, Mark: markOf(w.nexthop.ID), Value: models.Encode(w.value)}
}

// markOf is the mark of a nexthop in the ledger, idOf takes it back.
func markOf(id uint32) string { return strconv.FormatUint(uint64(id), 10) }

func idOf(e kernel.Entry) uint32 {
	id, _ := strconv.ParseUint(e.Mark, 10, 32)
	return uint32(id)
}

// resolve finds everything that the value names.
func (d *nexthop) resolve(ctx context.Context, k scheduler.Key, v *models.Nexthop) (w *wish, err error) {
	w = &wish{key: k, value: v, nexthop: kernel.Nexthop{
		ID: v.GetId(), Protocol: d.Owner.Protocol(), IPv6: v.EffectiveFamily() == "ipv6",
		Gateway: gateway(v), Onlink: v.GetOnlink(), Encap: kind.EncapOf(v.GetEncap()), Blackhole: v.GetBlackhole(),
	}}
	if name := v.GetInterface(); name != "" {
		ref, err := kind.LinkOf(d.Interfaces, name)
		if err != nil {
			return nil, err
		}
		w.place.NS, w.nexthop.Index = ref.NS, ref.Index
		if e, ok := d.Owner.Entry(models.InterfaceKey(name)); ok {
			w.place.Path = e.NSPath
		}
	} else if w.place, err = d.Places.Resolve(ctx, v.GetNamespace()); err != nil {
		return nil, err
	} else if err = d.addMembers(w); err != nil {
		return nil, err
	}
	before, had := d.Owner.Entry(string(k))
	w.recorded = had && before.NS == w.place.NS && idOf(before) == w.nexthop.ID
	return w, nil
}

// addMembers finds the members of a group that are there. The kernel is asked as well: it
// may have dropped one a moment ago, and refuses a group of which one is not there.
func (d *nexthop) addMembers(w *wish) error {
	if len(w.value.GetGroup()) == 0 {
		return nil
	}
	known, err := d.ours(w.place.NS)
	if err != nil {
		return err
	}
	for i, k := range memberKeys(w.value) {
		v, ref, there := d.Nexthops(k)
		_, still := known[v.GetId()]
		switch {
		case !there, ref.NS == w.place.NS && !still:
			w.missing = k
		case ref.NS != w.place.NS:
			return scheduler.Blocked(k, fmt.Errorf("%s lives in another namespace; a group has nexthops of its own", k))
		case len(v.GetGroup()) > 0:
			return scheduler.Blocked(k, fmt.Errorf("%s is a group; the members of a group are none", k))
		default:
			w.nexthop.Group = append(w.nexthop.Group, kernel.NexthopMember{ID: v.GetId(), Weight: int(w.value.GetGroup()[i].EffectiveWeight())})
		}
	}
	if w.missing != "" && w.nexthop.Group == nil {
		return scheduler.Blocked(w.missing, errors.New("no member of the group is there any more"))
	}
	return nil
}

func (d *nexthop) prepare(ctx context.Context, o *op) (job owned.Job[kernel.LinkRef], err error) {
	w, err := d.resolve(ctx, o.Key, o.Value)
	if err != nil {
		return job, err
	}
	return owned.Job[kernel.LinkRef]{
		Entries: []kernel.Entry{w.entry()},
		Make: func() (kernel.LinkRef, error) {
			if err := ctx.Err(); err != nil {
				return w.at(), err
			}
			return w.at(), d.make(w)
		},
	}, nil
}

// make makes a nexthop. A group of which a member is missing is made without it, and is
// made whole when the member comes.
func (d *nexthop) make(w *wish) error {
	if other := d.holder(w); other != "" {
		return scheduler.Blocked(other, fmt.Errorf("nexthop %d is in use by %s", w.nexthop.ID, other))
	}
	before, had := d.note(w.place.NS, held{w.key, w.nexthop, true}) // first, or we take the event for news
	err := d.Kernel.AddNexthop(w.place.NS, w.nexthop)
	if errors.Is(err, kernel.ErrExist) {
		err = d.clash(w)
	}
	if err != nil {
		if !had || before.key == w.key {
			before = held{key: w.key, nexthop: w.nexthop} // whatever happens to what stands there is news
		}
		d.note(w.place.NS, before)
		if !w.recorded {
			d.Owner.Remove(string(w.key))
		}
		return d.explain(w, err)
	}
	if err := d.Owner.Hit("nexthop/made"); err != nil {
		return err
	}
	d.Owner.Made(string(w.key))
	if w.missing != "" {
		return scheduler.Blocked(w.missing, fmt.Errorf("the group works without %s, which is not there", w.missing))
	}
	return nil
}

// explain says what an error of the kernel waits for.
func (d *nexthop) explain(w *wish, err error) error {
	switch {
	case !errors.Is(err, kernel.ErrDown):
		return kind.Encapsulated(w.value.GetEncap() != nil, err)
	case w.value.GetBlackhole():
		return scheduler.Blocked(selector.LinkKey(w.value.GetNamespace(), "lo"),
			fmt.Errorf("the kernel takes a blackhole only while the loopback of the namespace is up: %w", err))
	}
	err = fmt.Errorf("the kernel takes a nexthop only while its link is up and has a carrier: %w", err)
	return kind.Down(d.Kernel, d.Interfaces, err, w.value.GetInterface())
}

// holder is another key that has the number and is wanted still. Claims do not see that two
// interfaces live in one namespace. From a key that is not wanted any more the nexthop is
// taken over as it stands, and the deletion of that one leaves it alone.
func (d *nexthop) holder(w *wish) scheduler.Key {
	h, _ := d.have.Get(w.place.NS, w.nexthop.ID)
	if !h.there || h.key == w.key {
		return ""
	}
	if d.isWanted(h.key) {
		return h.key
	}
	if e, recorded := d.Owner.Entry(string(h.key)); recorded && e.NS == w.place.NS && idOf(e) == w.nexthop.ID {
		w.recorded = true
	}
	return ""
}

// clash looks at what has the number. Ours by the ledger is brought into shape; ours by its
// protocol number and equal is success; else it is a conflict.
func (d *nexthop) clash(w *wish) error {
	there, err := d.lookUp(w.place.NS, w.nexthop.ID)
	switch ours := d.bearsOurs(there); {
	case err != nil:
		return err
	case ours && there.Equal(w.nexthop):
		return nil
	case ours && w.recorded:
		return d.Kernel.ReplaceNexthop(w.place.NS, w.nexthop)
	}
	return scheduler.Conflict("somebody else", fmt.Errorf("there is a nexthop %d already, which is not of this key; choose another id, or remove it with: ip nexthop del id %d", w.nexthop.ID, w.nexthop.ID))
}

// lookUp reads the nexthop of a number; ErrNotExist if there is none.
func (d *nexthop) lookUp(ns kernel.NS, id uint32) (kernel.Nexthop, error) {
	all, err := d.Kernel.Nexthops(ns)
	for _, n := range all {
		if n.ID == id {
			return n, nil
		}
	}
	if err == nil {
		err = fmt.Errorf("nexthop %d: %w", id, kernel.ErrNotExist)
	}
	return kernel.Nexthop{}, err
}

// update puts the nexthop in the place of what is there. If its interface is in another
// namespace now, it goes from the old one first: the ledger has one place per key.
func (d *nexthop) update(ctx context.Context, k scheduler.Key, from, to *models.Nexthop, was kernel.LinkRef) (kernel.LinkRef, error) {
	w, err := d.resolve(ctx, k, to)
	if err != nil {
		return was, err
	}
	if w.place.NS != was.NS {
		if err := d.delete(ctx, k, from, was); err != nil {
			return was, err
		}
	}
	return d.objects.Create(ctx, k, to)
}

// delete removes the nexthop if it is there and bears our number.
func (d *nexthop) delete(_ context.Context, k scheduler.Key, _ *models.Nexthop, _ kernel.LinkRef) error {
	return d.objects.DeleteRecorded(k, func(e kernel.Entry) error {
		if h, _ := d.have.Get(e.NS, idOf(e)); h.there && h.key != k {
			return nil // another key has taken it over
		}
		n, err := d.lookUp(e.NS, idOf(e))
		if err != nil || !d.bearsOurs(n) {
			return err // another one is in its place
		}
		d.have.Forget(e.NS, n.ID) // first, or we take the event for news
		if err := d.Kernel.DeleteNexthop(e.NS, n.ID); err != nil && !kernel.IsGone(err) {
			d.note(e.NS, held{key: k, nexthop: n})
			return err
		}
		return nil
	})
}

// bearsOurs reports whether a nexthop bears our protocol number and says nothing that we
// never do.
func (d *nexthop) bearsOurs(n kernel.Nexthop) bool {
	return n.Protocol == d.Owner.Protocol() && !n.More
}

func (d *nexthop) note(ns kernel.NS, h held) (before held, had bool) {
	return d.have.Note(ns, h.nexthop.ID, h)
}

func (d *nexthop) forget(e kernel.Entry) {
	if h, _ := d.have.Get(e.NS, idOf(e)); h.key == scheduler.Key(e.ID) {
		d.have.Forget(e.NS, idOf(e))
	}
}

func (d *nexthop) isWanted(k scheduler.Key) bool { return d.Wanted == nil || d.Wanted(k) }
