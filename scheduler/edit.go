package scheduler

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/plumb-net/plumb/scheduler/graph"
)

// edit takes what a source wants into the graph. It returns the nodes that are touched by
// it.
func (e *engine) edit(src int8, want []Change, complete bool, retries *Retries) []*graph.Node {
	nodes := make([]*graph.Node, 0, len(want))
	e.g.Grow(len(want))
	e.touched = slices.Grow(e.touched, len(want))
	e.making.grow(len(want))
	e.newPass()
	for _, c := range want {
		n := e.g.Node(c.Key)
		e.g.Touch(n)
		n.Mark = e.mark
		if !saidAgain(n, src, c) {
			e.want(n, src, c)
		}
		e.setRetries(n, src, retries)
		nodes = append(nodes, n)
	}
	if complete {
		nodes = append(nodes, e.withdrawUnnamed(src)...)
		e.out.speak(src)
	}
	return nodes
}

// saidAgain reports whether the source asks for what it asks for already, and
// nothing is wrong that saying it again could mend.
func saidAgain(n *graph.Node, src int8, c Change) bool {
	k := kindOf(n)
	return k != nil && n.Source == src && c.Value != nil && c.Invalid == nil && n.Desired != nil &&
		(n.X == nil || n.X.Quiet()) && k.identical(n.Desired, c.Value)
}

// withdrawUnnamed takes back what the source wanted and did not name.
func (e *engine) withdrawUnnamed(src int8) []*graph.Node {
	var gone []*graph.Node
	e.g.All(func(n *graph.Node) bool {
		if n.Mark != e.mark && wants(n, src) {
			gone = append(gone, n)
		}
		return true
	})
	slices.SortFunc(gone, byKey)
	for _, n := range gone {
		e.want(n, src, Change{Key: n.Key})
		e.setFlag(n, flagWithdrawn, false) // concluded, not said
	}
	return gone
}

// speak notes the complete word of a source. After the last one, things may go
// only because nobody wants them.
func (e *engine) speak(src int8) {
	if e.sources[src].spoken {
		return
	}
	e.sources[src].spoken = true
	e.spoken++
	if e.mayDelete() {
		e.wakeLeft()
	}
}

// noGrace ends the waiting for sources that have not spoken.
func (e *engine) noGrace() {
	if e.mayDelete() {
		return
	}
	e.logf(slog.LevelWarn, "what nobody wants is deleted now, though not all sources have spoken", "silent", e.unspoken())
	e.graceless = true
	e.wakeLeft()
}

// wakeLeft: what is left over may go, and what lacks something.
func (e *engine) wakeLeft() {
	var left []*graph.Node
	e.g.All(func(n *graph.Node) bool {
		if n.Presence != graph.Absent && (!n.Wanted() || n.Needs() == graph.Missing) {
			left = append(left, n)
		}
		return true
	})
	slices.SortFunc(left, byKey)
	for _, n := range left {
		e.g.Wake(n)
	}
	e.recheckAll = true
}

// wants reports whether the source asks for the node, also if a stronger one does.
func wants(n *graph.Node, src int8) bool {
	if n.X != nil && n.X.Wants != nil {
		return slices.ContainsFunc(n.X.Wants, func(w graph.Want) bool { return w.Source == src })
	}
	return n.Source == src
}

// want sets, or with no value takes back, what one source asks of a node.
// Most nodes have one want, which is valid: it lives in Source and Desired.
func (e *engine) want(n *graph.Node, src int8, c Change) {
	if n.Source == graph.Derived {
		e.refuseDerived(n, src, c)
		return
	}
	simple := n.X == nil && (n.Source == graph.NoSource || n.Source == src) && c.Invalid == nil
	if !simple {
		x := e.g.Extra(n)
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

func replaceWant(ws []graph.Want, src int8, c Change) []graph.Want {
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

func (e *engine) applyStrongest(n *graph.Node, ws []graph.Want) {
	if len(ws) == 0 {
		e.apply(n, nil)
		return
	}
	e.apply(n, &ws[0])
}

// refuseDerived: a source may not write what another value derives. The wish
// is kept, and counts once the derived value is gone.
func (e *engine) refuseDerived(n *graph.Node, src int8, c Change) {
	x := e.g.Extra(n)
	x.Wants = replaceWant(x.Wants, src, c)
	e.g.Wake(n)
}

// apply makes w the want that counts for the node; nil for none.
func (e *engine) apply(n *graph.Node, w *graph.Want) {
	defer e.asked(n, wishOf(n))
	e.g.Touch(n)
	e.g.Wake(n)
	e.touch(n)
	if w == nil {
		e.withdraw(n)
		return
	}
	k, was := kindOf(n), n.Source
	n.Source = w.Source
	err := w.Invalid
	if err == nil && k != nil {
		err = validate(k, n.Key, w.Value)
	}
	if err != nil {
		x := e.g.Extra(n)
		if x.Wants == nil {
			x.Wants = []graph.Want{*w}
		}
		x.Invalid, x.Asked, x.Refused = err, w.Value, false
		e.clearHold(n)
		e.keepWorld(n)
		if n.Desired != nil && n.Source != was {
			e.g.SetDesired(n, n.Desired) // claims go by the source
		}
		return
	}
	e.accept(n)
	e.setFlag(n, flagWithdrawn, false)
	e.setDesired(n, w.Value)
}

// accept forgets that a value was refused.
func (e *engine) accept(n *graph.Node) {
	if n.X != nil {
		e.g.Extra(n).Invalid, n.X.Asked, n.X.Refused = nil, nil, false
	}
}

// keepWorld: an invalid value leaves the object of the last valid one in
// place. After a restart what is in the world is all that is known of that.
func (e *engine) keepWorld(n *graph.Node) {
	if !has(n, flagWithdrawn) && n.Desired == nil && n.Presence == graph.Present && !n.Foreign && n.Actual != nil {
		e.setDesired(n, n.Actual)
	}
}

// withdraw: nobody wants the node any more. Said of what nobody wanted as far as is
// known, it lets that go before all sources have spoken.
func (e *engine) withdraw(n *graph.Node) {
	if !n.Wanted() && n.Desired == nil {
		if n.Presence == graph.Present && !n.Foreign {
			e.setFlag(n, flagWithdrawn, true)
		}
		return
	}
	n.Source = graph.NoSource
	e.setFlag(n, flagWithdrawn, true)
	e.freed(n)
	e.accept(n)
	e.setDesired(n, nil)
}

// setDesired changes the value that should be in the world, and forgets
// failures of the value before.
func (e *engine) setDesired(n *graph.Node, v any) {
	e.g.Touch(n)
	n.Gen++
	e.setFlag(n, flagSame, false)
	e.setFlag(n, flagDerive, true)
	e.clearHold(n)
	was := n.Desired
	if left(n) && wishesDiffer(kindOf(n), n.Key, was, v) { // who says the same again asks for nothing new
		e.unleave(n)
	}
	reached := !has(n, flagUntried)
	e.setFlag(n, flagUntried, true)
	if !e.guard(n, func() { e.g.SetDesired(n, v) }) && !e.guard(n, func() { e.g.SetDesired(n, was) }) {
		e.g.SetDesired(n, nil)
	}
	switch {
	case n.Presence != graph.Present || n.Foreign:
		e.g.Change(n, nil)
	case was != nil && reached:
		e.g.Change(n, was)
	case n.X != nil && n.X.Was != nil:
		e.g.Change(n, n.X.Was) // on the way to something else now
	}
	n.Peers(e.g.Wake) // whether they agree with it is part of their state
	if has(n, flagSame) || n.Presence != graph.Present || n.Foreign || v == nil {
		return
	}
	e.noteSame(n)
}

// noteSame marks a node whose world is what is wanted. While an operation is
// under way the world is about to be something else, and stands on that also.
func (e *engine) noteSame(n *graph.Node) {
	k := kindOf(n)
	if k == nil || n.Moving || k.Observed || n.Goal() == nil || n.Presence != graph.Present || n.Foreign || has(n, flagStale) {
		return
	}
	if e.isSame(n, k, n.Actual) {
		e.g.AdoptNeeds(n)
		e.reached(n)
		if n.X != nil && n.X.Refused {
			e.accept(n)
		}
		e.forgive(n)
		e.unleave(n)
	}
}

// reached marks a node whose world is what is wanted: what it derives may follow.
func (e *engine) reached(n *graph.Node) {
	e.setFlag(n, flagSame, true)
	e.believeSecrets(n)
	e.g.Change(n, nil)
	if !has(n, flagUntried) {
		return
	}
	e.setFlag(n, flagUntried, false)
	if n.X != nil {
		for _, c := range n.X.Children {
			e.g.Wake(c)
		}
	}
}

// forgive forgets failures of a node that is as wanted, but for those to delete
// it: they are not mended by that, and it may have to go again in a moment.
func (e *engine) forgive(n *graph.Node) {
	switch x := n.X; {
	case !failedToGo(n):
		e.clearHold(n)
	case has(n, flagHeld) && x.NextTry == 0: // it was final, but not for ever
		e.hold(n, e.set.retryMax)
	}
}

// syncDerived makes the derived values of n those of its goal, or of what was observed.
func (e *engine) syncDerived(n *graph.Node, k *kind) {
	goal := n.Goal()
	if k.Observed {
		goal = actualOf(n)
	}
	if !has(n, flagDerive) && has(n, flagChildless) == (goal == nil) {
		return
	}
	e.setFlag(n, flagDerive, false)
	e.setFlag(n, flagChildless, goal == nil)
	var changes []Change
	if goal != nil {
		if !e.guard(n, func() { changes = k.derive(n.Key, goal) }) {
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
		child := e.g.Node(c.Key)
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
	slices.SortFunc(children, byKey)
	x := e.g.Extra(n)
	x.Children, x.Derived = children, errors.Join(refused...)
}

func ownerOf(e *engine, n *graph.Node) string {
	if n.Base != nil {
		return "is derived by " + string(n.Base.Key)
	}
	if name := e.sources[n.Source].name; name != "" {
		return "source " + name + " wants"
	}
	return "the source wants"
}

// refuse notes who would derive a key that another has; it tries again when
// the key is free.
func (e *engine) refuse(base, child *graph.Node) {
	if !slices.Contains(e.refused[child], base) {
		e.keepRefused(child)
		e.refused[child] = append(slices.Clip(e.refused[child]), base)
	}
}

// keepRefused has a preview take back what it changes of a key's refusals.
func (e *engine) keepRefused(child *graph.Node) {
	was, had := e.refused[child]
	e.g.OnUndo(func() {
		if e.refused[child] = was; !had {
			delete(e.refused, child)
		}
	})
}

// freed lets those derive the key who could not while another had it.
func (e *engine) freed(child *graph.Node) {
	bases := e.refused[child]
	if len(bases) == 0 {
		return
	}
	e.keepRefused(child)
	delete(e.refused, child)
	for _, base := range bases {
		if !base.Dropped() {
			e.setFlag(base, flagDerive, true)
			e.g.Wake(base)
		}
	}
}

func (e *engine) derive(base, child *graph.Node, v any) {
	defer e.asked(child, wishOf(child))
	e.g.Touch(child)
	if old := child.Base; old != nil && old != base && old.X != nil {
		x := e.g.Extra(old)
		x.Children = remove(x.Children, child)
	}
	child.Source = graph.Derived
	e.g.SetBase(child, base)
	e.setFlag(child, flagWithdrawn, false)
	e.g.Wake(child)
	if k := kindOf(child); k != nil {
		if err := validate(k, child.Key, v); err != nil {
			e.g.Extra(child).Invalid = err
			return
		}
	}
	e.accept(child)
	e.setDesired(child, v)
}

// disown takes back what a value derived whose kind has gone, once nobody wants it.
func (e *engine) disown(n *graph.Node) {
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
		e.g.SetBase(child, nil) // n may be forgotten before the child is
		e.wakeDerived(child)    // what it derives was held with n also
	}
	if len(children) > 0 {
		e.g.Extra(n).Children = nil
		e.setFlag(n, flagDerive, true)
	}
}

// underive takes a derived value back; a source that wanted the key meanwhile gets it.
func (e *engine) underive(child *graph.Node) {
	was := wishOf(child)
	e.g.Touch(child)
	child.Source = graph.NoSource
	e.setFlag(child, flagWithdrawn, true)
	e.g.Wake(child)
	if child.X != nil && len(child.X.Wants) > 0 {
		e.g.SetBase(child, nil)
		e.wakeDerived(child)
		e.applyStrongest(child, child.X.Wants)
		return
	}
	e.accept(child)
	e.setDesired(child, nil)
	e.asked(child, was)
	e.freed(child)
}
