package nftables

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

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
	// Claims are the addresses that stand in the rules, Devices the names of the links
	// of interfaces.
	Claims  map[string]string `json:"claims,omitempty"`
	Devices map[string]string `json:"devices,omitempty"`
	// Led is what the names led to that nft has resolved; "" if there are none, and of
	// tables that earlier releases wrote.
	Led string `json:"led,omitempty"`
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
	if m.Devices, err = d.links(v.Devices(), at.NS); err != nil {
		return job, err
	}
	names, err := d.leads(v, at.NS)
	if err != nil {
		return job, err
	}
	m.Led = names.text()
	t := d.tableOf(k, v, m)
	before, had := d.Owner.Entry(string(k))
	now, there, err := d.stands(ctx, at.NS, k, t)
	if err != nil {
		return job, err
	}
	return owned.Job[kernel.NS]{Entries: []kernel.Entry{m.entry(k, at, t.Comment)}, Make: func() (kernel.NS, error) {
		w := writing{d, k, at.NS, t, m.Led, func() error { return d.unmade(m.entry(k, at, t.Comment), before, had) }}
		if err := d.see(at.NS, k); err != nil {
			return 0, errors.Join(err, w.undo())
		}
		d.noteNames(k, names) // from now on the events of links are heard
		var read kernel.Table
		if there {
			read, err = w.replace(ctx, now, before)
		} else {
			read, err = w.whole(ctx, d.Tables.CreateTable)
		}
		if err != nil {
			return 0, err
		}
		m.Read = &read
		return at.NS, errors.Join(d.Owner.Record(m.entry(k, at, t.Comment)), d.forgetFlows(at.NS, now, read))
	}}, nil
}

// links are the names in the kernel of the links of interfaces, which are in the
// namespace of the table.
func (d *nftables) links(devices []string, ns kernel.NS) (map[string]string, error) {
	links := map[string]string{}
	for _, name := range devices {
		ref, err := kind.LinkOf(d.Interfaces, name)
		if err != nil {
			return nil, err
		}
		key := scheduler.Key(models.InterfaceKey(name))
		if ref.NS != ns {
			return nil, scheduler.Blocked(key, fmt.Errorf("%s lives in another namespace than the table", key))
		}
		l, err := d.Kernel.LinkByIndex(ref.NS, ref.Index)
		if err != nil {
			return nil, err
		}
		if strings.ContainsAny(l.Name, `"\`) {
			return nil, scheduler.Blocked(key, fmt.Errorf("the link of %s has the name %s, which nft cannot read; rename it", key, l.Name))
		}
		links[name] = l.Name
	}
	return links, nil
}

// unmade has the ledger say what it said before a table that came to nothing.
func (d *nftables) unmade(e, before kernel.Entry, had bool) error {
	if had {
		return d.Owner.Record(before)
	}
	d.forget(e)
	d.Owner.Remove(e.ID)
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

// stands reads the table of ours that there is already; one of others is in the way.
func (d *nftables) stands(ctx context.Context, ns kernel.NS, k scheduler.Key, t kernel.Table) (now kernel.Table, there bool, err error) {
	now, err = d.Tables.Table(ctx, ns, t.Family, t.Name)
	switch {
	case errors.Is(err, kernel.ErrNotExist):
		return now, false, nil
	case errors.As(err, new(*kernel.TextError)):
		return now, false, explain(t, err)
	case err != nil:
		return now, false, err
	case now.Comment == t.Comment:
		return now, true, nil
	}
	if key, ours := d.Owner.MarkedKey(now.Comment); ours && key != "" && key != string(k) {
		return now, false, scheduler.Blocked(scheduler.Key(key), fmt.Errorf("the table %s %s is in use by %s", t.Family, t.Name, key))
	}
	return now, false, scheduler.Conflict("somebody else", fmt.Errorf(
		"there is a table %s %s already, which is not of this key; choose another name, or remove it", t.Family, t.Name))
}

func (d *nftables) delete(ctx context.Context, k scheduler.Key, _ *models.Nftables, _ kernel.NS) error {
	return d.objects.DeleteRecorded(k, func(e kernel.Entry) error {
		m, v, err := recorded(e)
		if err != nil {
			return err
		}
		t, err := d.table(ctx, e, v)
		if err == nil {
			err = d.change(e.NS, func() error { return d.Tables.DeleteTable(ctx, e.NS, t.Family, t.Name) })
		}
		if err == nil && m.Read != nil {
			err = d.forgetFlows(e.NS, *m.Read, kernel.Table{})
		}
		return err
	})
}
