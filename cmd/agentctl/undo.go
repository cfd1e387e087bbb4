package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

func newUndo(c *cli) *cobra.Command {
	var w waiting
	var confirm confirming
	req := &apiv1.UndoRequest{Apply: new(apiv1.ApplyRequest)}
	cmd := &cobra.Command{
		Use:   "undo [SEQ]",
		Short: "Apply the inverse of a transaction",
		Long: `Undo brings the intent in the store back to what it was before a transaction that
the history keeps, as a transaction of its own, which can be undone again. Without a
number it is the last one that changed intent in the store.

Keys that somebody has changed since are not overwritten: undo names them and does
nothing, unless --force is given. With --dry-run the plan is printed and nothing is
written.`,
		Example: `  agentctl history
  agentctl undo 17 --dry-run
  agentctl undo --wait`,
		Args: func(cmd *cobra.Command, args []string) (err error) {
			if len(args) == 1 {
				req.Seq, err = strconv.ParseUint(args[0], 10, 64)
			}
			if len(args) > 1 || err != nil || len(args) == 1 && req.Seq == 0 {
				return usage(cmd, "undo takes the number of one transaction; see agentctl history")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			confirm.set(req.Apply)
			req.Apply.Wait, req.Apply.Timeout, req.Apply.NoValues = w.wait, duration(w.timeout), c.noValues()
			done := w.progressOfUndo(cmd.Context(), c, req)
			out, err := c.agent().Undo(cmd.Context(), req)
			done()
			if err != nil {
				return err
			}
			c.tell("undo of transaction %d: %s", out.Seq, out.Note)
			return c.showOutcome(req.Apply, out.Apply)
		},
	}
	cmd.Flags().BoolVar(&req.Apply.DryRun, "dry-run", false, "print the plan and change nothing")
	cmd.Flags().BoolVar(&req.Apply.Force, "force", false, "undo also what somebody has changed since")
	chunkedFlag(cmd, &req.Apply.Chunked)
	w.flags(cmd)
	confirm.flags(cmd)
	return cmd
}

// progressOfUndo shows how far an undo is that is waited for. Which keys it writes only the
// agent knows, which is asked for a plan: what is shown is that much older than what is done.
func (w *waiting) progressOfUndo(ctx context.Context, c *cli, req *apiv1.UndoRequest) (stop func()) {
	if c.live == nil || !w.wait || req.Apply.DryRun {
		return func() {}
	}
	dry := &apiv1.ApplyRequest{DryRun: true, Force: req.Apply.Force, NoValues: true}
	out, err := c.agent().Undo(ctx, &apiv1.UndoRequest{Seq: req.Seq, Apply: dry})
	if err != nil {
		return func() {} // the undo itself will tell
	}
	keys, gone := touched(&apiv1.ApplyRequest{Plan: out.Apply.GetPlan()})
	return w.progress(ctx, c, keys, gone)
}
