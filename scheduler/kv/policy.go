package kv

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
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
	// Audit is how often the keys are read, whatever is heard of
	// them, with up to a tenth more or less. Without it, only when something is
	// heard or a Look is asked for.
	Audit time.Duration
	// Deletions is how many keys of a kind may be removed at once for being unwanted.
	Deletions Deletions
	// Disruptions is how many of these keys, of each kind, may begin to go within a minute.
	Disruptions Disruptions
}

// Disruptions bounds how many keys of a kind may begin, within [DisruptionWindow], to be
// removed, replaced, or changed in a way that what depends on them does not survive. The
// others stay as they are, with all that depends on them, until it is their turn. What goes
// because something that it depends on goes has no turn of its own. Zero bounds nothing,
// unless a policy for more keys does; NoLimit bounds nothing in any case.
type Disruptions int

// NoLimit of disruptions holds whatever a policy for more keys says.
const NoLimit Disruptions = -1

// DisruptionWindow is the time for which Disruptions are counted.
const DisruptionWindow = time.Minute

// String is the limit as policies have it: "5/min", "off".
func (d Disruptions) String() string {
	switch {
	case d == NoLimit:
		return "off"
	case d <= 0:
		return ""
	}
	return fmt.Sprintf("%d/min", int(d))
}

// ParseDisruptions reads what String writes: "off" or "5/min".
func ParseDisruptions(text string) (Disruptions, error) {
	if text == "off" {
		return NoLimit, nil
	}
	number, perMinute := strings.CutSuffix(text, "/min")
	n, err := strconv.ParseInt(number, 10, 32)
	if err != nil || n <= 0 || !perMinute {
		return 0, fmt.Errorf(`want "off", or how many within a minute, as in "5/min"`)
	}
	return Disruptions(n), nil
}

// Deletions bounds what may go at once, by a transaction or because all sources have told
// all that they want. If it is more, all of it is held back until somebody releases it: a
// store that lost its keys looks like an operator who wants nothing any more. Zero bounds
// nothing, unless a policy for more keys does.
type Deletions struct {
	// Most is how many keys of a kind may go, Percent how many of a hundred of those that
	// are there, which few keys may exceed (see engine.fewKeys). Zero: any.
	Most, Percent int
	// Off bounds nothing, whatever a policy for more keys says.
	Off bool
}

// String is the limit as policies have it: "200,50%", "off".
func (d Deletions) String() string {
	switch {
	case d.Off:
		return "off"
	case d.Most == 0 && d.Percent == 0:
		return ""
	case d.Percent == 0:
		return fmt.Sprint(d.Most)
	case d.Most == 0:
		return fmt.Sprintf("%d%%", d.Percent)
	}
	return fmt.Sprintf("%d,%d%%", d.Most, d.Percent)
}

// ParseDeletions reads what String writes: "off", "200", "50%" or "200,50%".
func ParseDeletions(text string) (d Deletions, err error) {
	if text == "off" {
		return Deletions{Off: true}, nil
	}
	for _, part := range strings.Split(text, ",") {
		at := &d.Most
		number, percent := strings.CutSuffix(part, "%")
		if percent {
			at = &d.Percent
		}
		n, err := strconv.Atoi(number)
		if err != nil || n <= 0 || percent && n > 100 || *at != 0 {
			return d, fmt.Errorf(`want "off", or how many may go, as in "200", "50%%" or "200,50%%"`)
		}
		*at = n
	}
	return d, nil
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

// Grade says what sort of drift it is that the actual state of a key differs from the intent. It
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
		case p.HoldDown < 0 || p.Audit < 0 || p.Drift > DriftIgnore, p.Disruptions < NoLimit, p.Deletions.Most < 0 || p.Deletions.Percent < 0 || p.Deletions.Percent > 100:
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

// Deletions is the limit for a key; zero bounds nothing.
func (ps Policies) Deletions(k Key) Deletions {
	for i := range ps {
		if p := &ps[i]; p.Deletions != (Deletions{}) && Covers(p.Keys, k) {
			if p.Deletions.Off {
				return Deletions{}
			}
			return p.Deletions
		}
	}
	return Deletions{}
}

// Disruptions is the limit for a key, and the pattern of the policy that sets it; zero
// bounds nothing.
func (ps Policies) Disruptions(k Key) (limit Disruptions, pattern Key) {
	for i := range ps {
		if p := &ps[i]; p.Disruptions != 0 && Covers(p.Keys, k) {
			return max(p.Disruptions, 0), p.Keys
		}
	}
	return 0, ""
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
