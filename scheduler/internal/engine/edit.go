package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/plumb-net/plumb/scheduler/internal/assess"
	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// Edit takes what a source wants into the graph. It returns the nodes that are touched by
// it. byOwner tells that the keys that are withdrawn by name are taken back by their owner.
func (e *Engine) Edit(src int8, want []kv.Change, complete, byOwner bool, retries *kv.Retries) []*graph.Node {
	if e.halt == nil { // else it may end early
		e.G.Grow(len(want))
		e.Touched = slices.Grow(e.Touched, len(want))
		e.making.grow(len(want))
	}
	return e.edit(src, want, complete, byOwner, retries)
}

func (e *editor) edit(src int8, want []kv.Change, complete, byOwner bool, retries *kv.Retries) []*graph.Node {
	nodes := make([]*graph.Node, 0, len(want))
	e.NewPass()
	for _, c := range want {
		if e.halt != nil && e.halt() {
			return nodes
		}
		n := e.G.Node(c.Key)
		e.G.Save(n)
		n.Mark = e.Mark
		if !saidAgain(n, src, c) {
			e.want(n, src, c)
		}
		if byOwner && c.Value == nil && c.Invalid == nil {
			e.takenByOwner(n)
		}
		e.setRetries(n, src, retries)
		nodes = append(nodes, n)
	}
	if complete {
		nodes = append(nodes, e.withdrawUnnamed(src)...)
		e.Out.SourceSynced(src)
	}
	return nodes
}

// saidAgain reports whether the source asks for what it asks for already, and
// nothing is wrong that saying it again could mend.
func saidAgain(n *graph.Node, src int8, c kv.Change) bool {
	k := kind.Of(n)
	return k != nil && n.Source == src && c.Value != nil && c.Invalid == nil && n.Desired != nil &&
		(n.X == nil || n.X.Quiet()) && n.Phase != graph.Overdue && k.Identical(n.Desired, c.Value)
}

// withdrawUnnamed takes back what the source wanted and did not name.
func (e *editor) withdrawUnnamed(src int8) []*graph.Node {
	var gone []*graph.Node
	e.G.All(func(n *graph.Node) bool {
		if n.Mark != e.Mark && Wants(n, src) {
			gone = append(gone, n)
		}
		return true
	})
	slices.SortFunc(gone, assess.ByKey)
	for _, n := range gone {
		e.want(n, src, kv.Change{Key: n.Key})
		e.SetFlag(n, assess.FlagWithdrawn, false) // concluded, not said
	}
	return gone
}

// SourceSynced notes the complete snapshot of a source. After the last one, things may go
// only because nobody wants them.
func (e *editor) SourceSynced(src int8) {
	if e.Sources[src].Synced {
		return
	}
	e.Sources[src].Synced = true
	e.Synced++
	if e.MayDelete() {
		e.wakeLeft()
	}
}

// ExpireGrace ends the waiting for sources that have not synced.
func (e *editor) ExpireGrace() {
	if e.MayDelete() {
		return
	}
	e.logf(slog.LevelWarn, "what nobody wants is deleted now, though not all sources have synced", "silent", e.Unsynced())
	e.GraceExpired = true
	e.wakeLeft()
}

// wakeLeft: what is left over may go, and what lacks something.
func (e *editor) wakeLeft() {
	var left []*graph.Node
	e.G.All(func(n *graph.Node) bool {
		if n.Presence != graph.Absent && (!n.Wanted() || n.Needs() == graph.Missing) {
			left = append(left, n)
		}
		return true
	})
	slices.SortFunc(left, assess.ByKey)
	for _, n := range left {
		e.G.Wake(n)
	}
	e.AllMoved = true
}

// Wants reports whether the source asks for the node, also if a stronger one does.
func Wants(n *graph.Node, src int8) bool {
	if n.X != nil && n.X.Wants != nil {
		return slices.ContainsFunc(n.X.Wants, func(w graph.Want) bool { return w.Source == src })
	}
	return n.Source == src
}

// want sets, or with no value takes back, what one source asks of a node.
// Most nodes have one want, which is valid: it lives in Source and Desired.
func (e *editor) want(n *graph.Node, src int8, c kv.Change) {
	if n.Source == graph.Derived {
		e.refuseDerived(n, src, c)
		return
	}
	simple := n.X == nil && (n.Source == graph.NoSource || n.Source == src) && c.Invalid == nil
	if !simple {
		x := e.G.Extra(n)
		if x.Wants == nil && n.Source != graph.NoSource {
			x.Wants = []graph.Want{{Source: n.Source, Value: n.Desired}}
		}
		x.Wants = replaceWant(x.Wants, src, c)
		e.applyStrongest(n, x.Wants)
		return
	}
	if c.Value == nil {
		e.apply(n, nil)
		return
	}
	e.apply(n, &graph.Want{Source: src, Value: c.Value})
}

func replaceWant(ws []graph.Want, src int8, c kv.Change) []graph.Want {
	out := make([]graph.Want, 0, len(ws)+1)
	for _, w := range ws {
		if w.Source != src {
			out = append(out, w)
		}
	}
	if c.Value != nil || c.Invalid != nil {
		out = append(out, graph.Want{Source: src, Value: c.Value, Invalid: c.Invalid})
		slices.SortStableFunc(out, func(a, b graph.Want) int { return int(a.Source) - int(b.Source) })
	}
	return out
}

// applyStrongest makes the first of the wants count, which is that of the strongest source.
func (e *editor) applyStrongest(n *graph.Node, ws []graph.Want) {
	if len(ws) == 0 {
		e.apply(n, nil)
		return
	}
	e.apply(n, &ws[0])
}

// refuseDerived: a source may not write what another value derives. The wish
// is kept, and counts once the derived value is gone.
func (e *editor) refuseDerived(n *graph.Node, src int8, c kv.Change) {
	x := e.G.Extra(n)
	x.Wants = replaceWant(x.Wants, src, c)
	e.G.Wake(n)
}

// apply makes w the want that counts for the node; nil for none.
func (e *editor) apply(n *graph.Node, w *graph.Want) {
	defer e.recordDesired(n, desiredOf(n))
	e.G.Save(n)
	e.G.Wake(n)
	e.Out.Touch(n)
	if w == nil {
		e.withdraw(n)
		return
	}
	if n.Base != nil {
		e.leaveBase(n)
	}
	e.SetFlag(n, assess.FlagByOwner, false)
	k, was := kind.Of(n), n.Source
	n.Source = w.Source
	err := w.Invalid
	if err == nil && k != nil {
		err = kind.Validate(k, n.Key, w.Value)
	}
	if err != nil {
		x := e.G.Extra(n)
		if x.Wants == nil {
			x.Wants = []graph.Want{*w}
		}
		x.Invalid, x.Asked, x.Refused = err, w.Value, false
		e.clearHold(n)
		e.keepLastValid(n)
		if n.Desired != nil && n.Source != was {
			e.G.SetDesired(n, n.Desired) // claims go by the source
		}
		return
	}
	e.accept(n)
	e.SetFlag(n, assess.FlagWithdrawn, false)
	e.setDesired(n, w.Value)
}

// leaveBase: a source wants what nobody derives any more and was not yet gone. It is no
// part of its base from now on, and stays when that goes.
func (e *editor) leaveBase(n *graph.Node) {
	base := n.Base
	e.G.SetBase(n, nil)
	e.wakeDerived(n) // what it derives was held with its base
	if base.X != nil {
		x := e.G.Extra(base)
		x.Children = remove(x.Children, n)
	}
	e.G.Wake(base)
}

// accept forgets that a value was refused.
func (e *editor) accept(n *graph.Node) {
	if n.X != nil {
		e.G.Extra(n).Invalid, n.X.Asked, n.X.Refused = nil, nil, false
	}
}

// keepLastValid: an invalid value leaves the object of the last valid one in
// place. After a restart what is there is all that is known of that.
func (e *editor) keepLastValid(n *graph.Node) {
	if !assess.Has(n, assess.FlagWithdrawn) && n.Desired == nil && n.Presence == graph.Present && !n.Foreign && n.Actual != nil {
		e.setDesired(n, n.Actual)
	}
}

// withdraw: nobody wants the node any more. Said of what nobody wanted as far as is
// known, it lets that go before all sources have synced.
func (e *editor) withdraw(n *graph.Node) {
	if !n.Wanted() && n.Desired == nil {
		if n.Presence == graph.Present && !n.Foreign {
			e.SetFlag(n, assess.FlagWithdrawn, true)
		}
		return
	}
	n.Source = graph.NoSource
	e.SetFlag(n, assess.FlagWithdrawn, true)
	e.retryDerivers(n)
	e.accept(n)
	e.setDesired(n, nil)
}

// setDesired changes the desired value, and forgets
// failures of the value before.
func (e *editor) setDesired(n *graph.Node, v any) {
	e.G.Save(n)
	n.Gen++
	e.SetFlag(n, assess.FlagSame, false)
	e.SetFlag(n, assess.FlagDerive, true)
	e.clearHold(n)
	if v != nil {
		e.letStay(n)
	}
	was := n.Desired
	if assess.Left(n) && kind.DesiredDiffer(kind.Of(n), n.Key, was, v) { // who says the same again asks for nothing new
		e.Unleave(n)
	}
	if v != nil && n.X != nil && (was == nil || kind.DesiredDiffer(kind.Of(n), n.Key, was, v)) { // it may need another object
		x := e.G.Extra(n)
		x.Flaps, x.CalmAt = nil, 0
	}
	reached := !assess.Has(n, assess.FlagUntried)
	e.SetFlag(n, assess.FlagUntried, true)
	if !e.Guard(n, func() { e.G.SetDesired(n, v) }) && !e.Guard(n, func() { e.G.SetDesired(n, was) }) {
		e.G.SetDesired(n, nil)
	}
	e.announce(n, was, reached)
	n.Peers(e.G.Wake) // whether they agree with it is part of their state
	if assess.Has(n, assess.FlagSame) || n.Presence != graph.Present || n.Foreign || v == nil {
		return
	}
	e.noteSame(n)
}

// announce announces the change of a node to what is wanted of it now. It was the value that was
// wanted before, if that was reached.
func (e *editor) announce(n *graph.Node, was any, reached bool) {
	from, announced := e.G.ChangesFrom(n)
	k := kind.Of(n)
	switch {
	case n.Presence != graph.Present || n.Foreign:
		e.G.EndChange(n)
	case announced:
		e.G.AnnounceChange(n, from) // on the way to something else now
	case was != nil && reached:
		e.G.AnnounceChange(n, was)
	case k != nil && !k.Observed && n.Goal() != nil && !e.IsSame(n, k, n.Actual):
		e.G.AnnounceChange(n, n.Actual) // it was found so
	}
}

// noteSame marks a node whose actual value is what is wanted. While an operation is
// under way that is about to be something else, and depends on that also.
func (e *editor) noteSame(n *graph.Node) {
	k := kind.Of(n)
	if k == nil || n.Busy() || k.Observed || n.Goal() == nil || n.Presence != graph.Present || n.Foreign || assess.Has(n, assess.FlagStale) {
		return
	}
	if e.IsSame(n, k, n.Actual) {
		e.G.AdoptNeeds(n)
		e.reached(n)
		if n.X != nil && n.X.Refused {
			e.accept(n)
		}
		e.clearFailure(n)
		e.Unleave(n)
	}
}

// reached marks a node whose actual value is what is wanted.
func (e *editor) reached(n *graph.Node) {
	e.SetFlag(n, assess.FlagSame, true)
	e.believeSecrets(n)
	e.G.EndChange(n)
	e.tried(n)
}

// tried marks a node whose desired value is or was in place, so that its derived values may follow.
func (e *editor) tried(n *graph.Node) {
	if !assess.Has(n, assess.FlagUntried) {
		return
	}
	e.SetFlag(n, assess.FlagUntried, false)
	if n.X != nil {
		for _, c := range n.X.Children {
			e.G.Wake(c)
		}
	}
}

// clearFailure forgets failures of a node that is as wanted, but for those to delete
// it: they are not mended by that, and it may have to go again in a moment.
func (e *editor) clearFailure(n *graph.Node) {
	switch {
	case !assess.FailedToGo(n):
		e.clearHold(n)
	case n.Held() == graph.UntilChange: // it was final, but not for ever
		e.hold(n, e.Set.RetryMax)
	}
}

// syncDerived makes the derived values of n those of its goal, or of what was observed.
func (e *editor) syncDerived(n *graph.Node, k *kind.Kind) {
	goal := n.Goal()
	if k.Observed {
		goal = assess.ActualOf(n)
	}
	if !assess.Has(n, assess.FlagDerive) && assess.Has(n, assess.FlagChildless) == (goal == nil) {
		return
	}
	e.SetFlag(n, assess.FlagDerive, false)
	e.SetFlag(n, assess.FlagChildless, goal == nil)
	var changes []kv.Change
	if goal != nil {
		if !e.Guard(n, func() { changes = k.Derive(n.Key, goal) }) {
			return // what it derived so far stays
		}
	}
	var was []*graph.Node
	if n.X != nil {
		was = n.X.Children
	}
	if len(changes) == 0 && len(was) == 0 {
		return
	}
	var refused []error
	keep := make(map[*graph.Node]bool, len(changes))
	children := make([]*graph.Node, 0, len(changes))
	for _, c := range changes {
		child := e.G.Node(c.Key)
		if child.Source == graph.Derived && child.Base != n || child.Source >= 0 {
			refused = append(refused, fmt.Errorf("it derives %s, which %s", c.Key, ownerOf(e, child)))
			e.refuse(n, child)
			continue
		}
		keep[child] = true
		children = append(children, child)
		e.derive(n, child, c.Value)
	}
	for _, child := range was {
		if keep[child] || child.Dropped() {
			continue
		}
		if child.Base == n && child.Source == graph.Derived {
			e.underive(child)
		}
		if !child.Dropped() && child.Base == n {
			children = append(children, child)
		}
	}
	slices.SortFunc(children, assess.ByKey)
	x := e.G.Extra(n)
	x.Children, x.Derived = children, errors.Join(refused...)
}

func ownerOf(e *editor, n *graph.Node) string {
	if n.Base != nil {
		return "is derived by " + string(n.Base.Key)
	}
	if name := e.Sources[n.Source].Name; name != "" {
		return "source " + name + " wants"
	}
	return "the source wants"
}

// refuse notes who would derive a key that another has; it tries again when
// the key is free.
func (e *editor) refuse(base, child *graph.Node) {
	if !slices.Contains(e.refused[child], base) {
		e.keepRefused(child)
		e.refused[child] = append(slices.Clip(e.refused[child]), base)
	}
}

// keepRefused has a preview take back what it changes of a key's refusals.
func (e *editor) keepRefused(child *graph.Node) {
	was, had := e.refused[child]
	e.G.OnUndo(func() {
		if e.refused[child] = was; !had {
			delete(e.refused, child)
		}
	})
}

// retryDerivers lets those derive the key who could not while another had it.
func (e *editor) retryDerivers(child *graph.Node) {
	bases := e.refused[child]
	if len(bases) == 0 {
		return
	}
	e.keepRefused(child)
	delete(e.refused, child)
	for _, base := range bases {
		if !base.Dropped() {
			e.SetFlag(base, assess.FlagDerive, true)
			e.G.Wake(base)
		}
	}
}

func (e *editor) derive(base, child *graph.Node, v any) {
	defer e.recordDesired(child, desiredOf(child))
	e.G.Save(child)
	if old := child.Base; old != nil && old != base && old.X != nil {
		x := e.G.Extra(old)
		x.Children = remove(x.Children, child)
	}
	child.Source = graph.Derived
	e.G.SetBase(child, base)
	e.SetFlag(child, assess.FlagWithdrawn, false)
	e.SetFlag(child, assess.FlagByOwner, false)
	e.G.Wake(child)
	if k := kind.Of(child); k != nil {
		if err := kind.Validate(k, child.Key, v); err != nil {
			e.G.Extra(child).Invalid = err
			return
		}
	}
	e.accept(child)
	e.setDesired(child, v)
}

// detachChildren takes back what a value derived whose kind has gone, once nobody wants it.
func (e *editor) detachChildren(n *graph.Node) {
	if n.Desired != nil || n.X == nil {
		return
	}
	children := n.X.Children
	for _, child := range children {
		if child.Dropped() || child.Base != n {
			continue
		}
		if child.Source == graph.Derived {
			e.underive(child)
		}
		e.G.SetBase(child, nil) // n may be forgotten before the child is
		e.wakeDerived(child)    // what it derives was held with n also
	}
	if len(children) > 0 {
		e.G.Extra(n).Children = nil
		e.SetFlag(n, assess.FlagDerive, true)
	}
}

// underive takes a derived value back; a source that wanted the key meanwhile gets it.
func (e *editor) underive(child *graph.Node) {
	was := desiredOf(child)
	e.G.Save(child)
	child.Source = graph.NoSource
	e.SetFlag(child, assess.FlagWithdrawn, true)
	e.G.Wake(child)
	if child.X != nil && len(child.X.Wants) > 0 {
		e.G.SetBase(child, nil)
		e.wakeDerived(child)
		e.applyStrongest(child, child.X.Wants)
		return
	}
	e.accept(child)
	e.setDesired(child, nil)
	e.recordDesired(child, was)
	e.retryDerivers(child)
}
