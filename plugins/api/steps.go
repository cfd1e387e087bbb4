package api

import (
	"slices"
	"strings"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/scheduler"
)

// steps are those of a plan as people read them: a value that is deleted and made
// again is one step, a replacement, where it is made. at says which one that is, by
// the number of each step of the plan.
func steps(p scheduler.Plan) (out []*apiv1.Step, at map[int]uint32) {
	deleted := map[scheduler.Key]scheduler.Step{} // and not made again so far
	first := map[int]scheduler.Step{}             // the deletion that a creation belongs to
	half := map[int]bool{}                        // deletions that belong to one
	for _, s := range p.Steps {
		switch d, open := deleted[s.Key]; {
		case s.Op == scheduler.OpDelete:
			deleted[s.Key] = s
		case open:
			first[s.N], half[d.N] = d, true
			delete(deleted, s.Key)
		}
	}
	at = make(map[int]uint32, len(p.Steps))
	for _, s := range p.Steps {
		if half[s.N] {
			continue
		}
		step := &apiv1.Step{N: uint32(len(out) + 1), Op: s.Op.String(), Key: string(s.Key),
			Reason: s.Reason, Disruption: s.Disruption.String(), Cause: string(s.Cause)}
		at[s.N] = step.N
		if d, replaces := first[s.N]; replaces {
			at[d.N] = step.N
			step.Op, step.Reason, step.Cause = "replace", strings.TrimPrefix(d.Reason, "replaced: "), string(d.Cause)
			step.Disruption = max(d.Disruption, s.Disruption).String()
		}
		out = append(out, step)
	}
	for _, s := range p.Steps {
		n := at[s.N]
		for _, a := range s.After {
			if before := at[a]; before < n { // of two that replace each other the first is named
				out[n-1].After = append(out[n-1].After, before)
			}
		}
	}
	for _, step := range out {
		slices.Sort(step.After)
		step.After = slices.Compact(step.After)
	}
	return out, at
}
