package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

// ignored is the grade of drift that is as it may be.
const ignored = "ignore"

func newDrift(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "drift [KIND|KEY]…",
		Short: "Show what on the host is not Plumb's doing, with grades",
		Long: `Drift reads the live host, as diff does, and shows where it is not as the intent and
the agent would have it, each with a grade. Nothing is changed, recorded or repaired.

  repair   it differs, or is ours and not in the intent: it is repaired as soon as the
           agent notices it, or at the next try
  alert    it differs and is left so, by the policy drift=alert or by a pause
  ignore   it differs and is left so, by the policy drift=ignore
  foreign  somebody else's object is where one of the intent belongs, or was put
           into what is ours; the owner says whose, as far as it can be told

What was never built, since it waits for its needs, is invalid or cannot be made, is
no drift: diff shows it. Nor is what others have beside what is ours. -o wide has the
fields that differ.

It exits with 1 if there is drift of another grade than ignore, and with 2 if there
is something that could not be read.`,
		Example: `  agentctl drift
  agentctl drift interface route/default
  agentctl drift -o json`,
		ValidArgsFunction: c.keysAndKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			out, err := c.agent().Diff(cmd.Context(), &apiv1.DiffRequest{Targets: args})
			if err != nil {
				return err
			}
			found := slices.DeleteFunc(slices.Clone(out.Differences), func(d *apiv1.Difference) bool { return d.Grade == "" })
			for _, d := range found {
				d.Excluded = false // that is of diff: here the grade says it
			}
			missing := unread(out.Differences)
			err = c.show(answer{
				json:  jsonList(found),
				names: namesOf(found, (*apiv1.Difference).GetKey),
				table: func(w io.Writer, wide bool) {
					if len(found) == 0 && missing == nil {
						c.tell("no drift")
					}
					writeDrift(w, wide, found, c.color)
				},
			})
			if err == nil {
				err = missing
			}
			if err == nil && slices.ContainsFunc(found, func(d *apiv1.Difference) bool { return d.Grade != ignored }) {
				err = differs
			}
			return err
		},
	}
}

// unread is an error if of some keys nobody can say whether they have drifted.
func unread(all []*apiv1.Difference) error {
	var first *apiv1.Difference
	n := 0
	for _, d := range all {
		if d.Grade == "" && d.State == "unknown" {
			if n++; first == nil {
				first = d
			}
		}
	}
	switch n {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("%s could not be read: %s", first.Key, first.Reason)
	}
	return fmt.Errorf("%d keys could not be read, the first is %s: %s", n, first.Key, first.Reason)
}

func writeDrift(w io.Writer, wide bool, all []*apiv1.Difference, color bool) {
	if len(all) == 0 {
		return
	}
	t := newTable("GRADE", "KEY", "REASON")
	if wide {
		t = newTable("GRADE", "KEY", "STATE", "REPAIR", "OWNER", "REASON")
	}
	for _, d := range all {
		if !wide {
			t.add(d.Grade, d.Key, d.Reason)
			continue
		}
		t.add(d.Grade, d.Key, d.State, orDash(d.Op), orDash(d.Owner), d.Reason)
		for _, f := range d.Fields {
			t.add("", "  "+f.Field, "", "", "", "wanted "+compact(f.Desired)+", there "+compact(f.Actual))
		}
	}
	t.write(w, color)
}
