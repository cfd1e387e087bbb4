package scheduler

import (
	"fmt"
	"maps"
	"slices"

	"github.com/plumb-net/plumb/scheduler/graph"
)

// action is what a node is due for.
type action uint8

const (
	doNothing action = iota
	doLook
	doCreate
	doUpdate
	doDelete
	doRelease
)

func (a action) operation() Operation {
	return [...]Operation{0, OpLook, OpCreate, OpUpdate, OpDelete, OpUpdate}[a]
}

// decision is what to do with a node now, and why.
type decision struct {
	do      action
	leaving bool  // it must go: it satisfies nobody from now on
	replace bool  // it goes to come back with another value
	same    bool  // what is there turned out to be what is wanted
	read    *kind // it waits until this kind was read
	reason  string
}

// decision decides about a node. What waits for a read is considered again when that
// has ended.
func (e *engine) decision(n *graph.Node, k *kind) decision {
	d := decide(e, n, k)
	if d.read != nil {
		d.read.look.waiting = append(d.read.look.waiting, n)
	}
	return d
}

// decide is the heart of the engine: from what is wanted, what is there and
// what is needed, the one next thing to do with a node. It changes nothing.
func decide(e *engine, n *graph.Node, k *kind) decision {
	switch n.Presence {
	case graph.Absent:
		return decideAbsent(e, n, k)
	case graph.Unknown:
		return decideUnknown(e, n, k)
	}
	return decidePresent(e, n, k)
}

func decideAbsent(e *engine, n *graph.Node, k *kind) decision {
	switch {
	case has(n, flagSuspect) && k.retrieve != nil:
		return decision{do: doLook, reason: "it may have come"}
	case k.Observed || n.Goal() == nil || n.Needs() != graph.Satisfied:
		return decision{}
	case e.held(n), left(n):
		return decision{}
	}
	if _, holder := n.Holder(); holder != nil {
		return decision{}
	}
	return e.create(n, decision{do: doCreate, reason: "in the intent, dependencies met"})
}

// create is the decision to make n where nothing of ours is.
func (e *engine) create(n *graph.Node, d decision) decision {
	if oldPeer(n) != nil {
		return decision{}
	}
	return e.make(n, d)
}

// waitsForPeer reports whether n could be made but for an old peer.
func waitsForPeer(n *graph.Node) bool {
	return (n.Presence != graph.Present || n.Foreign) && oldPeer(n) != nil
}

// oldPeer returns one that n is to be made together with and that may still be there as
// it was, on its way out: making n may make both.
func oldPeer(n *graph.Node) (old *graph.Node) {
	n.With(func(p *graph.Node) {
		if p.Leaving || p.X != nil && p.X.Overdue {
			old = p
		}
	})
	return old
}

// make is the decision to make n, or to change it: on what it needs, unless that is
// about to be read and may turn out to have gone. What is derived waits for the value
// that derives it.
func (e *engine) make(n *graph.Node, d decision) decision {
	if baseUntried(n) {
		return decision{}
	}
	if k := e.groundIsRead(n); k != nil {
		return decision{read: k}
	}
	return d
}

// baseUntried reports whether n is derived, or was, by a value that is wanted and was never in
// the world: n is made, changed and taken away after that. What somebody else made is
// there, whatever its value.
func baseUntried(n *graph.Node) bool {
	b := n.Base
	return b != nil && has(b, flagUntried) && b.Goal() != nil && !b.Foreign
}

// groundIsRead returns a kind that n needs something of and of which all is about to be
// read, or is read just now and what n needs was not made since.
func (e *engine) groundIsRead(n *graph.Node) *kind {
	if e.sim != nil || e.reading == 0 && len(e.looks) == 0 {
		return nil
	}
	for _, edge := range n.Out {
		if !edge.OfDesired() || edge.To == nil || edge.Together() {
			continue
		}
		if k := kindOf(edge.To); k != nil && (k.look.all || k.look.running && edge.To.Stamp <= k.look.stamp) {
			return k
		}
	}
	return nil
}

// decideUnknown: a read settles what is there. Without Retrieve, the operation
// that failed is repeated, since nobody can tell what it left.
func decideUnknown(e *engine, n *graph.Node, k *kind) decision {
	if k.retrieve != nil {
		if k.unread() || e.held(n) && !has(n, flagSuspect) {
			return decision{}
		}
		return decision{do: doLook, reason: "what is there is not known"}
	}
	if e.held(n) {
		return decision{}
	}
	gone := n.Goal() == nil || n.Needs() == graph.Missing || n.X != nil && Operation(n.X.LastOp) == OpDelete
	switch {
	case gone && n.Standing > 0:
		return decision{leaving: true}
	case gone:
		return decision{do: doDelete, leaving: true, reason: "its last operation failed and it must go"}
	case n.Needs() != graph.Satisfied:
		return decision{}
	case n.Actual != nil && k.update != nil:
		return e.make(n, decision{do: doUpdate, reason: "its last update failed"})
	case n.Actual != nil:
		return decision{do: doDelete, leaving: true, replace: true, reason: "its last operation failed; it is made anew"}
	}
	return e.create(n, decision{do: doCreate, reason: "its last creation failed"})
}

func decidePresent(e *engine, n *graph.Node, k *kind) decision {
	if has(n, flagSuspect) && k.retrieve != nil {
		return decision{do: doLook, reason: "what it stands on changed"}
	}
	if k.Observed {
		return decision{}
	}
	goal := n.Goal()
	if goal == nil {
		return decideUnwanted(e, n)
	}
	switch n.Needs() {
	case graph.Missing:
		if n.Foreign || e.returns(n) {
			return decision{}
		}
		return e.leave(n, decision{reason: "a dependency is gone"})
	case graph.Unsure:
		return decision{}
	}
	if n.Foreign {
		if e.held(n) {
			return decision{}
		}
		return e.create(n, decision{do: doCreate, reason: "in the intent, there already by somebody else"})
	}
	if (has(n, flagSame) || left(n)) && !has(n, flagStale) {
		return decision{}
	}
	return decideChange(e, n, k, goal)
}

func decideUnwanted(e *engine, n *graph.Node) decision {
	switch {
	case n.Foreign:
		return decision{}
	case !has(n, flagWithdrawn) && !e.mayDelete() && !n.Wanted():
		return decision{} // held back: a source has not spoken yet
	case staysWithBase(n):
		return decision{}
	}
	return e.leave(n, decision{reason: "removed from the intent"})
}

// staysWithBase reports whether n was derived by the value that its base still has in the
// world: it goes when that has changed.
func staysWithBase(n *graph.Node) bool { return n.Base != nil && changesAlone(n.Base) }

// changesAlone reports whether a value in place is about to become what it never was, or
// failed to, and waits for no other: so for none that waits for what it derived.
func changesAlone(n *graph.Node) bool {
	if !has(n, flagUntried) || n.Goal() == nil || n.Foreign || n.Leaving || n.Presence == graph.Absent {
		return false
	}
	if _, holder := n.Holder(); holder != nil {
		return false
	}
	for _, edge := range n.Out {
		if edge.OfDesired() && edge.State != graph.Satisfied && !(edge.OfBase() && changesAlone(edge.To)) {
			return false
		}
	}
	return true
}

func decideChange(e *engine, n *graph.Node, k *kind, goal any) decision {
	var v Verdict
	if !e.guard(n, func() { v = e.verdict(n, k, n.Actual, goal) }) {
		return decision{}
	}
	if has(n, flagStale) {
		v = Verdict{Change: Replace, Reason: "what it was made with has changed"}
	}
	switch v.Change {
	case Same:
		return decision{same: true}
	case InPlace:
		if e.held(n) || n.Used > 0 || n.Ending() != nil {
			return decision{}
		}
		if _, holder := n.Holder(); holder != nil {
			return waitForName(e, n, holder)
		}
		return e.make(n, decision{do: doUpdate, reason: v.Reason})
	case InPlaceAlone:
		return e.updateAlone(n, v.Reason)
	}
	if k := e.groundIsRead(n); k != nil {
		return decision{read: k} // it could not come back
	}
	return e.leave(n, decision{replace: true, reason: v.Reason})
}

// updateAlone is the decision to change n in place when nothing stands on it any more. n
// satisfies nobody until that is done, or is given up.
func (e *engine) updateAlone(n *graph.Node, reason string) decision {
	_, holder := n.Holder()
	switch {
	case n.Frozen || has(n, flagAdopted) && e.unread():
		return decision{} // as in leave
	case has(n, flagHeld) && n.X.NextTry == 0:
		return decision{} // what left comes back to what it was
	case holder != nil:
		return waitForName(e, n, holder)
	}
	d := e.make(n, decision{do: doUpdate, leaving: true, reason: reason})
	if n.Standing > 0 || n.Used > 0 || e.held(n) {
		d.do = doNothing
	}
	return d
}

// waitForName decides about an update to a name that another still has. Where
// the other waits for n in turn, n must let go first; letting go is always possible.
func waitForName(e *engine, n, holder *graph.Node) decision {
	switch {
	case n.Blocks() != nil && !holder.Leaving:
		return e.leave(n, decision{replace: true, reason: "its name is wanted by " + string(n.Blocks().Key)})
	case (holder.Leaving || holder.Ending() != nil) && n.StandsOn(holder):
		return e.leave(n, decision{replace: true, reason: "it stands on " + string(holder.Key) + ", which has its name"})
	}
	return decision{}
}

// leave is the decision that n must go: at once if nothing stands on it.
func (e *engine) leave(n *graph.Node, d decision) decision {
	if n.Frozen {
		return decision{} // what stands on it stays as well
	}
	if has(n, flagAdopted) && e.unread() {
		return decision{} // what was not read yet may stand on it
	}
	if taken(n) {
		return e.giveBack(n)
	}
	d.leaving = true
	if n.Standing == 0 && !e.held(n) {
		d.do = doDelete
	}
	return d
}

// returns reports whether all that a node of an earlier run lacks is wanted, and may have
// been there all the time: as long as a source has not spoken nobody knows what was
// forgotten, and what stands on it stays until it is made again.
func (e *engine) returns(n *graph.Node) bool {
	if !has(n, flagAdopted) || e.mayDelete() {
		return false
	}
	for _, edge := range n.Out {
		if edge.OfDesired() && edge.State == graph.Missing && (edge.To == nil || edge.To.Goal() == nil || edge.To.Presence != graph.Absent) {
			return false
		}
	}
	return true
}

// mayDelete reports whether things may be deleted only because nobody wants
// them: every source must have spoken, or had its time.
func (e *engine) mayDelete() bool { return e.spoken == len(e.sources) || e.graceless }

// unread reports whether something was never read so far, so that nobody knows what it
// stands on: all of a kind, or a key that could not be read when its kind was.
func (e *engine) unread() bool { return len(e.unseen) > 0 || e.unreadKind() != nil }

// makes reports whether things come of the kind: it makes them, or derives what is made.
func (k *kind) makes() bool { return !k.Observed || k.derive != nil }

func (e *engine) unreadKind() *kind {
	for _, k := range e.kinds.all() {
		if k.Reads && k.makes() && !k.Read {
			return k
		}
	}
	return nil
}

// nameUnread names what was never read, a kind or else the first key.
func (e *engine) nameUnread() string {
	if k := e.unreadKind(); k != nil {
		return "all of " + k.Name
	}
	return string(slices.MinFunc(slices.Collect(maps.Keys(e.unseen)), byKey).Key)
}

// cannotRead reports whether something was never read, and not for want of trying.
func (e *engine) cannotRead() bool {
	for n := range e.unseen {
		if e.held(n) || n.X != nil && n.X.Attempts > 0 {
			return true
		}
	}
	return slices.ContainsFunc(e.kinds.all(), func(k *kind) bool {
		return k.Reads && k.makes() && !k.Read && k.look.attempts > 0
	})
}

// held reports whether the node must be left alone for now.
func (e *engine) held(n *graph.Node) bool {
	return has(n, flagHeld) || e.pausedBy(n) != nil || n.X != nil && n.X.Overdue
}

// waitingFor says in words what a node that is due waits for, beside its needs.
func waitingFor(n *graph.Node) string {
	if c, h := n.Holder(); h != nil {
		return fmt.Sprintf("%s is still held by %s", c.What, h.Key)
	}
	if waitsForPeer(n) {
		return fmt.Sprintf("%s, which it goes together with, is still being replaced", oldPeer(n).Key)
	}
	return ""
}
