package owned

import (
	"iter"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/scheduler"
)

// Retrieve yields of what the ledger names within the scope what look finds. An entry of
// which the error of look says that its object is gone is forgotten, but not by a reading
// that is read-only, in which look takes note of nothing either. The namespace of the
// entry is open when look is called.
func (o *Objects[V, M]) Retrieve(s scheduler.Scope[V, M], look func(kernel.Entry) (V, M, error)) iter.Seq2[scheduler.Found[V, M], error] {
	return func(yield func(scheduler.Found[V, M], error) bool) {
		if !s.ReadOnly {
			o.Read()
		}
		reading := o.Owner.Reading()
		var forget []string
		for _, e := range o.entries(s) {
			f := scheduler.Found[V, M]{Key: scheduler.Key(e.ID)}
			_, err := e.Find(o.Kernel)
			if err == nil {
				f.Value, f.Meta, err = look(e)
			}
			if kernel.IsGone(err) {
				if !s.ReadOnly {
					o.gone(e)
					forget = append(forget, e.ID)
				}
				continue
			}
			if !yield(f, err) {
				return
			}
		}
		reading.Forget(forget...)
	}
}

// entries are what the ledger says of the keys in the scope.
func (o *Objects[V, M]) entries(s scheduler.Scope[V, M]) (list []kernel.Entry) {
	if s.All {
		return o.Owner.Entries(o.Kind + "/")
	}
	for _, k := range s.Keys {
		if e, ok := o.Owner.Entry(string(k)); ok {
			list = append(list, e)
		}
	}
	return list
}
