package nftables

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/scheduler"
)

// writing is a table that is to be written.
type writing struct {
	*nftables

	key   scheduler.Key
	ns    kernel.NS
	table kernel.Table
	// led is what the names in it lead to.
	led string
	// undo has the ledger say what it said before, if the table comes to nothing.
	undo func() error
}

// replace writes the table in place of the one that is there, and reads it. If nothing but
// elements is different only these are written, so that what packets have put into other
// sets stays, and what counters have counted.
func (w writing) replace(ctx context.Context, now kernel.Table, before kernel.Entry) (kernel.Table, error) {
	m, v, err := recorded(before)
	if err != nil || m.Read == nil || m.Led != w.led {
		return w.whole(ctx, w.Tables.ReplaceTable)
	}
	asked, onlyAsked := elementsDiffer(w.tableOf(w.key, v, m), w.table)
	moved, onlyMoved := elementsDiffer(*m.Read, now)
	names := slices.Concat(asked, moved)
	if !onlyAsked || !onlyMoved || len(names) == 0 {
		return w.whole(ctx, w.Tables.ReplaceTable)
	}
	read, err := w.whole(ctx, func(ctx context.Context, ns kernel.NS, t kernel.Table) error {
		return w.Tables.ReplaceElements(ctx, ns, t, names)
	})
	if err != nil {
		return read, err
	}
	// Nor is what somebody else has changed before elements were written taken for ours.
	changed, only := elementsDiffer(*m.Read, read)
	if !only || slices.ContainsFunc(changed, func(name string) bool { return !slices.Contains(names, name) }) {
		return w.whole(ctx, w.Tables.ReplaceTable)
	}
	return read, nil
}

// writeTries is how often a table is written whose reading somebody else crosses.
const writeTries = 5

// whole writes the table by write, and reads it. What is read counts as ours if nobody else
// has changed any table of the namespace meanwhile. Else all of it is written once more, and
// counts if it then reads the same: what somebody else does to other tables is no matter.
func (w writing) whole(ctx context.Context, write func(context.Context, kernel.NS, kernel.Table) error) (kernel.Table, error) {
	var last kernel.Table
	for try := range writeTries {
		before, err := w.byOthers(w.ns)
		if err == nil {
			err = explain(w.table, w.change(w.ns, func() error { return write(ctx, w.ns, w.table) }))
		}
		switch {
		case err != nil && try == 0:
			return kernel.Table{}, errors.Join(err, w.undo())
		case err != nil: // what was written before stands
			return kernel.Table{}, err
		}
		if err := w.Owner.Hit("nftables/made"); err != nil {
			return kernel.Table{}, err
		}
		read, err := w.Tables.Table(ctx, w.ns, w.table.Family, w.table.Name)
		var now uint32
		if err == nil {
			now, err = w.byOthers(w.ns)
		}
		switch {
		case err == nil && (now == before || try > 0 && reflect.DeepEqual(read, last)):
			return read, nil
		case err != nil && !errors.Is(err, kernel.ErrNotExist): // or somebody has removed it
			return read, fmt.Errorf("read it back: %w", err)
		}
		last, write = read, w.Tables.ReplaceTable
	}
	return kernel.Table{}, fmt.Errorf("table %s %s: somebody else changes it faster than it can be read back; find out who (nft monitor)",
		w.table.Family, w.table.Name)
}

// refusal is an error of what was understood: the kernel did not do it now.
type refusal interface{ Refused() bool }

// explain blames the value for what nft does not understand; what the kernel refuses
// may do another time.
func explain(t kernel.Table, err error) error {
	if err == nil {
		return nil
	}
	var wrong *kernel.TextError
	if !errors.As(err, &wrong) {
		return fmt.Errorf("table %s %s: %w", t.Family, t.Name, err)
	}
	text := wrong.Err.Error()
	if wrong.Text != "" {
		text = wrong.Text + ": " + text
	}
	if isUnresolved(wrong.Err.Error()) {
		return fmt.Errorf("%s: %s; iifname and oifname need no link, user and group IDs no name", wrong.Field, text)
	}
	var r refusal
	if errors.As(err, &r) && r.Refused() {
		if strings.HasPrefix(wrong.Field, "flowtables") && errors.Is(err, kernel.ErrNotExist) {
			text += "; does this kernel have flowtables (nf_flow_table, nft_flow_offload)?"
		}
		return fmt.Errorf("%s: %s", wrong.Field, text)
	}
	return scheduler.Invalid(wrong.Field, "%s", text)
}
