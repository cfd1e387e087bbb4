package sysctl

import (
	"context"
	"fmt"
	"iter"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/scheduler"
)

// retrieve reads the settings that the ledger names.
func (d *sysctl) retrieve(_ context.Context, s scope) iter.Seq2[found, error] {
	return func(yield func(found, error) bool) {
		reading := d.Owner.Reading()
		var gone []string
		for _, e := range d.entries(s) {
			f, err := d.look(e)
			if kernel.IsGone(err) {
				d.forget(f.Key)
				gone = append(gone, e.ID)
				continue
			}
			if !yield(f, err) {
				return
			}
		}
		reading.Forget(gone...)
	}
}

func (d *sysctl) entries(s scope) []kernel.Entry {
	if s.All {
		return d.Owner.Entries(prefix)
	}
	var list []kernel.Entry
	for _, k := range s.Keys {
		if e, ok := d.Owner.Entry(string(k)); ok {
			list = append(list, e)
		}
	}
	return list
}

func (d *sysctl) look(e kernel.Entry) (f found, err error) {
	f.Key = scheduler.Key(e.ID)
	at, v, err := d.entry(e)
	if err != nil {
		return f, err
	}
	value, err := d.get(at, v)
	if err != nil {
		return f, fmt.Errorf("read %s: %w", v.GetKey(), err)
	}
	f.Value, f.Meta = as(v, value), at
	d.note(f.Key, at, f.Value)
	return f, nil
}
