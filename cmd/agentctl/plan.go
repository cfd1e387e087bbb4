package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

func newPlan(c *cli) *cobra.Command {
	var f files
	cmd := &cobra.Command{
		Use:   "plan -f PATH…",
		Short: "Show what a change would do, and do nothing",
		Long: `Plan shows the steps that an apply of the files would take, in their order, with
the reason of each and with what it does to traffic. Nothing is changed.

It exits with 1 if there are steps, with 0 if there are none.`,
		Example: `  agentctl plan -f site.yaml
  agentctl plan -f /etc/site/ --prune -o json
  agentctl plan delete interface/web`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(f.paths) == 0 {
				return usage(cmd, "name the files to plan with -f, or keys with `agentctl plan delete KEY`")
			}
			items, set, err := f.read(c)
			if err != nil {
				return err
			}
			return c.plan(cmd, &apiv1.PlanRequest{Items: items, Set: set, Prune: f.prune})
		},
	}
	f.flags(cmd)
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
	if len(p.Steps) > 0 {
		return differs
	}
	return nil
}

// planAnswer shows a plan.
func (c *cli) planAnswer(p *apiv1.PlanResponse) answer {
	return answer{
		json:  apiv1.JSON(p),
		names: namesOf(p.Steps, (*apiv1.Step).GetKey),
		table: func(w io.Writer, _ bool) {
			t := newTable("N", "OP", "KEY", "AFTER", "DISRUPTION", "REASON")
			for _, s := range p.Steps {
				after := strings.Trim(strings.ReplaceAll(fmt.Sprint(s.After), " ", ","), "[]")
				t.add(fmt.Sprint(s.N), s.Op, s.Key, orDash(after), s.Disruption, s.Reason)
			}
			if len(p.Steps) > 0 {
				t.write(w, c.color)
			} else {
				c.tell("nothing to do")
			}
			for _, k := range p.Pending {
				fmt.Fprintln(w, pendingLine(k))
			}
		},
	}
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
