package forward

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// retrieve reads the rules that the ledger names, and those that bear our mark.
func (d *forward) retrieve(ctx context.Context, s scope) iter.Seq2[found, error] {
	return func(yield func(found, error) bool) {
		reading := d.Owner.Reading()
		all, err := d.Firewalls.Firewalls(ctx, d.Kernel.Own())
		var gone []string
		for _, k := range d.keys(s, all) {
			if err != nil {
				if !yield(found{Key: k}, fmt.Errorf("read the firewalls: %w", err)) {
					return
				}
				continue
			}
			f, there := d.look(k, all)
			if !s.ReadOnly {
				d.hold(k, there)
			}
			if !there {
				gone = append(gone, string(k))
			} else if !yield(f, nil) {
				return
			}
		}
		if !s.ReadOnly {
			reading.Forget(gone...)
		}
	}
}

// keys are those to be read: what the ledger has, and what rules say by their marks.
func (d *forward) keys(s scope, all []kernel.Firewall) (keys []scheduler.Key) {
	if !s.All {
		return s.Keys
	}
	for _, e := range d.Owner.Entries(prefix) {
		keys = append(keys, scheduler.Key(e.ID))
	}
	for _, f := range all {
		for _, rules := range f.Chains {
			for _, r := range rules {
				if key, ours := d.Owner.MarkedKey(r.Comment()); ours && strings.HasPrefix(key, prefix) {
					keys = append(keys, scheduler.Key(key))
				}
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// look says what there is of a key. Without any firewall nothing is needed for all to pass.
func (d *forward) look(k scheduler.Key, all []kernel.Firewall) (f found, there bool) {
	f = found{Key: k, Value: &models.Forward{}}
	e, recorded := d.Owner.Entry(string(k))
	if !recorded {
		_, any := complete(all, d.mark(k), nil)
		return f, any
	}
	link := strings.TrimPrefix(e.Mark, d.mark(k)+" ")
	v, err := models.DecodeValue[*models.Forward](e.Value)
	whole, any := complete(all, d.mark(k), rules(link, d.mark(k)))
	if f.Meta = link; whole && err == nil {
		f.Value = v
	}
	return f, whole || any
}
