package owned

import (
	"context"
	"iter"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/scheduler"
)

// Retrieve yields of what the ledger names within the scope what look finds. An entry of
// which the error of look says that its object is gone is forgotten, but not by a reading
// that is read-only, in which look takes note of nothing either. The namespace of the
// entry is open when look is called.
//
// What a wanted value takes over is found like what the ledger names, and is in it afterwards.
func (o *Objects[V, M]) Retrieve(ctx context.Context, s scheduler.Scope[V, M], look func(kernel.Entry) (V, M, error)) iter.Seq2[scheduler.Found[V, M], error] {
	return func(yield func(scheduler.Found[V, M], error) bool) {
		if !s.ReadOnly {
			o.Read()
		}
		reading := o.Owner.Reading()
		var forget []string
		for _, e := range append(o.entries(s), o.standing(ctx, s)...) {
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

// standing are the entries of what wanted values of the scope take over.
func (o *Objects[V, M]) standing(ctx context.Context, s scheduler.Scope[V, M]) (list []kernel.Entry) {
	if o.Standing == nil {
		return nil
	}
	for _, kn := range s.Known {
		if _, recorded := o.Owner.Entry(string(kn.Key)); recorded || kn.InPlace {
			continue
		}
		e, there := o.Standing(ctx, kn.Key, kn.Value)
		if there && (s.ReadOnly || o.Owner.Record(e) == nil) {
			list = append(list, e)
		}
	}
	return list
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
