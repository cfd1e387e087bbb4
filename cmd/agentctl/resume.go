package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

func newResume(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "resume KEY|KIND|PREFIX",
		Short:             "End a pause",
		Long:              "Resume ends a pause. What it ends must be named as it was paused; what is not paused is an error.",
		Example:           "  agentctl resume interface/web",
		Args:              oneArg("key, kind or prefix"),
		ValidArgsFunction: c.keysAndKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			out, err := c.agent().Resume(cmd.Context(), &apiv1.ResumeRequest{Target: args[0]})
			if err != nil {
				return err
			}
			return c.show(answer{json: jsonObject(out), names: []string{out.Target}, table: func(w io.Writer, _ bool) {
				fmt.Fprintf(w, "%s resumed\n", out.Target)
			}})
		},
	}
}
