package nftables

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// retrieve reads the tables that the ledger names.
func (d *nftables) retrieve(ctx context.Context, s scope) iter.Seq2[found, error] {
	return func(yield func(found, error) bool) {
		reading := d.Owner.Reading()
		var gone []string
		for _, e := range d.entries(s) {
			f, there, err := d.look(ctx, e)
			if !there && err == nil {
				d.forget(e.NS, f.Key)
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

func (d *nftables) entries(s scope) []kernel.Entry {
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

// look reads a table. One that does not bear our mark is not ours any more.
func (d *nftables) look(ctx context.Context, e kernel.Entry) (f found, there bool, err error) {
	f.Key = scheduler.Key(e.ID)
	ns, err := e.Find(d.Kernel)
	if errors.Is(err, kernel.ErrNoNamespace) {
		return f, false, nil
	}
	if err != nil {
		return f, false, err
	}
	m, v, err := recorded(e)
	if err != nil {
		return f, false, fmt.Errorf("read the ledger: %w", err)
	}
	d.see(ns, f.Key) // before it is read: what happens meanwhile is news
	t, err := d.Tables.Table(ctx, ns, v.EffectiveFamily(), v.EffectiveTable(e.ID))
	if kernel.IsGone(err) || err == nil && t.Comment != e.Mark {
		return f, false, nil
	}
	if err != nil {
		return f, false, err
	}
	f.Value, f.Meta = d.value(m, v, t), ns
	return f, true, nil
}

// value is a table as a value: as it was asked while it is as it was then read. A
// claim that holds another address by now shows as the one that is in the rules.
func (d *nftables) value(m made, v *models.Nftables, t kernel.Table) *models.Nftables {
	if m.Read == nil || !reflect.DeepEqual(*m.Read, t) {
		return valueOf(t, v)
	}
	return v.Claimed(func(claim string) string {
		if now := d.address(claim); now != "" && now != m.Claims[claim] {
			return m.Claims[claim]
		}
		return ""
	})
}
