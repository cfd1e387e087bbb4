package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

func newPause(c *cli) *cobra.Command {
	var reason string
	var d time.Duration
	cmd := &cobra.Command{
		Use:   "pause KEY|KIND|PREFIX --reason TEXT",
		Short: "Hold keys: nothing is done to them",
		Long: `Pause holds a key, or all keys of a kind or below a prefix: nothing is done to
them until resume, or until the time is over. The reason is shown to whoever
finds them.`,
		Example: `  agentctl pause interface/web --reason "debugging with tcpdump" --for 30m
  agentctl pause route --reason "change freeze"`,
		Args:              oneArg("key, kind or prefix"),
		ValidArgsFunction: c.keysAndKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			out, err := c.agent().Pause(cmd.Context(), &apiv1.PauseRequest{Target: args[0], Reason: reason, For: duration(d)})
			if err != nil {
				return err
			}
			return c.show(answer{json: jsonObject(out), names: []string{out.Target}, table: func(w io.Writer, _ bool) {
				until := "until `agentctl resume " + args[0] + "`"
				if out.Until != nil {
					until = "until " + clock(out.Until)
				}
				fmt.Fprintf(w, "%s is paused %s\n", out.Target, until)
			}})
		},
	}
	cmd.Flags().StringVarP(&reason, "reason", "m", "", "why, for whoever finds it (required)")
	cmd.Flags().DurationVar(&d, "for", 0, "how long, for example 30m; 0 is until resume")
	return cmd
}
