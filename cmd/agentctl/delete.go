package main

import (
	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

func newDelete(c *cli) *cobra.Command {
	var w waiting
	var req apiv1.DeleteRequest
	cmd := &cobra.Command{
		Use:   "delete KEY…",
		Short: "Withdraw keys of intent",
		Long: `Delete withdraws keys from the agent's store, all in one transaction unless --chunked
allows several. A key that is not there is no error. A key that another source
wants, such as an intent file, is refused: it has to be deleted there. What is paused
is withdrawn too, and stays on the host until the pause ends.`,
		Example: `  agentctl delete route/default
  agentctl delete interface/web interface/web-host --wait`,
		Args:              someArgs("key"),
		ValidArgsFunction: c.keysAndKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			done := w.progress(cmd.Context(), c, nil, args)
			req.Keys, req.Wait, req.Timeout = args, w.wait, duration(w.timeout)
			out, err := c.agent().Delete(cmd.Context(), &req)
			done()
			if err != nil {
				return err
			}
			return c.showApplied(out)
		},
	}
	w.flags(cmd)
	chunkedFlag(cmd, &req.Chunked)
	messageFlag(cmd, &req.Message)
	return cmd
}
