package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

func newStatus(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show how the agent is",
		Long: `Status shows whether the agent is ready and what stands against it, how each of
its parts is, which sources have said what they want, and how many keys are in
each state.`,
		Example: `  agentctl status
  agentctl status -o template='{{.state}}'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out, err := c.agent().AgentStatus(cmd.Context(), &apiv1.AgentStatusRequest{})
			if err != nil {
				return err
			}
			return c.show(answer{
				json:  apiv1.JSON(out),
				names: []string{out.Label},
				table: func(w io.Writer, wide bool) { c.writeStatus(w, out, wide) },
			})
		},
	}
}

func (c *cli) writeStatus(w io.Writer, s *apiv1.AgentStatusResponse, wide bool) {
	state := s.State
	if c.color {
		state = paint(state)
	}
	fmt.Fprintf(w, "label    %s\nversion  %s\nup       %s\nstate    %s\n", s.Label, orDash(s.Version), age(c.now(), s.Started), state)
	for _, r := range s.Reasons {
		fmt.Fprintf(w, "         %s\n", r)
	}
	var counts []string
	for _, k := range s.Keys {
		counts = append(counts, fmt.Sprintf("%d %s", k.Count, k.State))
	}
	fmt.Fprintf(w, "keys     %s\n\n", orDash(strings.Join(counts, ", ")))
	parts := newTable("PART", "STATE", "AGE", "REASON")
	for _, h := range s.Parts {
		why := h.Reason
		if wide {
			for _, k := range slices.Sorted(maps.Keys(h.Details)) {
				why += fmt.Sprintf(" %s=%s", k, h.Details[k])
			}
		}
		parts.add(h.Name, h.State, orDash(age(c.now(), h.Since)), strings.TrimSpace(why))
	}
	parts.write(w, c.color)
	fmt.Fprintln(w)
	sources := newTable("SOURCE", "SPOKEN", "KEYS")
	for _, src := range s.Sources {
		sources.add(src.Name, map[bool]string{true: "yes", false: "no"}[src.Spoken], fmt.Sprint(src.Keys))
	}
	sources.write(w, c.color)
}
