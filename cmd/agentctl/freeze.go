package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

func newFreeze(c *cli) *cobra.Command {
	var message string
	var d time.Duration
	cmd := &cobra.Command{
		Use:   "freeze -m TEXT",
		Short: "Hold everything: nothing is done to the network",
		Long: `Freeze holds every key: the agent keeps watching and says what it would do, and does
nothing to the network until unfreeze, or until the time is over. A restart of the agent
does not end it. Containers that a runtime wants to attach meanwhile have to wait.`,
		Example: `  agentctl freeze --for 1h -m "cabling in rack 7"
  agentctl unfreeze`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out, err := c.agent().Freeze(cmd.Context(), &apiv1.FreezeRequest{Message: message, For: duration(d)})
			if err != nil {
				return err
			}
			return c.show(answer{json: jsonObject(out), table: func(w io.Writer, _ bool) {
				fmt.Fprintf(w, "everything is frozen %s\n", untilWhen(out.Freeze))
			}})
		},
	}
	cmd.Flags().StringVarP(&message, "message", "m", "", "why, for whoever finds it (required)")
	cmd.Flags().DurationVar(&d, "for", 0, "how long, for example 1h; 0 is until unfreeze")
	return cmd
}

func untilWhen(f *apiv1.Freeze) string {
	if f.Until == nil {
		return "until `agentctl unfreeze`"
	}
	return "until " + clock(f.Until)
}

func newUnfreeze(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "unfreeze",
		Short:   "End a freeze",
		Long:    "Unfreeze ends a freeze: what has waited is done. It is an error if nothing is frozen.",
		Example: "  agentctl unfreeze",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out, err := c.agent().Unfreeze(cmd.Context(), &apiv1.UnfreezeRequest{})
			if err != nil {
				return err
			}
			return c.show(answer{json: jsonObject(out), table: func(w io.Writer, _ bool) {
				fmt.Fprintln(w, "the freeze is over")
			}})
		},
	}
}

func newRelease(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "release [ID]",
		Short: "Let go what is held back",
		Long: `When a change, or what a store lacks after a start, would remove more at once than may go
(see the policy deletions), none of it is removed, and "agentctl status" shows it as held.
Release lets it go, all or one by its ID. To keep it, write its keys again, or take the
change back with "agentctl undo".`,
		Example: "  agentctl status\n  agentctl release held-1",
		Args:    maxOneArg("ID of what is held back"),
		RunE: func(cmd *cobra.Command, args []string) error {
			out, err := c.agent().Release(cmd.Context(), &apiv1.ReleaseRequest{Id: first(args)})
			if err != nil {
				return err
			}
			return c.show(answer{json: jsonObject(out), names: namesOf(out.Released, (*apiv1.Held).GetId), table: func(w io.Writer, _ bool) {
				for _, h := range out.Released {
					fmt.Fprintf(w, "%s is released: %d keys\n", h.Id, h.Count)
				}
			}})
		},
	}
}

// writeHeld tells what holds the agent up.
func writeHeld(w io.Writer, s *apiv1.AgentStatusResponse) {
	if f := s.Freeze; f != nil {
		fmt.Fprintf(w, "frozen   %s, by %s, %s\n", f.Message, orDash(f.By), untilWhen(f))
	}
	for _, h := range s.Held {
		fmt.Fprintf(w, "held     %s: %s; `agentctl release %s`\n", h.Id, h.Reason, h.Id)
	}
}
