package assess

import (
	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// Action is what a node is due for.
type Action uint8

// The actions.
const (
	DoNothing Action = iota
	DoLook
	DoCreate
	DoUpdate
	DoDelete
	DoRelease
)

// Operation is what an action does to an object.
func (a Action) Operation() kv.Operation {
	return [...]kv.Operation{0, kv.OpLook, kv.OpCreate, kv.OpUpdate, kv.OpDelete, kv.OpUpdate}[a]
}

// Blocker is what a node waits for that nothing is due for and that is not at rest.
type Blocker uint8

// The blockers.
const (
	OnNothing    Blocker = iota
	OnOperation          // an operation on it, or a read of it, is under way
	OnDeadline           // an operation ran past its deadline, and still runs
	OnKind               // no descriptor is registered for it
	OnKindRead           // all of its kind must be read before anything is known of it
	OnPause              // an operator holds it
	OnRetry              // it failed: until its next try, or a change
	OnBroken             // its descriptor panics over it, until something else is wanted
	OnPolicy             // somebody else changed it, and its policy leaves it so
	OnNeeds              // what it needs
	OnHolder             // who actually has its name
	OnPeer               // its old peer, which has to go first
	OnBase               // what derives it, or did: that changes first
	OnNeededKind         // a read of all of a kind that it needs something of
	OnDependents         // what depends on it has to go first
	OnEnding             // something depends on it that cannot depend on what it becomes
	OnUsers              // operations under way count on its value as it is
	OnSources            // sources have not synced that may want it
	OnUnread             // what was never read may depend on it
	OnBudget             // its turn: too many of its kind have begun to go within a minute
	OnDerived            // values that it derives, and needs that are unsure
)

// Assessment is all that follows, for one node, from what is wanted of it, what is there,
// what it needs and what is under way. There is one: the loop acts on due and leaving,
// who waits for the node follows the blocker, and people are told of the blocker in words.
type Assessment struct {
	Due     Action // what may begin now
	Reason  string // for what is due, or will be once nothing blocks it
	Leaving bool   // it satisfies nobody from now on: it goes, or changes alone
	Replace bool   // it goes to come back with another value
	Same    bool   // what is there turned out to be what is wanted
	Blocker Blocker
	By      *graph.Node // who is in the way, of a blocker that is one node
	Read    *kind.Kind  // what is read first, with OnNeededKind
}

// Assess is the heart of the engine: what is the one next thing to do with a node, or for
// what does it wait.
func (as *Assessor) Assess(n *graph.Node) Assessment {
	k := kind.Of(n)
	switch {
	case n.Dropped():
		return Assessment{}
	case k == nil:
		return Assessment{Blocker: OnKind}
	case n.Phase == graph.Overdue:
		return Assessment{Blocker: OnDeadline, Leaving: n.Leaving}
	case n.Busy():
		return Assessment{Blocker: OnOperation, Leaving: n.Leaving}
	}
	switch n.Presence {
	case graph.Absent:
		return as.assessAbsent(n, k)
	case graph.Unknown:
		return as.assessUnknown(n, k)
	}
	return as.assessPresent(n, k)
}

func (as *Assessor) assessAbsent(n *graph.Node, k *kind.Kind) Assessment {
	switch {
	case Has(n, FlagNeedsRead) && k.Retrieve != nil:
		return Assessment{Due: DoLook, Reason: "it may have come"}
	case k.Observed || n.Goal() == nil:
		return Assessment{}
	case n.Needs() != graph.Satisfied:
		return as.wait(n, Assessment{Blocker: OnNeeds})
	case Left(n):
		return as.wait(n, Assessment{Blocker: OnPolicy})
	}
	if _, holder := n.Holder(); holder != nil {
		return as.wait(n, Assessment{Blocker: OnHolder, By: holder})
	}
	return as.create(n, "in the intent, dependencies met")
}

// assessUnknown: a read settles what is there. Without Retrieve, the operation
// that failed is repeated, since nobody can tell what it left.
func (as *Assessor) assessUnknown(n *graph.Node, k *kind.Kind) Assessment {
	switch {
	case k.Unread() && k.Look.Attempts > 0 && n.Goal() != nil && n.Needs() != graph.Satisfied:
		return Assessment{Blocker: OnNeeds}
	case k.Unread():
		return Assessment{Blocker: OnKindRead}
	case k.Retrieve != nil:
		look := Assessment{Due: DoLook, Reason: "what is there is not known"}
		if Has(n, FlagNeedsRead) {
			return look
		}
		return as.wait(n, look)
	}
	gone := n.Goal() == nil || n.Needs() == graph.Missing || n.X != nil && kv.Operation(n.X.LastOp) == kv.OpDelete
	switch held := as.heldBy(n); {
	case held != OnNothing:
		return Assessment{Blocker: held}
	case gone:
		return as.remove(n, Assessment{Reason: "its last operation failed and it must go"})
	case n.Needs() != graph.Satisfied:
		return Assessment{Blocker: OnNeeds}
	case n.Actual != nil && k.Update != nil:
		return as.make(n, Assessment{Due: DoUpdate, Reason: "its last update failed"})
	case n.Actual != nil:
		return as.remove(n, Assessment{Replace: true, Reason: "its last operation failed; it is made anew"})
	}
	return as.create(n, "its last creation failed")
}

func (as *Assessor) assessPresent(n *graph.Node, k *kind.Kind) Assessment {
	goal := n.Goal()
	switch {
	case Has(n, FlagNeedsRead) && k.Retrieve != nil:
		return Assessment{Due: DoLook, Reason: "what it stands on changed"}
	case k.Observed:
		return Assessment{}
	case goal == nil:
		return as.assessUnwanted(n)
	case n.Needs() == graph.Missing && !n.Foreign && !as.returns(n) && !as.LacksOnlyComing(n):
		return as.leave(n, Assessment{Reason: "a dependency is gone"})
	case n.Needs() != graph.Satisfied && (n.Foreign || !staysConfigured(n) || len(childrenOf(n)) == 0):
		return as.wait(n, Assessment{Blocker: OnNeeds})
	case n.Foreign:
		return as.create(n, "in the intent, there already by somebody else")
	case Has(n, FlagSame) && !Has(n, FlagStale):
		if len(childrenOf(n)) == 0 {
			return Assessment{}
		}
		return as.wait(n, Assessment{Blocker: OnDerived})
	case Left(n) && !Has(n, FlagStale):
		return as.wait(n, Assessment{Blocker: OnPolicy})
	}
	return as.assessChange(n, k, goal)
}

// staysConfigured reports whether a node has the desired value and none of its needs is missing. Its state
// then depends on the values that it derives.
func staysConfigured(n *graph.Node) bool {
	return Has(n, FlagSame) && n.Needs() != graph.Missing && !Has(n, FlagStale) && !n.Leaving
}

// childrenOf returns the nodes of the values that a node derives.
func childrenOf(n *graph.Node) []*graph.Node {
	if n.X == nil {
		return nil
	}
	return n.X.Children
}

func (as *Assessor) assessUnwanted(n *graph.Node) Assessment {
	switch {
	case n.Foreign:
		return Assessment{}
	case !Has(n, FlagWithdrawn) && !as.MayDelete() && !n.Wanted():
		return as.wait(n, Assessment{Blocker: OnSources})
	case as.AwaitsJudgement(n):
		return as.wait(n, Assessment{Blocker: OnUnread})
	case staysWithBase(n):
		return as.wait(n, Assessment{Blocker: OnBase, By: n.Base})
	}
	return as.leave(n, Assessment{Reason: "removed from the intent"})
}

func (as *Assessor) assessChange(n *graph.Node, k *kind.Kind, goal any) Assessment {
	var v kv.Verdict
	if !as.Guard(n, func() { v = as.Verdict(n, k, n.Actual, goal) }) {
		return Assessment{Blocker: OnBroken}
	}
	if Has(n, FlagStale) {
		v = kv.Verdict{Change: kv.Replace, Reason: "what it was made with has changed"}
	}
	switch v.Change {
	case kv.Same:
		return Assessment{Same: true}
	case kv.InPlace:
		return as.change(n, v.Reason)
	case kv.InPlaceAlone:
		return as.changeAlone(n, v.Reason)
	}
	if k := as.neededKindBeingRead(n); k != nil {
		return Assessment{Blocker: OnNeededKind, Read: k} // it could not come back
	}
	return as.leave(n, Assessment{Replace: true, Reason: v.Reason})
}

// change assesses a node that is to change in place.
func (as *Assessor) change(n *graph.Node, reason string) Assessment {
	switch ending, held := as.G.Ending(n), as.heldBy(n); {
	case held != OnNothing:
		return Assessment{Blocker: held}
	case ending != nil:
		return Assessment{Blocker: OnEnding, By: ending}
	case n.Used > 0:
		return Assessment{Blocker: OnUsers}
	}
	if _, holder := n.Holder(); holder != nil {
		return as.waitForName(n, holder)
	}
	return as.make(n, Assessment{Due: DoUpdate, Reason: reason})
}

// changeAlone assesses a node that is to change in place when nothing depends on it any
// more. It satisfies nobody until that is done, or is given up.
func (as *Assessor) changeAlone(n *graph.Node, reason string) Assessment {
	_, holder := n.Holder()
	switch {
	case n.Frozen:
		return Assessment{Blocker: OnPause}
	case Has(n, FlagAdopted) && as.Unread():
		return as.wait(n, Assessment{Blocker: OnUnread}) // as in leave
	case n.Held() == graph.UntilChange:
		return Assessment{Blocker: OnRetry} // what left comes back to what it was
	case holder != nil:
		return as.waitForName(n, holder)
	}
	if a := as.awaitTurn(n, reason); a.Blocker != OnNothing {
		return as.wait(n, a)
	}
	a := as.make(n, Assessment{Due: DoUpdate, Leaving: true, Reason: reason})
	switch {
	case a.Due == DoNothing:
	case n.Dependents > 0:
		a.Due, a.Blocker = DoNothing, OnDependents
	case n.Used > 0:
		a.Due, a.Blocker = DoNothing, OnUsers
	}
	return a
}

// waitForName assesses an update to a name that another still has. Where the other waits
// for n in turn, n must let go first; letting go is always possible.
func (as *Assessor) waitForName(n, holder *graph.Node) Assessment {
	switch {
	case n.NameWantedBy() != nil && !holder.Leaving:
		return as.leave(n, Assessment{Replace: true, Reason: "its name is wanted by " + string(n.NameWantedBy().Key)})
	case (holder.Leaving || as.G.Ending(holder) != nil) && n.DependsOn(holder):
		return as.leave(n, Assessment{Replace: true, Reason: "it stands on " + string(holder.Key) + ", which has its name"})
	}
	return as.wait(n, Assessment{Blocker: OnHolder, By: holder})
}

// create assesses a node that is to be made where nothing of ours is.
func (as *Assessor) create(n *graph.Node, reason string) Assessment {
	if p := oldPeer(n); p != nil {
		return as.wait(n, Assessment{Blocker: OnPeer, By: p})
	}
	return as.make(n, Assessment{Due: DoCreate, Reason: reason})
}

// make assesses a node that is to be made or changed: on what it needs, unless that is
// about to be read and may turn out to have gone. What is derived waits for the value
// that derives it.
func (as *Assessor) make(n *graph.Node, a Assessment) Assessment {
	if baseUntried(n) {
		return as.wait(n, Assessment{Blocker: OnBase, By: n.Base})
	}
	if k := as.neededKindBeingRead(n); k != nil {
		return as.wait(n, Assessment{Blocker: OnNeededKind, Read: k})
	}
	return as.wait(n, a)
}

// leave assesses a node that must go: at once if nothing depends on it. What is held, or
// may have something unread on it, stays with all that depends on it.
func (as *Assessor) leave(n *graph.Node, a Assessment) Assessment {
	switch {
	case n.Frozen:
		return Assessment{Blocker: OnPause}
	case Has(n, FlagAdopted) && as.Unread():
		return as.wait(n, Assessment{Blocker: OnUnread})
	case Taken(n):
		return as.wait(n, Assessment{Due: DoRelease, Reason: "it is given back"})
	}
	if turn := as.awaitTurn(n, a.Reason); turn.Blocker != OnNothing {
		return as.wait(n, turn)
	}
	return as.wait(n, as.remove(n, a))
}

// remove is leave for what nothing keeps.
func (as *Assessor) remove(n *graph.Node, a Assessment) Assessment {
	if a.Leaving = true; n.Dependents > 0 {
		a.Blocker = OnDependents
	} else {
		a.Due = DoDelete
	}
	return a
}

// wait is an assessment, unless the node must be left alone for now: then that is what it
// waits for.
func (as *Assessor) wait(n *graph.Node, a Assessment) Assessment {
	if held := as.heldBy(n); held != OnNothing {
		a.Due, a.Blocker, a.By, a.Read = DoNothing, held, nil, nil
	}
	return a
}

// heldBy is why a node must be left alone for now, OnNothing if it need not be.
func (as *Assessor) heldBy(n *graph.Node) Blocker {
	switch {
	case n.Phase == graph.Overdue:
		return OnDeadline
	case as.PausedBy(n) != nil:
		return OnPause
	case n.Held() != graph.NotHeld:
		return OnRetry
	}
	return OnNothing
}

// oldPeer returns one that n is to be made together with and that may still be there as
// it was, on its way out: making n may make both.
func oldPeer(n *graph.Node) (old *graph.Node) {
	n.With(func(p *graph.Node) {
		if p.Leaving || p.Phase == graph.Overdue {
			old = p
		}
	})
	return old
}

// baseUntried reports whether n is derived, or was, by a value that is wanted and was never in
// place: n is made, changed and taken away after that. What somebody else made is
// there, whatever its value.
func baseUntried(n *graph.Node) bool {
	b := n.Base
	return b != nil && Has(b, FlagUntried) && b.Goal() != nil && !b.Foreign
}

// neededKindBeingRead returns a kind that n needs something of and of which all is about to be
// read, or is read just now and what n needs was not made since.
func (as *Assessor) neededKindBeingRead(n *graph.Node) *kind.Kind {
	if as.Reading == 0 && len(as.Looks) == 0 {
		return nil
	}
	for _, edge := range n.Out {
		if !edge.OfDesired() || edge.To == nil || edge.Together() {
			continue
		}
		if k := kind.Of(edge.To); k != nil && (k.Look.All || k.Look.Running && edge.To.Stamp <= k.Look.Stamp) {
			return k
		}
	}
	return nil
}

// staysWithBase reports whether n was derived by the actual value that its base still
// has: it goes when that has changed.
func staysWithBase(n *graph.Node) bool { return n.Base != nil && changesAlone(n.Base) }

// changesAlone reports whether a value in place is about to become what it never was, or
// failed to, and waits for no other: so for none that waits for what it derived.
func changesAlone(n *graph.Node) bool {
	if !Has(n, FlagUntried) || n.Goal() == nil || n.Foreign || n.Leaving || n.Presence == graph.Absent {
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
// forgotten, and what depends on it stays until it is made again.
func (as *Assessor) returns(n *graph.Node) bool {
	if !Has(n, FlagAdopted) || as.MayDelete() {
		return false
	}
	for _, edge := range n.Out {
		if edge.OfDesired() && edge.State == graph.Missing && (edge.To == nil || edge.To.Goal() == nil || edge.To.Presence != graph.Absent) {
			return false
		}
	}
	return true
}
