package qdisc

import (
	"context"
	"errors"
	"fmt"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

func (d *qdisc) prepare(ctx context.Context, o *op) (job owned.Job[kernel.LinkRef], err error) {
	ref, err := kind.LinkOf(d.Interfaces, o.Value.GetInterface())
	if err != nil {
		return job, err
	}
	q := asked(o.Value, ref.Index, d.Owner.Handle())
	e := d.entry(o.Key, o.Value, ref)
	before, recorded := d.Owner.Entry(e.ID)
	recorded = recorded && before.NS == e.NS && before.Index == e.Index
	if !recorded && o.Value.GetAdopt() {
		if there, like := d.others(ref, q); like {
			return owned.Job[kernel.LinkRef]{
				Entries: []kernel.Entry{takeOver(e, there)},
				Make: func() (kernel.LinkRef, error) {
					d.note(ref.NS, held{o.Key, there, true})
					return ref, nil
				},
			}, nil
		}
	}
	made := e // what the ledger says once it is ours
	if recorded {
		e.Mark, e.Prior = before.Mark, before.Prior
	}
	return owned.Job[kernel.LinkRef]{
		Entries: []kernel.Entry{e},
		Make: func() (kernel.LinkRef, error) {
			if err := ctx.Err(); err != nil {
				return ref, err
			}
			if err := d.make(o.Key, ref.NS, q, recorded, e); err != nil {
				return ref, err
			}
			return ref, d.Owner.Record(made)
		},
	}, nil
}

func (d *qdisc) entry(k scheduler.Key, v *models.Qdisc, ref kernel.LinkRef) kernel.Entry {
	e := kernel.Entry{ID: string(k), NS: ref.NS, Index: ref.Index, Value: models.Encode(v)}
	if link, ok := d.Owner.Entry(models.InterfaceKey(v.GetInterface())); ok {
		e.NSPath = link.NSPath
	}
	return e
}

// takeOver makes the entry one of a discipline of others, which it knows by its handle.
func takeOver(e kernel.Entry, there kernel.Qdisc) kernel.Entry {
	e = e.TakeOver(0)
	e.Mark = text(there.Handle)
	return e
}

// text is a handle as people write it.
func text(handle uint16) string { return fmt.Sprintf("%x:", handle) }

// bears reports whether a discipline can be that of an entry.
func (d *qdisc) bears(e kernel.Entry, q kernel.Qdisc) bool {
	return q.Handle == d.Owner.Handle() || e.Mark == text(q.Handle)
}

// others is the discipline of others that is as it is asked, if there is one.
func (d *qdisc) others(ref kernel.LinkRef, want kernel.Qdisc) (there kernel.Qdisc, like bool) {
	there, err := d.lookUp(ref.NS, ref.Index)
	want.Handle = there.Handle
	return there, err == nil && there.Handle != d.Owner.Handle() && there.Same(want)
}

// standing is for readings; see [owned.Objects].
func (d *qdisc) standing(_ context.Context, k scheduler.Key, v *models.Qdisc) (e kernel.Entry, there bool) {
	ref, err := kind.LinkOf(d.Interfaces, v.GetInterface())
	if err != nil || !v.GetAdopt() {
		return e, false
	}
	q, there := d.others(ref, asked(v, ref.Index, 0))
	return takeOver(d.entry(k, v, ref), q), there
}

// make sets a discipline. recorded says that the ledger named one before, as e does.
func (d *qdisc) make(k scheduler.Key, ns kernel.NS, q kernel.Qdisc, recorded bool, e kernel.Entry) error {
	d.note(ns, held{k, q, true}) // first, or we take the event for news
	err := d.Kernel.AddQdisc(ns, q)
	if errors.Is(err, kernel.ErrExist) {
		err = d.clash(ns, q, recorded, e)
	}
	if err == nil {
		return d.Owner.Hit("qdisc/made")
	}
	d.note(ns, held{key: k, qdisc: q}) // whatever happens to what stands there is news
	if !recorded {
		d.Owner.Remove(string(k))
	}
	if errors.Is(err, kernel.ErrUnsupported) {
		return scheduler.Unsupported(err)
	}
	return err
}

// clash looks at what is at the root. Ours by the ledger is brought into shape; ours by its
// handle and equal is success; else it is a conflict.
func (d *qdisc) clash(ns kernel.NS, q kernel.Qdisc, recorded bool, e kernel.Entry) error {
	there, err := d.lookUp(ns, q.Index)
	switch {
	case err != nil:
		return err
	case there.Same(q):
		return nil
	case !recorded || !d.bears(e, there):
		return d.conflict(ns, there)
	case there.Handle == q.Handle && (there.Kind != q.Kind || there.More): // it cannot become ours
		if err := d.Kernel.DeleteQdisc(ns, there); err != nil && !kernel.IsGone(err) {
			return err
		}
		return d.Kernel.AddQdisc(ns, q)
	}
	return d.Kernel.ReplaceQdisc(ns, there.Handle, q)
}

func (d *qdisc) conflict(ns kernel.NS, there kernel.Qdisc) error {
	link := linkText(d.Kernel, ns, there.Index)
	return scheduler.Conflict("somebody else", fmt.Errorf(
		"%s has a queueing discipline already, %s %s, which is not of this key; remove it with: tc qdisc del dev %s root", link, there.Kind, text(there.Handle), link))
}

// linkText is what people call a link.
func linkText(k kernel.Kernel, ns kernel.NS, index int) string {
	l, err := k.LinkByIndex(ns, index)
	if err != nil {
		return fmt.Sprint(index)
	}
	return l.Name
}

// lookUp reads what is at the root of a link; ErrNotExist if nobody has set that.
func (d *qdisc) lookUp(ns kernel.NS, index int) (kernel.Qdisc, error) {
	all, err := d.roots(ns)
	if err != nil {
		return kernel.Qdisc{}, err
	}
	q, there := all[index]
	if !there {
		return q, fmt.Errorf("the root of link %d: %w", index, kernel.ErrNotExist)
	}
	return q, nil
}

// roots are the disciplines of a namespace by link.
func (d *qdisc) roots(ns kernel.NS) (map[int]kernel.Qdisc, error) {
	all, err := d.Kernel.Qdiscs(ns)
	roots := map[int]kernel.Qdisc{}
	for _, q := range all {
		if !q.Hook() {
			roots[q.Index] = q
		}
	}
	return roots, err
}

func (d *qdisc) delete(_ context.Context, k scheduler.Key, _ *models.Qdisc, _ kernel.LinkRef) error {
	return d.objects.DeleteRecorded(k, func(e kernel.Entry) error {
		q, err := d.lookUp(e.NS, e.Index)
		if err != nil || q.Handle != d.Owner.Handle() {
			return err // it goes back to those who set it, or another one is in its place
		}
		d.have.Forget(e.NS, e.Index) // first, or we take the event for news
		if err := d.Kernel.DeleteQdisc(e.NS, q); err != nil && !kernel.IsGone(err) {
			d.note(e.NS, held{key: k, qdisc: q})
			return err
		}
		return nil
	})
}

func (d *qdisc) note(ns kernel.NS, h held) { d.have.Note(ns, h.qdisc.Index, h) }

// forget leaves alone what another key believes by now.
func (d *qdisc) forget(e kernel.Entry) {
	if h, _ := d.have.Get(e.NS, e.Index); h.key == scheduler.Key(e.ID) {
		d.have.Forget(e.NS, e.Index)
	}
}
