package nftables

import (
	"context"
	"errors"
	"fmt"
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
	// undo has the ledger say what it said before, if the table comes to nothing.
	undo func() error
}

// replace writes the table in place of the one that is there, and reads it. If nothing but
// elements is different only these are written, so that what packets have put into other
// sets stays, and what counters have counted.
func (w writing) replace(ctx context.Context, now kernel.Table, before kernel.Entry) (kernel.Table, error) {
	m, v, err := recorded(before)
	if err != nil || m.Read == nil {
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
	// What somebody else has changed meanwhile must not be taken for ours.
	changed, only := elementsDiffer(*m.Read, read)
	if !only || slices.ContainsFunc(changed, func(name string) bool { return !slices.Contains(names, name) }) {
		return w.whole(ctx, w.Tables.ReplaceTable)
	}
	return read, nil
}

// whole writes the table by write, and reads it.
func (w writing) whole(ctx context.Context, write func(context.Context, kernel.NS, kernel.Table) error) (kernel.Table, error) {
	err := w.change(w.ns, func() error { return write(ctx, w.ns, w.table) })
	if err != nil {
		return kernel.Table{}, errors.Join(explain(w.table, err), w.undo())
	}
	if err := w.Owner.Hit("nftables/made"); err != nil {
		return kernel.Table{}, err
	}
	read, err := w.Tables.Table(ctx, w.ns, w.table.Family, w.table.Name)
	if err != nil {
		return read, fmt.Errorf("read it back: %w", err)
	}
	return read, nil
}

// refusal is an error of what was understood: the kernel did not do it now.
type refusal interface{ Refused() bool }

// explain blames the value for what nft does not understand; what the kernel refuses
// may do another time.
func explain(t kernel.Table, err error) error {
	var wrong *kernel.TextError
	if !errors.As(err, &wrong) {
		return fmt.Errorf("table %s %s: %w", t.Family, t.Name, err)
	}
	text := wrong.Err.Error()
	if wrong.Text != "" {
		text = wrong.Text + ": " + text
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
