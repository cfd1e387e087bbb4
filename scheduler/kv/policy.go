package kv

import (
	"cmp"
	"fmt"
	"slices"
	"time"
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

// Grade says what sort of drift it is that the world differs from the intent at a key. It
// follows from who made what is there and from what is done about it.
type Grade uint8

// The grades of drift.
const (
	// NoDrift: it is as wanted, or not built yet, or cannot be told.
	NoDrift Grade = iota
	// GradeRepair: it is made as wanted again, or removed, now or at the next try.
	GradeRepair
	// GradeAlert: it is left by DriftAlert, or by a pause.
	GradeAlert
	// GradeIgnore: it is left by DriftIgnore, and nobody minds.
	GradeIgnore
	// GradeForeign: somebody else's object is where one of ours is wanted, or in what is
	// ours. Status.Owner says whose.
	GradeForeign
)

// String is the grade in a word: "repair", "alert", "ignore", "foreign"; nothing for NoDrift.
func (g Grade) String() string {
	return [...]string{"", "repair", "alert", "ignore", "foreign"}[g]
}

// Checked returns the policies, the most exact first, or what is wrong with them.
func Checked(policies []Policy) (Policies, error) {
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

// Policies are those that are in force, the most exact first.
type Policies []Policy

// Drift is the drift policy of a key.
func (ps Policies) Drift(k Key) DriftPolicy {
	for i := range ps {
		if p := &ps[i]; p.Drift != DriftDefault && Covers(p.Keys, k) {
			return p.Drift
		}
	}
	return DriftRepair
}

// HoldDown is how long a key that went is believed to be there, zero for none.
func (ps Policies) HoldDown(k Key) time.Duration {
	for i := range ps {
		if p := &ps[i]; p.HoldDown != 0 && Covers(p.Keys, k) {
			return p.HoldDown
		}
	}
	return 0
}
