package scheduler

import "github.com/plumb-net/plumb/scheduler/graph"

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

// blocker is what a node waits for that nothing is due for and that is not at rest.
type blocker uint8

const (
	onNothing   blocker = iota
	onOperation         // an operation on it, or a read of it, is under way
	onDeadline          // an operation ran past its deadline, and still runs
	onKind              // no descriptor is registered for it
	onKindRead          // all of its kind must be read before anything is known of it
	onPause             // an operator holds it
	onRetry             // it failed: until its next try, or a change
	onBroken            // its descriptor panics over it, until something else is wanted
	onPolicy            // somebody else changed it, and its policy leaves it so
	onNeeds             // what it needs
	onHolder            // who has its name in the world
	onPeer              // its old peer, which has to go first
	onBase              // what derives it, or did: that changes first
	onGround            // a read of all of a kind that it needs something of
	onStanders          // what stands on it has to go first
	onEnding            // something stands on it that cannot stand on what it becomes
	onUsers             // operations under way count on its value as it is
	onSources           // sources have not synced that may want it
	onUnread            // what was never read may stand on it
	onDerived           // nothing of its own: it is as wanted when what it derives is
)

// assessment is all that follows, for one node, from what is wanted of it, what is there,
// what it needs and what is under way. There is one: the loop acts on due and leaving,
// who waits for the node follows the blocker, and people are told of the blocker in words.
type assessment struct {
	due     action // what may begin now
	reason  string // for what is due, or will be once nothing blocks it
	leaving bool   // it satisfies nobody from now on: it goes, or changes alone
	replace bool   // it goes to come back with another value
	same    bool   // what is there turned out to be what is wanted
	blocker blocker
	by      *graph.Node // who is in the way, of a blocker that is one node
	read    *kind       // what is read first, with onGround
}

// assess is the heart of the engine: what is the one next thing to do with a node, or for
// what does it wait. It changes nothing, but for noting a panic of the descriptor.
func (as *assessor) assess(n *graph.Node) assessment {
	k := kindOf(n)
	switch {
	case n.Dropped():
		return assessment{}
	case k == nil:
		return assessment{blocker: onKind}
	case n.X != nil && n.X.Overdue:
		return assessment{blocker: onDeadline, leaving: n.Leaving}
	case n.Moving:
		return assessment{blocker: onOperation, leaving: n.Leaving}
	}
	switch n.Presence {
	case graph.Absent:
		return as.assessAbsent(n, k)
	case graph.Unknown:
		return as.assessUnknown(n, k)
	}
	return as.assessPresent(n, k)
}

func (as *assessor) assessAbsent(n *graph.Node, k *kind) assessment {
	switch {
	case has(n, flagSuspect) && k.retrieve != nil:
		return assessment{due: doLook, reason: "it may have come"}
	case k.Observed || n.Goal() == nil:
		return assessment{}
	case n.Needs() != graph.Satisfied:
		return as.wait(n, assessment{blocker: onNeeds})
	case left(n):
		return as.wait(n, assessment{blocker: onPolicy})
	}
	if _, holder := n.Holder(); holder != nil {
		return as.wait(n, assessment{blocker: onHolder, by: holder})
	}
	return as.create(n, "in the intent, dependencies met")
}

// assessUnknown: a read settles what is there. Without Retrieve, the operation
// that failed is repeated, since nobody can tell what it left.
func (as *assessor) assessUnknown(n *graph.Node, k *kind) assessment {
	switch {
	case k.unread() && k.look.attempts > 0 && n.Goal() != nil && n.Needs() != graph.Satisfied:
		return assessment{blocker: onNeeds}
	case k.unread():
		return assessment{blocker: onKindRead}
	case k.retrieve != nil && has(n, flagSuspect):
		return assessment{due: doLook, reason: "what is there is not known"}
	case k.retrieve != nil:
		return as.wait(n, assessment{due: doLook, reason: "what is there is not known"})
	}
	gone := n.Goal() == nil || n.Needs() == graph.Missing || n.X != nil && Operation(n.X.LastOp) == OpDelete
	switch held := as.heldBy(n); {
	case held != onNothing:
		return assessment{blocker: held}
	case gone:
		return as.remove(n, assessment{reason: "its last operation failed and it must go"})
	case n.Needs() != graph.Satisfied:
		return assessment{blocker: onNeeds}
	case n.Actual != nil && k.update != nil:
		return as.make(n, assessment{due: doUpdate, reason: "its last update failed"})
	case n.Actual != nil:
		return as.remove(n, assessment{replace: true, reason: "its last operation failed; it is made anew"})
	}
	return as.create(n, "its last creation failed")
}

func (as *assessor) assessPresent(n *graph.Node, k *kind) assessment {
	goal := n.Goal()
	switch {
	case has(n, flagSuspect) && k.retrieve != nil:
		return assessment{due: doLook, reason: "what it stands on changed"}
	case k.Observed:
		return assessment{}
	case goal == nil:
		return as.assessUnwanted(n)
	case n.Needs() == graph.Missing && !n.Foreign && !as.returns(n):
		return as.leave(n, assessment{reason: "a dependency is gone"})
	case n.Needs() != graph.Satisfied:
		return as.wait(n, assessment{blocker: onNeeds})
	case n.Foreign:
		return as.create(n, "in the intent, there already by somebody else")
	case has(n, flagSame) && !has(n, flagStale):
		if n.X == nil || len(n.X.Children) == 0 {
			return assessment{}
		}
		return as.wait(n, assessment{blocker: onDerived})
	case left(n) && !has(n, flagStale):
		return as.wait(n, assessment{blocker: onPolicy})
	}
	return as.assessChange(n, k, goal)
}

func (as *assessor) assessUnwanted(n *graph.Node) assessment {
	switch {
	case n.Foreign:
		return assessment{}
	case !has(n, flagWithdrawn) && !as.mayDelete() && !n.Wanted():
		return as.wait(n, assessment{blocker: onSources})
	case staysWithBase(n):
		return as.wait(n, assessment{blocker: onBase, by: n.Base})
	}
	return as.leave(n, assessment{reason: "removed from the intent"})
}

func (as *assessor) assessChange(n *graph.Node, k *kind, goal any) assessment {
	var v Verdict
	if !as.guard(n, func() { v = as.verdict(n, k, n.Actual, goal) }) {
		return assessment{blocker: onBroken}
	}
	if has(n, flagStale) {
		v = Verdict{Change: Replace, Reason: "what it was made with has changed"}
	}
	switch v.Change {
	case Same:
		return assessment{same: true}
	case InPlace:
		return as.change(n, v.Reason)
	case InPlaceAlone:
		return as.changeAlone(n, v.Reason)
	}
	if k := as.groundIsRead(n); k != nil {
		return assessment{blocker: onGround, read: k} // it could not come back
	}
	return as.leave(n, assessment{replace: true, reason: v.Reason})
}

// change assesses a node that is to change in place.
func (as *assessor) change(n *graph.Node, reason string) assessment {
	switch ending, held := n.Ending(), as.heldBy(n); {
	case held != onNothing:
		return assessment{blocker: held}
	case ending != nil:
		return assessment{blocker: onEnding, by: ending}
	case n.Used > 0:
		return assessment{blocker: onUsers}
	}
	if _, holder := n.Holder(); holder != nil {
		return as.waitForName(n, holder)
	}
	return as.make(n, assessment{due: doUpdate, reason: reason})
}

// changeAlone assesses a node that is to change in place when nothing stands on it any
// more. It satisfies nobody until that is done, or is given up.
func (as *assessor) changeAlone(n *graph.Node, reason string) assessment {
	_, holder := n.Holder()
	switch {
	case n.Frozen:
		return assessment{blocker: onPause}
	case has(n, flagAdopted) && as.unread():
		return as.wait(n, assessment{blocker: onUnread}) // as in leave
	case has(n, flagHeld) && n.X.NextTry == 0:
		return assessment{blocker: onRetry} // what left comes back to what it was
	case holder != nil:
		return as.waitForName(n, holder)
	}
	a := as.make(n, assessment{due: doUpdate, leaving: true, reason: reason})
	switch {
	case a.due == doNothing:
	case n.Standing > 0:
		a.due, a.blocker = doNothing, onStanders
	case n.Used > 0:
		a.due, a.blocker = doNothing, onUsers
	}
	return a
}

// waitForName assesses an update to a name that another still has. Where the other waits
// for n in turn, n must let go first; letting go is always possible.
func (as *assessor) waitForName(n, holder *graph.Node) assessment {
	switch {
	case n.Blocks() != nil && !holder.Leaving:
		return as.leave(n, assessment{replace: true, reason: "its name is wanted by " + string(n.Blocks().Key)})
	case (holder.Leaving || holder.Ending() != nil) && n.StandsOn(holder):
		return as.leave(n, assessment{replace: true, reason: "it stands on " + string(holder.Key) + ", which has its name"})
	}
	return as.wait(n, assessment{blocker: onHolder, by: holder})
}

// create assesses a node that is to be made where nothing of ours is.
func (as *assessor) create(n *graph.Node, reason string) assessment {
	if p := oldPeer(n); p != nil {
		return as.wait(n, assessment{blocker: onPeer, by: p})
	}
	return as.make(n, assessment{due: doCreate, reason: reason})
}

// make assesses a node that is to be made or changed: on what it needs, unless that is
// about to be read and may turn out to have gone. What is derived waits for the value
// that derives it.
func (as *assessor) make(n *graph.Node, a assessment) assessment {
	if baseUntried(n) {
		return as.wait(n, assessment{blocker: onBase, by: n.Base})
	}
	if k := as.groundIsRead(n); k != nil {
		return as.wait(n, assessment{blocker: onGround, read: k})
	}
	return as.wait(n, a)
}

// leave assesses a node that must go: at once if nothing stands on it. What is held, or
// may have something unread on it, stays with all that stands on it.
func (as *assessor) leave(n *graph.Node, a assessment) assessment {
	switch {
	case n.Frozen:
		return assessment{blocker: onPause}
	case has(n, flagAdopted) && as.unread():
		return as.wait(n, assessment{blocker: onUnread})
	case taken(n):
		return as.wait(n, assessment{due: doRelease, reason: "it is given back"})
	}
	return as.wait(n, as.remove(n, a))
}

// remove is leave for what nothing keeps.
func (as *assessor) remove(n *graph.Node, a assessment) assessment {
	if a.leaving = true; n.Standing > 0 {
		a.blocker = onStanders
	} else {
		a.due = doDelete
	}
	return a
}

// wait is an assessment, unless the node must be left alone for now: then that is what it
// waits for.
func (as *assessor) wait(n *graph.Node, a assessment) assessment {
	if held := as.heldBy(n); held != onNothing {
		a.due, a.blocker, a.by, a.read = doNothing, held, nil, nil
	}
	return a
}

// heldBy is why a node must be left alone for now, onNothing if it need not be.
func (as *assessor) heldBy(n *graph.Node) blocker {
	switch {
	case n.X != nil && n.X.Overdue:
		return onDeadline
	case as.pausedBy(n) != nil:
		return onPause
	case has(n, flagHeld):
		return onRetry
	}
	return onNothing
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

// baseUntried reports whether n is derived, or was, by a value that is wanted and was never in
// the world: n is made, changed and taken away after that. What somebody else made is
// there, whatever its value.
func baseUntried(n *graph.Node) bool {
	b := n.Base
	return b != nil && has(b, flagUntried) && b.Goal() != nil && !b.Foreign
}

// groundIsRead returns a kind that n needs something of and of which all is about to be
// read, or is read just now and what n needs was not made since.
func (as *assessor) groundIsRead(n *graph.Node) *kind {
	if as.reading == 0 && len(as.looks) == 0 {
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

// returns reports whether all that a node of an earlier run lacks is wanted, and may have
// been there all the time: as long as a source has not synced nobody knows what was
// forgotten, and what stands on it stays until it is made again.
func (as *assessor) returns(n *graph.Node) bool {
	if !has(n, flagAdopted) || as.mayDelete() {
		return false
	}
	for _, edge := range n.Out {
		if edge.OfDesired() && edge.State == graph.Missing && (edge.To == nil || edge.To.Goal() == nil || edge.To.Presence != graph.Absent) {
			return false
		}
	}
	return true
}
