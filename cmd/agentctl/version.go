package main

import (
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/buildinfo"
)

func newVersion(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of agentctl and the agent",
		Long: `Version prints what agentctl is and, if it can be reached, what the agent is. An
agent that cannot be reached is told on stderr and is no error.`,
		Example: "  agentctl version",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			own := ownVersion()
			agent, err := c.agent().Version(cmd.Context(), &apiv1.VersionRequest{})
			if err != nil {
				c.tell("agentctl: %v", c.explain(err))
			}
			text := append([]byte(`{"agentctl":`), apiv1.JSON(own)...)
			if agent != nil {
				text = append(append(text, `,"agent":`...), apiv1.JSON(agent)...)
			}
			return c.show(answer{json: func() []byte { return append(text, '}') }, table: func(w io.Writer, _ bool) {
				t := newTable("PROGRAM", "VERSION", "COMMIT", "GO", "LABEL")
				t.add("agentctl", orDash(own.Version), orDash(own.Commit), own.Go, "")
				if agent != nil {
					t.add("plumb-agent", orDash(agent.Version), orDash(agent.Commit), agent.Go, agent.Label)
				}
				t.write(w, c.color)
			}})
		},
	}
}

// ownVersion is that of this program.
func ownVersion() *apiv1.VersionResponse {
	return &apiv1.VersionResponse{Version: buildinfo.Version(), Commit: buildinfo.Commit(), Go: runtime.Version()}
}
