package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/plumb-net/plumb/scheduler/graph"
)

// Policy says how keys are to be treated, whoever wants them. It is the word
// of who runs the scheduler, never part of a value. Of several policies for a
// key, each field is that of the one with the longest Keys that sets it.
type Policy struct {
	// Keys is one key, or all below a prefix that ends in a slash; "" means all.
	Keys Key
	// Drift is what is done when somebody else changes or removes an object.
	Drift DriftPolicy
	// HoldDown is for observed kinds: an object that goes is believed to be
	// gone only if it is still gone after this time. Until then it is
	// unknown: nothing new is built on it, and nothing is torn down. Without
	// it, gone is gone.
	HoldDown time.Duration
	// Audit is how often the world of the keys is read, whatever is heard of
	// it, with up to a tenth more or less. Without it, only when something is
	// heard or a Look is asked for.
	Audit time.Duration
}

// DriftPolicy is what is done about what others change.
type DriftPolicy uint8

// The drift policies. Keys that are not repaired are outside of what the
// scheduler promises; Status.Drift names them. What is newly wanted, and what
// a Look asks for, is done with any of them.
const (
	// DriftDefault is DriftRepair, unless a policy for more keys says otherwise.
	DriftDefault DriftPolicy = iota
	// DriftRepair makes it as wanted again.
	DriftRepair
	// DriftAlert leaves it, and says that it is drifted.
	DriftAlert
	// DriftIgnore leaves it. What was changed counts as configured; what was
	// removed cannot, and is said to be drifted.
	DriftIgnore
)

// String is the policy in a word: "repair", "alert", "ignore"; nothing for the default.
func (d DriftPolicy) String() string {
	return [...]string{"", "repair", "alert", "ignore"}[d]
}

// checked returns the policies, the most exact first, or what is wrong with them.
func checked(policies []Policy) ([]Policy, error) {
	out := slices.Clone(policies)
	slices.SortStableFunc(out, func(a, b Policy) int { return cmp.Compare(len(b.Keys), len(a.Keys)) })
	for i, p := range out {
		switch {
		case p.HoldDown < 0 || p.Audit < 0 || p.Drift > DriftIgnore:
			return nil, fmt.Errorf("the policy for %q has a value that means nothing", p.Keys)
		case i > 0 && p.Keys == out[i-1].Keys:
			return nil, fmt.Errorf("there are two policies for %q: make them one", p.Keys)
		}
	}
	return out, nil
}

// CheckPolicies tells what is wrong with policies, nil if nothing is.
func CheckPolicies(policies []Policy) error {
	_, err := checked(policies)
	return err
}

// drift is the drift policy of a key.
func (o *Options) drift(k Key) DriftPolicy {
	for i := range o.Policies {
		if p := &o.Policies[i]; p.Drift != DriftDefault && covers(p.Keys, k) {
			return p.Drift
		}
	}
	return DriftRepair
}

func (o *Options) holdDown(k Key) time.Duration {
	for i := range o.Policies {
		if p := &o.Policies[i]; p.HoldDown != 0 && covers(p.Keys, k) {
			return p.HoldDown
		}
	}
	return 0
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
	if t.hint || len(e.opts.Policies) == 0 {
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
