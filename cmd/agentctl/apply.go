package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

// files are the flags of commands that read intent files as an apply-set.
type files struct {
	paths []string
	set   string
	prune bool
}

func (f *files) flags(cmd *cobra.Command) {
	cmd.Flags().StringSliceVarP(&f.paths, "file", "f", nil, "intent file or directory, - for stdin; may be repeated")
	cmd.Flags().StringVar(&f.set, "set", "", "name of the apply-set; default: the full names of the paths")
	cmd.Flags().BoolVar(&f.prune, "prune", false, "delete what the same apply-set wrote before and no longer names")
}

// setName is the name of the set.
func (f *files) setName() (set string, err error) {
	set = f.set
	if set == "" {
		if set, err = setName(f.paths); err != nil {
			return "", err
		}
	}
	if set == "" && f.prune {
		return "", errors.New("--prune of what comes from stdin needs the name of the apply-set; give --set NAME")
	}
	return set, nil
}

// read reads the files and settles the name of the set.
func (f *files) read(c *cli) (items []*apiv1.Item, set string, err error) {
	if set, err = f.setName(); err != nil {
		return nil, "", err
	}
	items, err = c.readIntent(f.paths)
	if errors.Is(err, errNoIntent) && f.prune {
		err = fmt.Errorf("%w; --prune would delete all that the apply-set wrote: use `agentctl delete` for that", err)
	}
	return items, set, err
}

func newApply(c *cli) *cobra.Command {
	var f files
	var w waiting
	var req apiv1.ApplyRequest
	var planFile string
	var confirm confirming
	cmd := &cobra.Command{
		Use:   "apply -f PATH…",
		Short: "Write intent files, in one transaction",
		Long: `Apply writes all documents of intent files into the agent's store, in one
transaction: all or nothing. Values that are as they should be are not written
again. One invalid value refuses all; --force writes it nevertheless.

What is applied together is an apply-set, named by the full names of its paths
or by --set. With --prune, keys that the same apply-set wrote before and no
longer names are deleted, and nothing else is. With --dry-run the plan is printed
and nothing is written; the exit code is 0 whatever the plan is.

With --plan a plan is executed that "agentctl plan -o json" or "apply --dry-run
-o json" gave: exactly its steps, in its order. If anything that it was made on
has moved since, it is refused with the names of what did, and nothing is written.
Without --plan the agent makes the plan when the change reaches it, and executes it within
the limits of the policy: what "agentctl plan" would show is done. If operations fail or take
longer than five seconds, or if the change is large, the end is the same, but more may be
deleted and made again than the plan shows.

With --wait it waits until every touched key is settled, and exits with 1 if not
all are configured or gone. With --revert-on-failure the previous values are
written back if a touched key fails or is invalid, or when the timeout passes; a key that
only waits for something is no failure.

With --confirm the change is taken back after that time, unless "agentctl confirm" says
that it may stay; "agentctl abort" takes it back at once, "agentctl extend" gives it
more time. It is taken back also when the agent was killed meanwhile, and on this host
while the store cannot be reached. With --probe the agent asks every second, once the
touched keys are settled, and takes the change back after three failures in a row:

  ping:NS:IP        an answer to an echo request
  tcp:NS:IP:PORT    a connection is taken
  key:KEY           the key is configured
  exec:CMD          the shell runs CMD, as the agent, and it ends with 0

NS is self (the agent's namespace), the name of a netns, or microservice:LABEL. With
--wait it then waits until each probe has succeeded, and exits with 1 if the change was
taken back meanwhile.`,
		Example: `  agentctl apply -f site.yaml
  agentctl apply -f /etc/site/ --prune --dry-run
  agentctl apply -f site.yaml --wait --timeout 30s --revert-on-failure
  agentctl apply -f site.yaml --confirm 60s --probe ping:self:10.0.0.1 --wait
  agentctl apply --plan p.json --wait`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			switch {
			case planFile != "":
				for _, other := range []string{"file", "set", "prune", "dry-run", "force", "chunked"} {
					if cmd.Flags().Changed(other) {
						return usage(cmd, "what a plan writes is in the plan; leave out --%s", other)
					}
				}
				req.Plan, err = c.readPlan(planFile)
			case len(f.paths) == 0:
				return usage(cmd, "name the files to apply with -f")
			default:
				req.Items, req.Set, err = f.read(c)
			}
			if err != nil {
				return err
			}
			confirm.set(&req)
			req.Files = names(f.paths)
			req.Prune, req.Wait, req.Timeout, req.NoValues = f.prune, w.wait, duration(w.timeout), c.noValues()
			return c.apply(cmd.Context(), &req)
		},
	}
	f.flags(cmd)
	w.flags(cmd)
	cmd.Flags().StringVar(&planFile, "plan", "", "execute this plan, - for stdin")
	cmd.Flags().BoolVar(&req.DryRun, "dry-run", false, "print the plan and change nothing")
	cmd.Flags().BoolVar(&req.Force, "force", false, "write invalid values too")
	chunkedFlag(cmd, &req.Chunked)
	cmd.Flags().BoolVar(&req.RevertOnFailure, "revert-on-failure", false, "write the previous values back if a touched key fails; implies --wait")
	confirm.flags(cmd)
	return cmd
}

// chunkedFlag is for what may be written in several transactions.
func chunkedFlag(cmd *cobra.Command, chunked *bool) {
	cmd.Flags().BoolVar(chunked, "chunked", false, "several transactions, if the store does not take so many changes in one")
}

func (c *cli) apply(ctx context.Context, req *apiv1.ApplyRequest) error {
	keys, gone := touched(req)
	w := waiting{wait: (req.Wait || req.RevertOnFailure) && !req.DryRun}
	done := w.progress(ctx, c, keys, gone)
	out, err := c.agent().Apply(ctx, req)
	done()
	if err != nil {
		return err
	}
	return c.showOutcome(req, out)
}

// touched are the keys that an apply writes and deletes, but for those that it prunes,
// which the agent knows.
func touched(req *apiv1.ApplyRequest) (keys, gone []string) {
	items, gone := req.Items, req.Delete
	if p := req.Plan.GetRequest(); p != nil {
		items, gone = p.Items, p.Delete
	}
	for _, item := range items {
		keys = append(keys, item.Key)
	}
	return keys, gone
}

// showOutcome shows what came of an apply, or the plan if that was asked.
func (c *cli) showOutcome(req *apiv1.ApplyRequest, out *apiv1.ApplyResponse) error {
	if req.DryRun {
		c.notes(out.Notes)
		c.tell("nothing was written: --dry-run")
		return c.show(c.planAnswer(out.Plan))
	}
	return c.showApplied(out)
}

// names are what files are called wherever one stands: their full names.
func names(paths []string) []string {
	const some = 16 // as many as the agent takes
	out := make([]string, 0, len(paths))
	for _, p := range paths {
		full, err := filepath.Abs(p)
		switch {
		case p == "-":
			full = "stdin"
		case err != nil:
			full = p
		}
		out = append(out, full)
	}
	return out[:min(len(out), some)]
}

// readPlan reads what plan -o json wrote. Fields of a newer agentctl do not
// matter: the plan is known again by what it was made on.
func (c *cli) readPlan(path string) (*apiv1.PlanResponse, error) {
	data, err := c.readFile(path)
	if err != nil {
		return nil, err
	}
	p := new(apiv1.PlanResponse)
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, p); err != nil || p.Base == "" {
		return nil, fmt.Errorf("%s is no plan; make one with `agentctl plan -f PATH -o json`", path)
	}
	return p, nil
}

// duration leaves no limit unset.
func duration(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}
