package main

import (
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

// waiting are the flags of commands that can wait for what they wrote.
type waiting struct {
	wait    bool
	timeout time.Duration
}

func (w *waiting) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&w.wait, "wait", false, "wait until all touched keys are settled; exit 1 if not all are configured or gone")
	cmd.Flags().DurationVar(&w.timeout, "timeout", 0, "wait no longer than this, for example 30s; 0 is no limit")
}

// progress shows how far the keys are, if they are waited for.
func (w *waiting) progress(ctx context.Context, c *cli, keys, gone []string) (stop func()) {
	if !w.wait {
		return func() {}
	}
	return c.progress(ctx, awaited{goal: "settled", keys: keys, gone: gone})
}

func newPut(c *cli) *cobra.Command {
	var path, message string
	var force bool
	var w waiting
	cmd := &cobra.Command{
		Use:   "put KEY [-f FILE|VALUE]",
		Short: "Write one key of intent",
		Long: `Put writes one key of intent into the agent's store. The value is YAML or JSON,
given as an argument, in a file, or on stdin with -f -.

An invalid value is refused and nothing is written; --force writes it all the
same, and the key becomes invalid.`,
		Example: `  agentctl put interface/web '{"veth": {"peer": "web-host"}}'
  agentctl put route/default -f route.yaml --wait --timeout 10s`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return usage(cmd, "name the key to write")
			case len(args) == 1 && path == "":
				return usage(cmd, "give the value of %s as an argument or with -f", args[0])
			case len(args) == 2 && path != "":
				return usage(cmd, "give the value as an argument or with -f, not both")
			case len(args) > 2:
				return usage(cmd, "put takes one key and one value; quote the value")
			}
			return nil
		},
		ValidArgsFunction: c.keysAndKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			var data []byte
			var from []string
			if path != "" {
				var err error
				from = names([]string{path})
				if data, err = c.readFile(path); err != nil {
					return err
				}
			} else {
				data = []byte(args[1])
			}
			text, err := valueText(data, force)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			done := w.progress(cmd.Context(), c, args[:1], nil)
			out, err := c.agent().Put(cmd.Context(), &apiv1.PutRequest{
				Key: args[0], Text: text, Force: force, Wait: w.wait, Timeout: duration(w.timeout),
				Message: message, Files: from,
			})
			done()
			if err != nil {
				return err
			}
			return c.showApplied(out)
		},
	}
	cmd.Flags().StringVarP(&path, "file", "f", "", "file with the value, - for stdin")
	cmd.Flags().BoolVar(&force, "force", false, "write the value even if it is invalid")
	w.flags(cmd)
	messageFlag(cmd, &message)
	return cmd
}

// showApplied shows what a write did, and ends with its exit code.
func (c *cli) showApplied(r *apiv1.ApplyResponse) error {
	c.notes(r.Notes)
	err := c.show(answer{
		json:  jsonObject(r),
		names: namesOf(r.Changes, (*apiv1.Change).GetKey),
		table: func(w io.Writer, wide bool) {
			t := newTable("KEY", "CHANGE")
			for _, ch := range r.Changes {
				t.add(ch.Key, ch.Op)
			}
			if len(r.Changes) > 0 && len(r.Keys) == 0 {
				t.write(w, c.color)
			}
			if len(r.Keys) > 0 {
				c.keysAnswer(r.Keys).table(w, wide)
			}
			if len(r.Changes) > 1 {
				fmt.Fprintln(w, appliedSummary(r))
			}
		},
	})
	if err != nil {
		return err
	}
	if p := r.Confirm; p != nil && p.Reverting == "" {
		c.tell("%s %s: agentctl confirm", p.Name, waits(p))
	}
	switch r.Outcome {
	case "reverted":
		why := "not all keys were configured"
		if r.Confirm != nil {
			why = "reverted" // a note says why
		}
		c.tell("%s: the previous values are written back", why)
	case "timed out":
		c.tell("timed out and not all keys are settled")
	case "not configured":
		c.tell("not all keys are %s; try `agentctl why KEY`", missed(r))
	case "unchanged":
		c.tell("nothing had to be written")
		return nil
	default:
		return nil
	}
	return differs
}

// missed is what not all keys became that were waited for. What was to go is left over.
func missed(r *apiv1.ApplyResponse) string {
	going, coming := false, false
	for _, k := range r.Keys {
		switch k.State {
		case "leftover":
			going = true
		case "configured", "observed", "absent", "removed":
		default:
			coming = true
		}
	}
	switch {
	case going && coming:
		return "configured or gone"
	case going:
		return "gone"
	}
	return "configured"
}

// appliedSummary counts what was written, and how the keys stand that were waited for.
func appliedSummary(r *apiv1.ApplyResponse) string {
	ops, states := map[string]int{}, map[string]int{}
	for _, ch := range r.Changes {
		ops[ch.Op]++
	}
	for _, k := range r.Keys {
		states[k.State]++
	}
	line := fmt.Sprintf("written: %d created, %d changed, %d deleted", ops["create"], ops["update"], ops["delete"])
	if n := ops["none"]; n > 0 {
		line += fmt.Sprintf("; %d as before", n)
	}
	var now []string
	for _, s := range slices.Sorted(maps.Keys(states)) {
		now = append(now, fmt.Sprintf("%d %s", states[s], s))
	}
	if len(now) > 0 {
		line += "; now: " + strings.Join(now, ", ")
	}
	return line
}
