package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

func newWait(c *cli) *cobra.Command {
	var req apiv1.WaitRequest
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait KEY…|--all",
		Short: "Block until keys are as asked",
		Long: `Wait blocks until all the keys are configured, settled or gone, and then shows
them. It follows the statuses and does not poll. A key that is not in the intent
yet is waited for. --all waits for every key that is there; what is paused does not
count.

settled means that a key stands as it is until something new comes in:
configured, pending, failed, invalid. It exits with 1 if the timeout passes.`,
		Example: `  agentctl wait interface/web route/default --timeout 30s
  agentctl wait --all --for settled
  agentctl wait interface/old --for gone`,
		Args: func(cmd *cobra.Command, args []string) error {
			if req.All == (len(args) > 0) {
				return usage(cmd, "name the keys to wait for, or --all")
			}
			return nil
		},
		ValidArgsFunction: c.keysAndKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			req.Keys, req.Timeout, req.NoValues = args, duration(timeout), c.noValues()
			done := c.progress(cmd.Context(), awaited{goal: req.For, keys: args})
			out, err := c.agent().Wait(cmd.Context(), &req)
			done()
			if err != nil {
				return err
			}
			if err := c.show(c.keysAnswer(out.Keys)); err != nil {
				return err
			}
			if out.Outcome != "met" {
				c.notes(out.Notes)
				c.tell("timed out after %s: not all keys are %s", timeout, req.For)
				return differs
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&req.All, "all", false, "wait for every key")
	cmd.Flags().StringVar(&req.For, "for", "configured", "configured, settled or gone")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "wait no longer than this, for example 30s; 0 is no limit")
	cmd.RegisterFlagCompletionFunc("for", fixed("configured", "settled", "gone"))
	return cmd
}
