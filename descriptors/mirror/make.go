package mirror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// before is what the ledger keeps of how a link was before us.
type before struct {
	// Hook: somebody else's was there.
	Hook bool `json:"hook"`
}

func (d *mirror) prepare(ctx context.Context, o *op) (job owned.Job[kernel.LinkRef], err error) {
	v := o.Value
	ref, err := kind.LinkOf(d.Interfaces, v.GetInterface())
	if err != nil {
		return job, err
	}
	to, err := kind.LinkOf(d.Interfaces, v.GetTo())
	if err != nil {
		return job, err
	}
	if to.NS != ref.NS {
		return job, scheduler.Invalid("to", "%s lives in another namespace than %s; a copy leaves by an interface of the same",
			models.InterfaceKey(v.GetTo()), models.InterfaceKey(v.GetInterface()))
	}
	hook, err := d.hook(ref)
	if err != nil {
		return job, err
	}
	if hook == kernel.HookIngress && v.Egress() {
		return job, scheduler.Conflict("somebody else", fmt.Errorf(
			"%s has the hook ingress, which is not ours and has no place for what leaves; mirror ingress alone, or have that made as clsact", models.InterfaceKey(v.GetInterface())))
	}
	e := kernel.Entry{ID: string(o.Key), NS: ref.NS, Index: ref.Index, Mark: d.Owner.Digest(string(o.Key)), Value: models.Encode(v)}
	if link, ok := d.Owner.Entry(models.InterfaceKey(v.GetInterface())); ok {
		e.NSPath = link.NSPath
	}
	_, recorded := d.Owner.Entry(e.ID)
	e = withPrior(e, before{Hook: hook != "" && !d.madeHook(e)})
	return owned.Job[kernel.LinkRef]{
		Entries: []kernel.Entry{e},
		Make: func() (kernel.LinkRef, error) {
			if err := ctx.Err(); err != nil {
				return ref, err
			}
			err := d.make(e, hook, v, to.Index)
			if err != nil && !recorded {
				err = errors.Join(err, d.giveUp(e))
			}
			if errors.Is(err, kernel.ErrUnsupported) {
				err = scheduler.Unsupported(err)
			}
			return ref, err
		},
	}, nil
}

// priorOf is what an entry says of how its link was.
func priorOf(e kernel.Entry) (b before) {
	if json.Unmarshal(e.Prior, &b) != nil {
		b.Hook = true // nobody knows: it stays
	}
	return b
}

func withPrior(e kernel.Entry, b before) kernel.Entry {
	e.Prior, _ = json.Marshal(b) // cannot fail
	return e
}

// hook is the kind of the hook of a link, "" if it has none.
func (d *mirror) hook(ref kernel.LinkRef) (string, error) {
	all, err := d.Kernel.Qdiscs(ref.NS)
	for _, q := range all {
		if q.Index == ref.Index && q.Hook() {
			return q.Kind, nil
		}
	}
	return "", err
}

// madeHook reports whether one of our keys made the hook that an entry names.
func (d *mirror) madeHook(e kernel.Entry) bool {
	for _, o := range d.Owner.Entries(models.KindMirror + "/") {
		if o.NS == e.NS && o.Index == e.Index && !priorOf(o).Hook {
			return true
		}
	}
	return false
}

// shared reports whether another key of ours is at the hook.
func (d *mirror) shared(e kernel.Entry) bool {
	for _, o := range d.Owner.Entries(models.KindMirror + "/") {
		if o.NS == e.NS && o.Index == e.Index && o.ID != e.ID {
			return true
		}
	}
	return false
}

// make brings hook and filters into shape.
func (d *mirror) make(e kernel.Entry, hook string, v *models.Mirror, to int) error {
	want := map[bool]int{}
	if v.Ingress() {
		want[false] = to
	}
	if v.Egress() {
		want[true] = to
	}
	d.note(e, want) // first, or we take the event for news
	err := d.ensure(e, hook, want)
	if err == nil {
		return d.Owner.Hit("mirror/made")
	}
	d.note(e, nil) // whatever happens there is news
	return err
}

func (d *mirror) ensure(e kernel.Entry, hook string, want map[bool]int) error {
	if hook == "" {
		hook = kernel.HookBoth
		err := d.Kernel.AddQdisc(e.NS, hookOf(e))
		if errors.Is(err, kernel.ErrExist) { // somebody was faster
			err = d.Owner.Record(withPrior(e, before{Hook: true}))
		}
		if err != nil {
			return err
		}
	}
	for _, egress := range directions {
		if egress && hook == kernel.HookIngress {
			continue
		}
		mine, _, err := d.filters(e, egress)
		if err != nil {
			return err
		}
		to, wanted := want[egress]
		for _, f := range mine {
			if wanted && f.To == to {
				wanted = false // it is there; of two one goes
			} else if err := d.Kernel.DeleteFilter(e.NS, f); err != nil && !kernel.IsGone(err) {
				return err
			}
		}
		if !wanted {
			continue
		}
		if err := d.Kernel.AddFilter(e.NS, kernel.Filter{Index: e.Index, Egress: egress, Mark: e.Mark, To: to}); err != nil {
			return err
		}
	}
	return nil
}

func hookOf(e kernel.Entry) kernel.Qdisc {
	return kernel.Qdisc{Index: e.Index, Handle: kernel.HookHandle, Kind: kernel.HookBoth}
}

// filters are those of an entry at a hook, and whether there are others.
func (d *mirror) filters(e kernel.Entry, egress bool) (mine []kernel.Filter, others bool, err error) {
	all, err := d.Kernel.Filters(e.NS, e.Index, egress)
	for _, f := range all {
		if f.Mark == e.Mark {
			mine = append(mine, f)
		} else {
			others = true
		}
	}
	return mine, others, err
}

// giveUp takes back what was begun for a key that the ledger did not name before.
func (d *mirror) giveUp(e kernel.Entry) error {
	if err := d.remove(e); err != nil && !kernel.IsGone(err) {
		return err
	}
	d.Owner.Remove(e.ID)
	return nil
}

func (d *mirror) delete(_ context.Context, k scheduler.Key, _ *models.Mirror, _ kernel.LinkRef) error {
	return d.objects.DeleteRecorded(k, func(e kernel.Entry) error {
		d.have.Forget(e.NS, k) // first, or we take the event for news
		err := d.remove(e)
		if err != nil && !kernel.IsGone(err) {
			d.note(e, nil)
		}
		return err
	})
}

// remove removes the filters of an entry, and the hook if we made it and nothing else is there.
func (d *mirror) remove(e kernel.Entry) error {
	hook, err := d.hook(kernel.LinkRef{NS: e.NS, Index: e.Index})
	if err != nil || hook == "" {
		return err
	}
	used := d.shared(e) || !d.madeHook(e) || hook != kernel.HookBoth
	for _, egress := range directions {
		if egress && hook == kernel.HookIngress {
			continue
		}
		mine, others, err := d.filters(e, egress)
		if err != nil {
			return err
		}
		used = used || others
		for _, f := range mine {
			if err := d.Kernel.DeleteFilter(e.NS, f); err != nil && !kernel.IsGone(err) {
				return err
			}
		}
	}
	if used {
		return nil
	}
	return d.Kernel.DeleteQdisc(e.NS, hookOf(e))
}

func (d *mirror) note(e kernel.Entry, to map[bool]int) {
	k := scheduler.Key(e.ID)
	d.have.Note(e.NS, k, held{key: k, index: e.Index, mark: e.Mark, to: to})
}

func (d *mirror) forget(e kernel.Entry) { d.have.Forget(e.NS, scheduler.Key(e.ID)) }
