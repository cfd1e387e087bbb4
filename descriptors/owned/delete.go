package owned

import (
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/scheduler"
)

// Delete removes objects by act, and forgets them.
func (o *Objects[V, M]) Delete(act func() error, keys ...scheduler.Key) error {
	ids := make([]string, len(keys))
	for i, k := range keys {
		ids[i] = string(k)
	}
	defer o.Owner.Begin(ids...)()
	if err := act(); err != nil {
		return err
	}
	if err := o.Owner.Hit(o.Kind + "/deleted"); err != nil {
		return err
	}
	o.Owner.Remove(ids...)
	return nil
}

// DeleteBatch removes the objects of many operations by act, which says in each what came of
// it, and forgets those that are gone with one write to the ledger.
func (o *Objects[V, M]) DeleteBatch(ops []*scheduler.Op[V, M], act func()) {
	ids := make([]string, len(ops))
	for i, op := range ops {
		ids[i] = string(op.Key)
	}
	defer o.Owner.Begin(ids...)()
	act()
	var gone []string
	for _, op := range ops {
		if op.Err == nil {
			op.Err = o.Owner.Hit(o.Kind + "/deleted")
		}
		if op.Err == nil {
			gone = append(gone, string(op.Key))
		}
	}
	o.Owner.Remove(gone...)
}

// DeleteRecorded removes the object of a key that the ledger names by act, and forgets
// it. What is not in the ledger is not ours and stays; what has gone, or is in a
// namespace that has, needs no act.
func (o *Objects[V, M]) DeleteRecorded(k scheduler.Key, act func(kernel.Entry) error) error {
	return o.Delete(func() error {
		e, ours := o.Owner.Entry(string(k))
		if !ours {
			return nil
		}
		_, err := e.Find(o.Kernel)
		if err == nil {
			err = act(e)
		}
		if err != nil && !kernel.IsGone(err) {
			return err
		}
		o.gone(e)
		return nil
	}, k)
}

// GivesBack reports whether the ledger has the object of a key as taken over. Descriptors use it if their
// Delete leaves such an object in place.
func (o *Objects[V, M]) GivesBack(k scheduler.Key, _ V, _ M) bool {
	e, recorded := o.Owner.Entry(string(k))
	_, taken := e.TakenOver()
	return recorded && (taken || e.Adopted())
}
