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
