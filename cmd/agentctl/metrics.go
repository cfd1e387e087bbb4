package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/safetext"
)

func newMetrics(c *cli) *cobra.Command {
	return formats(noFormats, &cobra.Command{
		Use:   "metrics [PREFIX]…",
		Short: "Print the agent's metrics",
		Long: `Metrics prints what Prometheus would read, all of it or only the metrics whose
names begin with a prefix.`,
		Example: `  agentctl metrics
  agentctl metrics plumb_kernel_`,
		RunE: func(cmd *cobra.Command, args []string) error {
			status, body, err := c.agent().Page(cmd.Context(), "/metrics")
			if err != nil {
				return err
			}
			if status != 200 {
				return fmt.Errorf("the agent has no metrics (%d)", status)
			}
			for line := range strings.Lines(string(body)) {
				if metricMatches(line, args) {
					fmt.Fprint(c.stdout, safetext.Text(line))
				}
			}
			return nil
		},
	})
}

// metricMatches reports whether a line of the exposition belongs to one of the
// metrics; comments belong to the metric that they name.
func metricMatches(line string, prefixes []string) bool {
	name := line
	if rest, ok := strings.CutPrefix(line, "# "); ok {
		_, name, _ = strings.Cut(rest, " ")
	}
	for _, p := range prefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return len(prefixes) == 0
}
