package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

func newStatus(c *cli) *cobra.Command {
	var w waiting
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how the agent is",
		Long: `Status shows whether the agent is ready and what stands against it, how each of
its parts is, which sources have said what they want, and how many keys are in
each state.

With --wait it waits until the agent is there and ready, and shows it then; it exits
with 1 if the timeout passes before.`,
		Example: `  agentctl status
  agentctl status --wait --timeout 1m
  agentctl status -o template='{{.state}}'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out, err := c.status(cmd.Context(), w)
			if err != nil {
				return err
			}
			err = c.show(answer{
				json:  jsonObject(out),
				names: []string{out.Label},
				table: func(w io.Writer, wide bool) { c.writeStatus(w, out, wide) },
			})
			if err == nil && w.wait && out.State != ready {
				c.tell("timed out after %s: the agent is not ready", w.timeout)
				err = differs
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&w.wait, "wait", false, "wait until the agent is there and ready; exit 1 if the timeout passes before")
	cmd.Flags().DurationVar(&w.timeout, "timeout", 0, "wait no longer than this, for example 30s; 0 is no limit")
	return cmd
}

// ready is the state of an agent that nothing stands against.
const ready = "ready"

// askEvery is how often status --wait asks an agent that is not ready, or not there.
const askEvery = 100 * time.Millisecond

// status asks how the agent is, and if that is wanted until it is ready.
func (c *cli) status(ctx context.Context, w waiting) (*apiv1.AgentStatusResponse, error) {
	var end <-chan time.Time
	if w.timeout > 0 {
		end = time.After(w.timeout)
	}
	for {
		out, err := c.agent().AgentStatus(ctx, &apiv1.AgentStatusRequest{})
		if !w.wait || err == nil && out.State == ready {
			return out, err
		}
		select {
		case <-ctx.Done():
			return nil, cmp.Or(err, ctx.Err())
		case <-end:
			return out, err
		case <-time.After(askEvery):
		}
	}
}

func (c *cli) writeStatus(w io.Writer, s *apiv1.AgentStatusResponse, wide bool) {
	state := s.State
	if c.color {
		state = paint(state)
	}
	if place := c.place(); place != "" {
		fmt.Fprintf(w, "context  %s\n", place)
	}
	fmt.Fprintf(w, "label    %s\nversion  %s\nup       %s\nstate    %s\n", s.Label, orDash(s.Version), age(c.now(), s.Started), state)
	for _, r := range s.Reasons {
		fmt.Fprintf(w, "         %s\n", r)
	}
	var counts []string
	for _, k := range s.Keys {
		counts = append(counts, fmt.Sprintf("%d %s", k.Count, k.State))
	}
	fmt.Fprintf(w, "keys     %s\n", orDash(strings.Join(counts, ", ")))
	if s.Converged > 0 {
		fmt.Fprintf(w, "store    converged at revision %d\n", s.Converged)
	}
	writeHeld(w, s)
	writeConfirm(w, s.Confirm)
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
	sources := newTable("SOURCE", "SYNCED", "KEYS")
	for _, src := range s.Sources {
		sources.add(src.Name, map[bool]string{true: "yes", false: "no"}[src.Synced], fmt.Sprint(src.Keys))
	}
	sources.write(w, c.color)
}
