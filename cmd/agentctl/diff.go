package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

func newDiff(c *cli) *cobra.Command {
	var from, to string
	cmd := &cobra.Command{
		Use:   "diff [KIND|KEY]…",
		Short: "Compare intent with the live host, or two times",
		Long: `Diff reads the live host and shows every key that is not as wanted, with the fields
that differ: what is wanted, then what is there. Nothing is changed.

It exits with 1 if something differs. Keys that are paused or invalid, or that a
policy of the agent lets others change, are shown and do not count.

With --from it shows what changed since then, or until --to, as far back as the
history of this run reaches.`,
		Example: `  agentctl diff
  agentctl diff interface route/default
  agentctl diff --from 10m`,
		ValidArgsFunction: c.keysAndKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			if from != "" {
				return c.changes(cmd, args, from, to)
			}
			if to != "" {
				return usage(cmd, "--to needs --from")
			}
			out, err := c.agent().Diff(cmd.Context(), &apiv1.DiffRequest{Targets: args})
			if err != nil {
				return err
			}
			err = c.show(answer{
				json:  jsonList(out.Differences),
				names: namesOf(out.Differences, (*apiv1.Difference).GetKey),
				table: func(w io.Writer, _ bool) { c.writeDiff(w, out.Differences) },
			})
			if err == nil && out.Outcome != "same" {
				err = differs
			}
			return err
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "what changed since a time in RFC 3339, or since so long ago, such as 10m")
	cmd.Flags().StringVar(&to, "to", "", "with --from: until when, instead of now")
	return cmd
}

// changes compares two times.
func (c *cli) changes(cmd *cobra.Command, args []string, from, to string) error {
	req := &apiv1.ChangesRequest{Targets: args}
	var err error
	if req.From, err = c.time(cmd, "from", from); err != nil {
		return err
	}
	if req.To, err = c.time(cmd, "to", to); err != nil {
		return err
	}
	out, err := c.agent().Changes(cmd.Context(), req)
	if err != nil {
		return err
	}
	err = c.show(answer{
		json:  jsonList(out.Changes),
		names: namesOf(out.Changes, (*apiv1.KeyChange).GetKey),
		table: func(w io.Writer, _ bool) {
			if len(out.Changes) == 0 {
				c.tell("no difference")
			}
			writeChanges(w, out.Changes, c.color)
		},
	})
	if err == nil && len(out.Changes) > 0 {
		err = differs
	}
	return err
}

// writeChanges shows what changed of keys, an aspect on each line.
func writeChanges(w io.Writer, all []*apiv1.KeyChange, color bool) {
	if len(all) == 0 {
		return
	}
	t := newTable("KEY", "TRANSACTION", "CHANGED", "BEFORE", "AFTER")
	for _, k := range all {
		key, seq := k.Key, fmt.Sprint(k.Seq)
		row := func(what, before, after string) {
			if before != after {
				t.add(key, seq, what, orDash(before), orDash(after))
				key, seq = "", ""
			}
		}
		b, a := k.GetBefore(), k.GetAfter()
		row("state", b.GetState(), a.GetState())
		row("origin", b.GetOrigin(), a.GetOrigin())
		row("desired", compact(b.GetDesired()), compact(a.GetDesired()))
		row("actual", compact(b.GetActual()), compact(a.GetActual()))
	}
	t.write(w, color)
}

func (c *cli) writeDiff(w io.Writer, all []*apiv1.Difference) {
	if len(all) == 0 {
		c.tell("no difference")
		return
	}
	t := newTable("KEY", "STATE", "REPAIR", "REASON")
	for _, d := range all {
		why := d.Reason
		if d.Excluded {
			why += " (not counted)"
		}
		t.add(d.Key, d.State, orDash(d.Op), why)
		for _, f := range d.Fields {
			t.add("  "+f.Field, "", "", "wanted "+compact(f.Desired)+", there "+compact(f.Actual))
		}
	}
	t.write(w, c.color)
}

func compact(v *structpb.Value) string {
	if v == nil {
		return "nothing"
	}
	return string(apiv1.JSON(v))
}
