package nodes

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// rollout is the progress of one NodeIntent on this node. It survives a restart of the agent.
type rollout struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
	// Kept are the values that are restored if Trial is reverted, or nil.
	Kept *revision `json:"kept,omitempty"`
	// Trial are the values that are being applied, or nil. They were begun in a turn of the node.
	Trial *revision `json:"trial,omitempty"`
	// Deadline is when Trial is reverted; zero: never.
	Deadline time.Time `json:"deadline,omitzero"`
	// Reverted are the values that were reverted last, or nil, and Reason is why. A node that has reverted values keeps its
	// turn until other values work.
	Reverted *revision `json:"reverted,omitempty"`
	Reason   string    `json:"reason,omitempty"`
}

// revision is one generation of the values of a NodeIntent.
type revision struct {
	Generation int64  `json:"generation"`
	Text       string `json:"intent"`
}

// is reports whether v has the generation and the values of a NodeIntent. A restored API server may assign a generation
// twice.
func (v *revision) is(i *Intent) bool {
	return v != nil && v.Generation == i.Generation && v.Text == i.Text
}

// unknown reports whether there is no record of applied values.
func (r *rollout) unknown() bool { return r.counts() == nil && r.Reverted == nil }

// counts returns the values that count, or nil.
func (r *rollout) counts() *revision {
	if r.Trial != nil {
		return r.Trial
	}
	return r.Kept
}

// applied returns the generation of the values that count, or 0.
func (r *rollout) applied() int64 {
	if c := r.counts(); c != nil {
		return c.Generation
	}
	return 0
}

// facts are the inputs of a step of a rollout.
type facts struct {
	intent *Intent
	// wrong is why the values of the intent cannot be read, or nil.
	wrong error
	// turn reports whether it is the turn of the node.
	turn bool
	// shown is the generation that the NodeIntentState of the node shows as ready, or 0. It replaces a lost record.
	shown int64
	// ready reports whether all values that count are configured.
	ready bool
	// works reports whether the probes have succeeded and the API server has answered since the trial is ready.
	works bool
	// trouble is why ready or works is false.
	trouble string
	now     time.Time
}

// action is the operation that a rollout needs next.
type action int

const (
	nothing action = iota
	// claimTurn: add the node to status.applying.
	claimTurn
	// endTurn: remove the node from status.applying.
	endTurn
	// runProbes: run the probes, and send a request to the API server.
	runProbes
)

// step makes all steps that the facts allow. It returns the operation that the next step needs, and whether r has changed.
// Values that cannot be read, and those that were reverted, wait for the next generation.
func (r *rollout) step(f facts) (next action, changed bool) {
	g := f.intent.Generation
	claim := false
	switch {
	case f.wrong != nil:
	case r.counts().is(f.intent) || r.Reverted.is(f.intent):
	case r.counts() != nil && r.counts().Text == f.intent.Text && r.Reverted == nil && (r.Trial == nil || r.Trial.Generation != 0 || f.turn):
		// Another field has changed, such as confirm.
		r.counts().Generation, changed = g, true
		if r.Trial != nil {
			r.setDeadline(f)
		}
	case r.counts() == nil && (f.shown == g || f.intent.Text == "{}"):
		r.Kept, r.Reverted, r.Reason, changed = &revision{g, f.intent.Text}, nil, "", true
	case !f.turn:
		claim = true // a former trial goes on meanwhile
	default:
		r.Trial, r.Reverted, r.Reason = &revision{g, f.intent.Text}, nil, ""
		r.setDeadline(f)
		return nothing, true // the facts about the former values do not count
	}
	if f.intent.Confirm && !r.Deadline.IsZero() && r.Deadline.Sub(f.now) > f.intent.Timeout {
		// The clock was set back.
		r.Deadline, changed = f.now.Add(f.intent.Timeout), true
	}
	switch {
	case r.Trial == nil:
	case r.expire(f.now, f.trouble):
		return nothing, true
	case f.ready && (f.works || r.Deadline.IsZero()):
		r.Kept, r.Trial, r.Deadline, changed = r.Trial, nil, time.Time{}, true
	case f.ready:
		return runProbes, changed
	}
	switch {
	case claim:
		return claimTurn, changed
	case f.turn && r.Trial == nil && r.Reverted == nil:
		return endTurn, changed
	}
	return nothing, changed
}

// setDeadline sets the deadline of a trial that begins.
func (r *rollout) setDeadline(f facts) {
	if r.Deadline = (time.Time{}); f.intent.Confirm {
		r.Deadline = f.now.Add(f.intent.Timeout)
	}
}

// expire reverts a trial whose deadline has passed, and reports whether it did.
func (r *rollout) expire(now time.Time, trouble string) bool {
	if r.Trial == nil || r.Deadline.IsZero() || now.Before(r.Deadline) {
		return false
	}
	r.Reverted, r.Reason = r.Trial, fmt.Sprintf("it did not work until %s: %s", r.Deadline.UTC().Format(time.RFC3339), trouble)
	r.Trial, r.Deadline = nil, time.Time{}
	return true
}
