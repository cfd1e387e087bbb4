package nftables

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// made is what the ledger keeps of a table.
type made struct {
	Value json.RawMessage `json:"value"`
	// Claims are the addresses that stand in the rules.
	Claims map[string]string `json:"claims,omitempty"`
	// Read is the table as it was read right after it was written; nil until then.
	Read *kernel.Table `json:"read,omitempty"`
}

func (m made) entry(k scheduler.Key, at selector.Place, mark string) kernel.Entry {
	value, _ := json.Marshal(m) // plain texts never fail
	return kernel.Entry{ID: string(k), NS: at.NS, NSPath: at.Path, Value: value, Mark: mark}
}

// recorded is what the ledger says of a table.
func recorded(e kernel.Entry) (m made, v *models.Nftables, err error) {
	if err = json.Unmarshal(e.Value, &m); err == nil {
		v, err = models.DecodeValue[*models.Nftables](m.Value)
	}
	return m, v, err
}

func (d *nftables) prepare(ctx context.Context, o *op) (job owned.Job[kernel.NS], err error) {
	k, v := o.Key, o.Value
	at, err := d.Places.Resolve(ctx, v.GetNamespace())
	if err != nil {
		return job, err
	}
	m := made{Value: models.Encode(v), Claims: map[string]string{}}
	for _, claim := range v.Claims() {
		if m.Claims[claim] = d.address(claim); m.Claims[claim] == "" {
			return job, fmt.Errorf("%s holds no address", models.IPClaimKey(claim))
		}
	}
	t := d.tableOf(k, v.Claimed(func(claim string) string { return m.Claims[claim] }))
	before, had := d.Owner.Entry(string(k))
	there, err := d.stands(ctx, at.NS, k, t)
	if err != nil {
		return job, err
	}
	return owned.Job[kernel.NS]{Entries: []kernel.Entry{m.entry(k, at, t.Comment)}, Make: func() (kernel.NS, error) {
		write := d.Tables.CreateTable
		if there {
			write = d.Tables.ReplaceTable
		}
		if err := write(ctx, at.NS, t); err != nil {
			return 0, errors.Join(explain(t, err), d.unmade(k, before, had))
		}
		d.see(at.NS, k)
		if err := d.Owner.Hit("nftables/made"); err != nil {
			return 0, err
		}
		now, err := d.Tables.Table(ctx, at.NS, t.Family, t.Name)
		if err != nil {
			return 0, fmt.Errorf("read it back: %w", err)
		}
		m.Read = &now
		return at.NS, d.Owner.Record(m.entry(k, at, t.Comment))
	}}, nil
}

// unmade has the ledger say what it said before a table that came to nothing.
func (d *nftables) unmade(k scheduler.Key, before kernel.Entry, had bool) error {
	if had {
		return d.Owner.Record(before)
	}
	d.Owner.Remove(string(k))
	return nil
}

// address is what a claim holds, without a length; "" if nothing.
func (d *nftables) address(claim string) string {
	p, err := kind.Held(d.Claims, claim)
	if err != nil {
		return ""
	}
	return p.Addr().String()
}

// stands reports whether there is a table of ours already; one of others is in the way.
func (d *nftables) stands(ctx context.Context, ns kernel.NS, k scheduler.Key, t kernel.Table) (bool, error) {
	now, err := d.Tables.Table(ctx, ns, t.Family, t.Name)
	switch {
	case errors.Is(err, kernel.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case now.Comment == t.Comment:
		return true, nil
	}
	if key, ours := d.Owner.MarkedKey(now.Comment); ours && key != "" && key != string(k) {
		return false, scheduler.Blocked(scheduler.Key(key), fmt.Errorf("the table %s %s is in use by %s", t.Family, t.Name, key))
	}
	return false, scheduler.Conflict("somebody else", fmt.Errorf(
		"there is a table %s %s already, which is not of this key; choose another name, or remove it", t.Family, t.Name))
}

func (d *nftables) delete(ctx context.Context, k scheduler.Key, _ *models.Nftables, _ kernel.NS) error {
	return d.objects.DeleteRecorded(k, func(e kernel.Entry) error {
		_, v, err := recorded(e)
		if err != nil {
			return err
		}
		t, err := d.table(ctx, e, v)
		if err == nil {
			err = d.Tables.DeleteTable(ctx, e.NS, t.Family, t.Name)
		}
		return err
	})
}

// refusal is an error of what was understood: the kernel did not do it now.
type refusal interface{ Refused() bool }

// explain blames the value for what nft does not understand; what the kernel refuses
// may do another time.
func explain(t kernel.Table, err error) error {
	var wrong *kernel.RuleError
	if !errors.As(err, &wrong) {
		return fmt.Errorf("table %s %s: %w", t.Family, t.Name, err)
	}
	text := wrong.Err.Error()
	if wrong.Rule >= 0 {
		text = fmt.Sprintf("%s: %s", t.Chains[wrong.Chain].Rules[wrong.Rule], text)
	}
	var r refusal
	if errors.As(err, &r) && r.Refused() {
		return fmt.Errorf("%s: %s", wrong.Field(), text)
	}
	return scheduler.Invalid(wrong.Field(), "%s", text)
}
