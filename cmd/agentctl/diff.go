package main

import (
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

func newDiff(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "diff [KIND|KEY]…",
		Short: "Compare intent with the live host",
		Long: `Diff reads the world and shows every key that is not as wanted, with the fields
that differ: what is wanted, then what is there. Nothing is changed.

It exits with 1 if something differs. Keys that are paused or invalid are shown
and do not count.`,
		Example: `  agentctl diff
  agentctl diff interface route/default`,
		ValidArgsFunction: c.keysAndKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
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
