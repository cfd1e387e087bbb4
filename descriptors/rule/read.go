package rule

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

// retrieve reads the rules that the ledger names. One that is there says what it was made
// to say, so its value is that of the ledger.
func (d *rule) retrieve(ctx context.Context, s scope) iter.Seq2[found, error] {
	dumps := owned.Dumps[map[string][]uint8]{Read: d.makers}
	return d.objects.Retrieve(ctx, s, func(e kernel.Entry) (*models.Rule, kernel.LinkRef, error) {
		ref := kernel.LinkRef{NS: e.NS}
		all, err := dumps.Of(e.NS)
		if err != nil {
			return nil, ref, fmt.Errorf("read the rules of its namespace: %w", err)
		}
		other, taken := d.have.Get(e.NS, e.Mark)
		there := slices.ContainsFunc(all[e.Mark], func(by uint8) bool { return d.Owner.Bears(e, by) })
		if !there || taken && other != scheduler.Key(e.ID) && d.Wanted != nil && d.Wanted(other) {
			return nil, ref, kernel.ErrNotExist
		}
		v, err := models.DecodeValue[*models.Rule](e.Value)
		if err != nil {
			return nil, ref, err
		}
		_, v.Adopt = e.TakenOver()
		if !s.ReadOnly {
			d.have.Note(e.NS, e.Mark, scheduler.Key(e.ID))
		}
		return v, ref, nil
	})
}

// makers are the protocol numbers of the rules of a namespace, by what they say.
func (d *rule) makers(ns kernel.NS) (map[string][]uint8, error) {
	all, err := d.Kernel.Rules(ns)
	by := map[string][]uint8{}
	for _, r := range all {
		if !r.More {
			by[text(r)] = append(by[text(r)], r.Protocol)
		}
	}
	return by, err
}

// watch turns the kernel's events into keys: a rule that was ours and went, or came back.
func (d *rule) watch(ctx context.Context, notify func(...scheduler.Key)) error {
	return d.objects.Follow(ctx, d.Kernel, d.heard, notify)
}

func (d *rule) heard(e kernel.Event) owned.News {
	switch {
	case e.Lost, e.Gone:
		keys := d.have.Of(func(ns kernel.NS) bool { return ns == e.NS }, e.Gone)
		slices.Sort(keys)
		return owned.NewsOf(keys...)
	case e.Rule != nil && (e.Deleted || e.Rule.Protocol != d.Owner.Protocol()):
		if k, known := d.have.Get(e.NS, text(*e.Rule)); known {
			return owned.NewsOf(k)
		}
	}
	return owned.News{}
}
