package nftables

import (
	"context"
	"fmt"
	"iter"
	"reflect"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// retrieve reads the tables that the ledger names.
func (d *nftables) retrieve(ctx context.Context, s scope) iter.Seq2[found, error] {
	return d.objects.Retrieve(s, func(e kernel.Entry) (*models.Nftables, kernel.NS, error) {
		m, v, err := recorded(e)
		if err != nil {
			return nil, 0, fmt.Errorf("read the ledger: %w", err)
		}
		if !s.ReadOnly {
			d.see(e.NS, scheduler.Key(e.ID)) // before it is read: what happens meanwhile is news
		}
		t, err := d.table(ctx, e, v)
		return d.value(m, v, t), e.NS, err
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
