package scheduler

import (
	"fmt"
	"time"

	"github.com/plumb-net/plumb/scheduler/graph"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// CheckPolicies tells what is wrong with policies, nil if nothing is.
func CheckPolicies(policies []Policy) error {
	_, err := kv.Checked(policies)
	return err
}

// left reports whether the node is not as wanted because somebody else changed
// it, and is left so.
func left(n *graph.Node) bool { return n.X != nil && n.X.Left }

// leaveDrifted leaves what somebody else changed as it is.
func (e *engine) leaveDrifted(n *graph.Node, p DriftPolicy) {
	e.g.Extra(n).Left = true
	if e.log != nil && p == DriftAlert {
		e.logf(slogWarn, "somebody else changed it", "key", string(n.Key), "policy", p.String())
	}
}

// unleave: the node is to be as wanted again.
func (e *engine) unleave(n *graph.Node) {
	if left(n) {
		e.g.Extra(n).Left = false
		e.setFlag(n, flagDrifted, false)
		e.g.Wake(n)
	}
}

// unleaveAsked: who asks for a look asks for repair.
func (e *engine) unleaveAsked(t *Txn) {
	if t.hint || len(e.policies) == 0 {
		return
	}
	targets := t.Look
	if t.LookAll {
		targets = nil
	} else if len(targets) == 0 {
		return
	}
	for _, n := range e.nodesUnder(targets) {
		e.unleave(n)
	}
}

func explainDrift(n *graph.Node, p DriftPolicy) string {
	done := "changed"
	if n.Presence == graph.Absent {
		done = "removed"
	}
	if left(n) {
		return fmt.Sprintf("somebody else %s it; it is left so (policy %s)", done, p)
	}
	return fmt.Sprintf("somebody else %s it; it is being repaired", done)
}

// setClocks begins what is due by the clock from the start on: audits, which
// read the worlds of keys from time to time, and the end of the grace.
func (e *engine) setClocks() {
	for _, p := range e.opts.Policies {
		if p.Audit > 0 {
			e.auditNext(p)
		}
	}
	if e.opts.Grace > 0 {
		e.retries.addFunc(e.now.Add(e.opts.Grace), e.noGrace)
	}
	e.arm()
}

func (e *engine) auditNext(p Policy) {
	spread := time.Duration(float64(p.Audit) * 0.2 * (e.opts.Rand() - 0.5))
	e.retries.addFunc(e.now.Add(p.Audit+spread), func() {
		t := &Txn{Source: "audit", Note: "audit " + string(p.Keys), Look: []Key{p.Keys}, hint: true}
		if p.Keys == "" {
			t.Look, t.LookAll = nil, true
		}
		e.inbox(input{txn: t, handle: newHandle(nil, *t)})
		e.auditNext(p)
	})
}
