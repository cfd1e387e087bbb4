package engine

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/scheduler/internal/assess"
	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
	"github.com/plumb-net/plumb/scheduler/kv"
)

const (
	// fewKeys may go whatever share of their kind they are.
	fewKeys = 20
	// everything is that many keys at least, if nothing is left that anybody wants.
	everything = 10
)

// HoldBack holds back what nobody wants any more, if that is more than the policies let go
// at once. It is asked after an edit and before anything follows from it, with the nodes
// that the edit touched.
func (e *Engine) HoldBack(touched []*graph.Node) {
	going, reason := e.TooMany(touched)
	if reason == "" {
		return
	}
	e.heldBacks++
	h := &assess.HeldBack{ID: fmt.Sprintf("held-%d", e.heldBacks), Reason: reason, Cause: e.G.Cause, At: e.Now}
	if e.HeldBack == nil {
		e.HeldBack = map[kv.Key]*assess.HeldBack{}
	}
	for _, n := range going {
		e.HeldBack[n.Key] = h
		e.wakeDerived(n)
	}
	e.logf(slog.LevelError, "more would be removed than may go at once; it is held back", "id", h.ID, "keys", len(going), "reason", h.Reason)
}

// TooMany returns those of the nodes that no source wants any more and that would go, and why
// that is too many at once; the reason is empty if it is not. The limits are for what is
// concluded and for what operators delete: what its owner takes back is not counted.
func (e *Engine) TooMany(touched []*graph.Node) (going []*graph.Node, reason string) {
	if !slices.ContainsFunc(e.Policies, func(p kv.Policy) bool { return p.Deletions != (kv.Deletions{}) }) {
		return nil, ""
	}
	for _, n := range touched {
		if _, takenBack := e.takenBack[n.Key]; goes(n) && e.HeldBack[n.Key] == nil && !takenBack && !assess.Has(n, assess.FlagByOwner) {
			going = append(going, n)
		}
	}
	return going, strings.Join(e.tooMany(going), ", ")
}

// derivedOfGone reports whether a leftover was derived by a value that its owner took back before
// leftovers were judged. That value may be deleted already, so that the leftover has no base to join.
func (e *Engine) derivedOfGone(n *graph.Node) bool {
	k := kind.Of(n)
	if k == nil || k.DerivedBy == nil || n.Base != nil || n.Foreign {
		return false
	}
	by := k.DerivedBy(n.Key)
	base := e.G.Get(by)
	return e.goneEarly[by] && (base == nil || !base.Wanted())
}

// judgeLeft does the same once for the leftovers of earlier runs, when it is known for the
// first time that no source wants them. It reports whether it did. A preview goes on
// as if nothing were held back, see plan.Plan.Held.
func (e *Engine) judgeLeft() bool {
	if e.Judged || !e.MayDelete() || e.Unread() {
		return false
	}
	var left []*graph.Node
	e.G.All(func(n *graph.Node) bool {
		if n.Presence != graph.Absent && !n.Wanted() {
			left = append(left, n)
		}
		return true
	})
	slices.SortFunc(left, assess.ByKey)
	for _, n := range left {
		e.joinBase(n)
		if e.derivedOfGone(n) {
			e.SetFlag(n, assess.FlagByOwner, true)
		}
		if e.AwaitsJudgement(n) {
			e.G.Wake(n)
		}
	}
	e.G.OnUndo(func() { e.Judged = false })
	e.Judged = true
	if !e.G.Trying() {
		e.HoldBack(left)
	}
	if early := e.goneEarly; len(early) > 0 {
		e.G.OnUndo(func() { e.goneEarly = early })
		e.goneEarly = nil
	}
	e.AllMoved = true
	return true
}

// joinBase makes a leftover a part of the value that derived it in an earlier run, as it would
// be if the process had not ended: it is held back with that value or goes with a change
// of it, and is not counted by itself. If that value is neither valid nor on its way
// out, nothing is known about the leftover, and it is judged by itself.
func (e *Engine) joinBase(n *graph.Node) {
	k := kind.Of(n)
	if k == nil || k.DerivedBy == nil || n.Base != nil || n.Foreign { // an object of others is part of nothing
		return
	}
	base := e.G.Get(k.DerivedBy(n.Key))
	if base == nil || base == n || base.Base == nil && !goes(base) && (base.Goal() == nil || base.X != nil && base.X.Invalid != nil) {
		return
	}
	e.G.SetBase(n, base)
	if n.Actual != nil {
		e.G.SetActualNeeds(n, n.Actual)
	}
	x := e.G.Extra(base)
	x.Children = append(slices.Clip(x.Children), n)
	slices.SortFunc(x.Children, assess.ByKey)
}

// goes reports whether a node is ours, is there as far as is known, and is wanted by nobody.
// What is derived goes with its base.
func goes(n *graph.Node) bool {
	k := kind.Of(n)
	return k != nil && !k.Observed && n.Presence != graph.Absent && !n.Foreign && !n.Wanted() && n.Desired == nil && n.Base == nil
}

// tooMany says for which kinds more would go than may.
func (e *Engine) tooMany(going []*graph.Node) (reasons []string) {
	count := map[*kind.Kind]int{}
	for _, n := range going {
		if e.Policies.Deletions(n.Key) != (kv.Deletions{}) {
			count[kind.Of(n)]++
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(count), func(a, b *kind.Kind) int { return cmp.Compare(a.Prefix, b.Prefix) }) {
		limit, n := e.Policies.Deletions(k.Prefix), count[k]
		if limit == (kv.Deletions{}) || n <= fewKeys && (limit.Most == 0 || n <= limit.Most) {
			continue
		}
		all := e.ours(k)
		switch {
		case limit.Most > 0 && n > limit.Most:
			reasons = append(reasons, fmt.Sprintf("%d of %d %s would go, and %d may", n, all, k.Name, limit.Most))
		case limit.Percent > 0 && n*100 > all*limit.Percent:
			reasons = append(reasons, fmt.Sprintf("%d of %d %s would go, and %d %% may", n, all, k.Name, limit.Percent))
		}
	}
	if len(reasons) == 0 && len(going) >= everything && len(count) > 0 && !e.anyWanted() {
		reasons = append(reasons, fmt.Sprintf("all %d would go, for nothing is wanted any more", len(going)))
	}
	return reasons
}

// ours is how many keys of a kind are there that we made.
func (e *Engine) ours(k *kind.Kind) (n int) {
	e.G.Below(k.Prefix, func(o *graph.Node) bool {
		if o.Presence != graph.Absent && !o.Foreign {
			n++
		}
		return true
	})
	return n
}

func (e *Engine) anyWanted() bool {
	any := false
	e.G.All(func(n *graph.Node) bool {
		any = n.Wanted() && n.Base == nil
		return !any
	})
	return any
}

// TakeBack says that keys may go however many they are, until it is said that this ends; and
// beyond that until they are wanted anew, for what goes may be seen to do so later.
func (e *Engine) TakeBack(keys []kv.Key) (end func()) {
	if e.takenBack == nil {
		e.takenBack = map[kv.Key]int{}
	}
	for _, k := range keys {
		e.takenBack[k]++
	}
	return func() {
		for _, k := range keys {
			e.takenBack[k]--
			if n := e.G.Get(k); n != nil && n.Desired != nil {
				e.notTakenBack(n)
			}
		}
	}
}

func (e *editor) notTakenBack(n *graph.Node) {
	if times, is := e.takenBack[n.Key]; is && times <= 0 {
		e.G.OnUndo(func() { e.takenBack[n.Key] = times })
		delete(e.takenBack, n.Key)
	}
}

// Release lets go what is held back under an id; "" means all. It reports whether there
// was any.
func (e *Engine) Release(id string) (released bool) {
	for _, k := range slices.Sorted(maps.Keys(e.HeldBack)) {
		if h := e.HeldBack[k]; id == "" || h.ID == id {
			delete(e.HeldBack, k)
			released = true
			if n := e.G.Get(k); n != nil {
				e.wakeDerived(n)
			}
		}
	}
	if released {
		e.AllMoved = true
	}
	return released
}

// takenByOwner notes that its owner has taken a key back, unless another source wants it. No
// limit, turn or pause holds the key from now on, until it is wanted again.
func (e *editor) takenByOwner(n *graph.Node) {
	if n.Wanted() {
		return
	}
	e.SetFlag(n, assess.FlagByOwner, true)
	if !e.Judged && !e.goneEarly[n.Key] {
		e.G.OnUndo(func() { delete(e.goneEarly, n.Key) })
		if e.goneEarly == nil {
			e.goneEarly = map[kv.Key]bool{}
		}
		e.goneEarly[n.Key] = true
	}
	e.unhold(n)
	e.wakeDerived(n)
	n.EachIncoming(func(edge *graph.Edge) { // also those that are made together with n
		if edge.OfActual() {
			e.wakeDerived(edge.From)
		}
	})
}

// letStay: the node is wanted, so it need not go any more.
func (e *editor) letStay(n *graph.Node) {
	e.notTakenBack(n)
	e.unhold(n)
}

// unhold ends that a node is held back.
func (e *editor) unhold(n *graph.Node) {
	h := e.HeldBack[n.Key]
	if h == nil {
		return
	}
	e.G.OnUndo(func() { e.HeldBack[n.Key] = h })
	delete(e.HeldBack, n.Key)
	e.wakeDerived(n)
}
