package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

func newResync(c *cli) *cobra.Command {
	var accept bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "resync [KIND|KEY]…",
		Short: "Read the live host again and repair what differs",
		Long: `Resync reads the live host again, repairs what is not as wanted, and prints what was
found and done. Without arguments it reads everything, and compares what it
was told of the store with what the store holds. It exits with 1 if a key
could not be repaired.

With --accept the agent believes a store that was wiped, replaced or restored, and a
state directory of which something was lost: what they do not hold is then deleted
from the host, attachments without a record as well (` + "`agentctl cni`" + `). See the reason
in ` + "`agentctl status`" + ` before you do.`,
		Example: `  agentctl resync
  agentctl resync interface route/default
  agentctl resync --accept`,
		ValidArgsFunction: c.keysAndKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, timeout)
				defer cancel()
			}
			done := c.progress(ctx, awaited{goal: "settled", targets: args})
			out, err := c.agent().Resync(ctx, &apiv1.ResyncRequest{Targets: args, Accept: accept})
			done()
			if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
				c.tell("timed out after %s; the agent continues", timeout)
				return differs
			}
			if err != nil {
				return err
			}
			return c.showResync(out)
		},
	}
	cmd.Flags().BoolVar(&accept, "accept", false, "believe a store that was replaced, and ledgers that were damaged")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "wait no longer than this, for example 30s; 0 is no limit")
	return cmd
}

func (c *cli) showResync(r *apiv1.ResyncResponse) error {
	err := c.show(answer{
		json:  jsonObject(r),
		names: namesOf(r.Record.GetDone(), (*apiv1.DoneStep).GetKey),
		table: func(w io.Writer, wide bool) {
			t := newTable("OP", "KEY", "TOOK", "ERROR")
			for _, d := range r.Record.GetDone() {
				if d.Op != "look" || d.Error != "" {
					t.add(d.Op, d.Key, short(d.Took), d.Error)
				}
			}
			if s := r.Store; s != nil && len(s.Differed) > 0 {
				c.tell("read anew, as it differed from the store at revision %d: %s", s.Revision, strings.Join(s.Differed, ", "))
			}
			c.tell("read %s, did %s", plural(int(r.Looked), "key"), plural(len(t.rows), "operation"))
			if len(t.rows) > 0 {
				t.write(w, c.color)
			}
			if len(r.Keys) > 0 {
				c.tell("not configured: %s", plural(len(r.Keys), "key"))
				c.keysAnswer(r.Keys).table(w, wide)
			}
		},
	})
	if err == nil && r.Outcome != "done" {
		err = differs
	}
	return err
}
