package nftables

import (
	"context"
	"fmt"
	"iter"
	"reflect"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// retrieve reads the tables that the ledger names.
func (d *nftables) retrieve(ctx context.Context, s scope) iter.Seq2[found, error] {
	return d.objects.Retrieve(ctx, s, func(e kernel.Entry) (*models.Nftables, kernel.NS, error) {
		m, v, err := recorded(e)
		if err != nil {
			return nil, 0, fmt.Errorf("read the ledger: %w", err)
		}
		if !s.ReadOnly { // before it is read: what happens meanwhile is news
			if err := d.see(e.NS, scheduler.Key(e.ID)); err != nil {
				return nil, 0, err
			}
		}
		names, err := d.leads(v, e.NS)
		if err != nil {
			return nil, 0, err
		}
		t, err := d.table(ctx, e, v)
		value := d.value(m, v, t)
		if err == nil && m.Read != nil && m.Led != names.text() {
			value = stale(value, names)
		}
		if !s.ReadOnly {
			d.noteNames(scheduler.Key(e.ID), names)
		}
		return value, e.NS, err
	})
}

// table reads the table of an entry. One that does not bear our mark is not ours any more.
func (d *nftables) table(ctx context.Context, e kernel.Entry, v *models.Nftables) (kernel.Table, error) {
	t, err := d.Tables.Table(ctx, e.NS, v.EffectiveFamily(), v.EffectiveTable(e.ID))
	if err == nil && t.Comment != e.Mark {
		err = fmt.Errorf("%w: the table %s %s is not ours any more", kernel.ErrNotExist, t.Family, t.Name)
	}
	return t, err
}

// value is a table as a value: what is in it is as it was asked while it is as it was then
// read. A claim that holds another address by now shows as the one that is in the rules.
func (d *nftables) value(m made, v *models.Nftables, t kernel.Table) *models.Nftables {
	asked := v.Claimed(func(claim string) string {
		if now := d.address(claim); now != "" && now != m.Claims[claim] {
			return m.Claims[claim]
		}
		return ""
	})
	switch {
	case m.Read == nil:
		return valueOf(t, v, m)
	case reflect.DeepEqual(*m.Read, t):
		return asked
	}
	now, read := valueOf(t, v, m), valueOf(*m.Read, v, m)
	now.Chains = asAsked(now.Chains, read.Chains, asked.Chains)
	now.Sets = asAsked(now.Sets, read.Sets, asked.Sets)
	now.Maps = asAsked(now.Maps, read.Maps, asked.Maps)
	now.Flowtables = asAsked(now.Flowtables, read.Flowtables, asked.Flowtables)
	return now
}

// asAsked has what is still as it was read stand as it was asked.
func asAsked[T content](now, read, asked []T) []T {
	for i, t := range now {
		was, a := find(read, t.GetName()), find(asked, t.GetName())
		if was >= 0 && a >= 0 && proto.Equal(read[was], t) {
			now[i] = asked[a]
		}
	}
	return now
}
