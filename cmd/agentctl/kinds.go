package main

import (
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

func newKinds(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "kinds",
		Short: "List what can be wanted, and what is observed",
		Long: `Kinds lists the kinds of things that keys name, what the agent can do with each,
and which of them this agent cannot do.`,
		Example: `  agentctl kinds
  agentctl kinds -o name`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out, err := c.agent().Kinds(cmd.Context(), &apiv1.KindsRequest{})
			if err != nil {
				return err
			}
			return c.show(answer{
				json:  jsonList(out.Kinds),
				names: namesOf(out.Kinds, (*apiv1.Kind).GetName),
				table: func(w io.Writer, _ bool) {
					t := newTable("KIND", "KEYS", "USE", "CHANGES", "DRIFT SEEN", "NOTES")
					for _, k := range out.Kinds {
						t.add(k.Name, k.Prefix+"<name>", use(k), changes(k), driftSeen(k), k.Unread)
					}
					t.write(w, c.color)
				},
			})
		},
	}
}

// changes says how another value takes the place of one.
func changes(k *apiv1.Kind) string {
	switch {
	case k.Unimplemented || !k.Writable:
		return "-"
	case slices.Contains(k.Capabilities, "update"):
		return "in place where possible"
	}
	return "made anew"
}

// driftSeen says when it is noticed that somebody else changed something.
func driftSeen(k *apiv1.Kind) string {
	switch {
	case k.Unimplemented:
		return "-"
	case slices.Contains(k.Capabilities, "watch"):
		return "at once"
	}
	return "when read"
}

func use(k *apiv1.Kind) string {
	switch {
	case k.Unimplemented:
		return "unimplemented"
	case k.Writable:
		return "wanted"
	case k.Observed:
		return "observed"
	}
	return "derived"
}
