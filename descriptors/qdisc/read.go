package qdisc

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

// retrieve reads the disciplines that the ledger names.
func (d *qdisc) retrieve(ctx context.Context, s scope) iter.Seq2[found, error] {
	dumps := owned.Dumps[map[int]kernel.Qdisc]{Read: d.roots}
	return d.objects.Retrieve(ctx, s, func(e kernel.Entry) (*models.Qdisc, kernel.LinkRef, error) {
		ref := kernel.LinkRef{NS: e.NS, Index: e.Index}
		all, err := dumps.Of(e.NS)
		if err != nil {
			return nil, ref, fmt.Errorf("read the queueing disciplines of its namespace: %w", err)
		}
		q, there := all[e.Index]
		if !there || !d.bears(e, q) {
			return nil, ref, kernel.ErrNotExist
		}
		like, err := models.DecodeValue[*models.Qdisc](e.Value)
		if err != nil {
			return nil, ref, err
		}
		if !s.ReadOnly {
			d.note(e.NS, held{scheduler.Key(e.ID), q, true})
		}
		v := value(q, like)
		v.Interface, v.Adopt = d.Owner.LinkName(d.Kernel, d.Names, ref), q.Handle != d.Owner.Handle()
		return v, ref, nil
	})
}

// watch turns the kernel's events into keys. Of what goes with its link nothing is told; who
// stands on that learns of it.
func (d *qdisc) watch(ctx context.Context, notify func(...scheduler.Key)) error {
	return d.objects.Follow(ctx, d.Kernel, d.heard, notify)
}

func (d *qdisc) heard(e kernel.Event) owned.News {
	switch {
	case e.Lost, e.Gone:
		return owned.NewsOf(d.keysIn(e.NS, e.Gone)...)
	case e.Qdisc != nil && !e.Qdisc.Hook():
		h, known := d.have.Get(e.NS, e.Qdisc.Index)
		if !known || !e.Deleted && h.there && h.qdisc.Same(*e.Qdisc) {
			return owned.News{}
		}
		h.there = false // until it is read
		d.note(e.NS, h)
		return owned.NewsOf(h.key)
	}
	return owned.News{}
}

// keysIn are the keys with a discipline in the namespace, sorted. If it is gone all are
// forgotten.
func (d *qdisc) keysIn(ns kernel.NS, gone bool) (keys []scheduler.Key) {
	for _, h := range d.have.Of(func(at kernel.NS) bool { return at == ns }, gone) {
		keys = append(keys, h.key)
	}
	slices.Sort(keys)
	return keys
}
