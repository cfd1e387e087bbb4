package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

func newDump(c *cli) *cobra.Command {
	var view string
	cmd := &cobra.Command{
		Use:   "dump [KIND|KEY]…",
		Short: "Show values with their metadata and origin",
		Long: `Dump shows values. --view chooses which:

  intent   what is wanted, and by whom
  actual   what is there, after a fresh look
  cached   both, as the agent believes without looking`,
		Example: `  agentctl dump
  agentctl dump interface --view actual -o yaml`,
		ValidArgsFunction: c.keysAndKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			if view != "intent" && view != "actual" && view != "cached" {
				return usage(cmd, "unknown view %q; there are intent, actual, cached", view)
			}
			done := c.downloading()
			out, err := c.agent().List(cmd.Context(), &apiv1.ListRequest{Targets: args, Fresh: view == "actual"})
			done()
			if err != nil {
				return err
			}
			return c.show(dumpAnswer(out.Keys, view))
		},
	}
	cmd.Flags().StringVar(&view, "view", "cached", "intent, actual or cached")
	cmd.RegisterFlagCompletionFunc("view", fixed("intent", "actual", "cached"))
	return cmd
}

// dumpAnswer keeps of each key what belongs to the view.
func dumpAnswer(keys []*apiv1.KeyStatus, view string) answer {
	kept := dumped(keys, view)
	return answer{
		json:  jsonList(kept),
		names: namesOf(kept, (*apiv1.KeyStatus).GetKey),
		table: func(w io.Writer, _ bool) {
			t := newTable("KEY", "ORIGIN", "VALUE", "METADATA")
			for _, k := range kept {
				v := k.Actual
				if v == nil {
					v = k.Desired
				}
				meta := ""
				if k.Metadata != nil {
					meta = compact(k.Metadata)
				}
				t.add(k.Key, orDash(k.Origin), compact(v), meta)
			}
			if len(kept) > 0 {
				t.write(w, false)
			}
		},
	}
}

func dumped(keys []*apiv1.KeyStatus, view string) []*apiv1.KeyStatus {
	var out []*apiv1.KeyStatus
	for _, k := range keys {
		d := &apiv1.KeyStatus{Key: k.Key, Kind: k.Kind, Name: k.Name, State: k.State, Origin: k.Origin, Base: k.Base}
		if view != "actual" {
			d.Desired = k.Desired
		}
		if view != "intent" {
			d.Actual, d.Metadata = k.Actual, k.Metadata
		}
		if d.Desired != nil || d.Actual != nil {
			out = append(out, d)
		}
		out = append(out, dumped(k.Derived, view)...)
	}
	return out
}
