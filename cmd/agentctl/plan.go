package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

func newPlan(c *cli) *cobra.Command {
	var f files
	var req apiv1.PlanRequest
	cmd := &cobra.Command{
		Use:   "plan -f PATH…",
		Short: "Show what a change would do, and do nothing",
		Long: `Plan shows the steps that an apply of the files would take, in their order, with
the reason of each and with what it does to traffic; then what would break.
Notes name addresses and routes of others that stop working or are removed because
their link joins a bridge, bond or vrf. Nothing is changed.

With --vanish it shows what would be if keys were gone from the host, with all
that depends on them: a container dies, somebody removes a link. With --unread,
if a kind could not be read. Both may stand beside files, which come after.

A plan of files or of a deletion that was kept with -o json can be executed with
"agentctl apply --plan".

It exits with 1 if there are steps or something breaks, else with 0.`,
		Example: `  agentctl plan -f site.yaml
  agentctl plan -f /etc/site/ --prune -o json > p.json
  agentctl plan --vanish microservice/web
  agentctl plan delete interface/web`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if len(f.paths)+len(req.Vanish)+len(req.Unread) == 0 {
				return usage(cmd, "name the files to plan with -f, or keys with `agentctl plan delete KEY`")
			}
			if len(f.paths) > 0 {
				if req.Items, req.Set, err = f.read(c); err != nil {
					return err
				}
			}
			req.Prune = f.prune
			return c.plan(cmd, &req)
		},
	}
	f.flags(cmd)
	cmd.Flags().StringSliceVar(&req.Vanish, "vanish", nil, "what if this key, or all of a kind, were gone from the host; may be repeated")
	cmd.Flags().StringSliceVar(&req.Unread, "unread", nil, "what if this kind could not be read; may be repeated")
	cmd.RegisterFlagCompletionFunc("vanish", c.keysAndKinds)
	cmd.RegisterFlagCompletionFunc("unread", kindNames)
	cmd.AddCommand(newPlanDelete(c))
	return cmd
}

func newPlanDelete(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "delete KEY…",
		Short:             "Show what a deletion would do, and do nothing",
		Long:              "Plan delete shows the steps that the deletion of keys would take. It exits with 1 if there are steps.",
		Example:           "  agentctl plan delete interface/web route/default",
		Args:              someArgs("key"),
		ValidArgsFunction: c.keysAndKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.plan(cmd, &apiv1.PlanRequest{Delete: args})
		},
	}
}

func (c *cli) plan(cmd *cobra.Command, req *apiv1.PlanRequest) error {
	p, err := c.agent().Plan(cmd.Context(), req)
	if err != nil {
		return err
	}
	if err := c.show(c.planAnswer(p)); err != nil {
		return err
	}
	if len(p.Steps) > 0 || slices.ContainsFunc(p.Effects, (*apiv1.Effect).GetBreaks) {
		return differs
	}
	return nil
}

// planAnswer shows a plan.
func (c *cli) planAnswer(p *apiv1.PlanResponse) answer {
	return answer{
		json:  jsonObject(p),
		names: namesOf(p.Steps, (*apiv1.Step).GetKey),
		table: func(w io.Writer, _ bool) {
			t := newTable("N", "OP", "KEY", "AFTER", "DISRUPTION", "REASON")
			for _, s := range p.Steps {
				t.add(fmt.Sprint(s.N), s.Op, s.Key, orDash(nearest(p.Steps, s)), s.Disruption, s.Reason)
			}
			if len(p.Steps) > 0 {
				t.write(w, c.color)
			} else {
				c.tell("nothing to do")
			}
			named := map[string]bool{}
			for _, k := range p.Pending {
				fmt.Fprintln(w, pendingLine(k))
				named[k.Key] = true
			}
			for _, f := range p.Effects {
				if f.Breaks && !named[f.Key] {
					fmt.Fprintf(w, "%s would break: %s\n", f.Key, stateLine(f))
				}
			}
			if len(p.Steps) > 0 {
				fmt.Fprintln(w, planSummary(p))
			}
			if p.Held != "" {
				c.tell("more would go than may at once: %s; it is held back until it is released, unless this plan is executed (apply --plan)", p.Held)
			}
			c.notes(p.Notes)
		},
	}
}

// nearest names the steps that must be done right before a step: not those that other
// ones wait for already, and of many the last few.
func nearest(all []*apiv1.Step, s *apiv1.Step) string {
	const most = 3
	before := map[uint32]bool{}
	for _, a := range s.After {
		for _, b := range all[a-1].After {
			before[b] = true
		}
	}
	near := slices.DeleteFunc(slices.Clone(s.After), func(a uint32) bool { return before[a] })
	more := ""
	if n := len(near) - most; n > 0 {
		near, more = near[n:], fmt.Sprintf(" and %d more", n)
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(near), " ", ","), "[]") + more
}

// planSummary counts what a plan does.
func planSummary(p *apiv1.PlanResponse) string {
	ops, breaks := map[string]int{}, 0
	for _, s := range p.Steps {
		ops[s.Op]++
	}
	for _, f := range p.Effects {
		if f.Breaks {
			breaks++
		}
	}
	return fmt.Sprintf("%d to create, %d to change, %d to replace, %d to delete; breaks %d",
		ops["create"], ops["update"], ops["replace"], ops["delete"], breaks)
}

// stateLine says how a key would stand.
func stateLine(f *apiv1.Effect) string {
	if f.Reason == "" {
		return f.State
	}
	return f.State + ", " + f.Reason
}

// pendingLine says what a plan leaves waiting.
func pendingLine(k *apiv1.Pending) string {
	state := k.State
	if state == "" {
		state = "pending"
	}
	var needs []string
	for _, m := range k.Missing {
		needs = append(needs, m.Need+": "+m.Why)
	}
	line := k.Key + " would be " + state
	if k.Reason != "" {
		line += ": " + k.Reason
	}
	if len(needs) > 0 {
		line += ", needs " + strings.Join(needs, "; ")
	}
	return line
}
