package main

import (
	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

func newDelete(c *cli) *cobra.Command {
	var w waiting
	var message string
	cmd := &cobra.Command{
		Use:   "delete KEY…",
		Short: "Withdraw keys of intent",
		Long: `Delete withdraws keys from the agent's store, all in one transaction. A key that
is not there is no error. A key that another source wants, such as an intent
file, is refused: it has to be deleted there.`,
		Example: `  agentctl delete route/default
  agentctl delete interface/web interface/web-host --wait`,
		Args:              someArgs("key"),
		ValidArgsFunction: c.keysAndKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			done := w.progress(cmd.Context(), c, nil, args)
			out, err := c.agent().Delete(cmd.Context(), &apiv1.DeleteRequest{Keys: args, Wait: w.wait, Timeout: duration(w.timeout), Message: message})
			done()
			if err != nil {
				return err
			}
			return c.showApplied(out)
		},
	}
	w.flags(cmd)
	messageFlag(cmd, &message)
	return cmd
}
