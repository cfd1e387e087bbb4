package engine

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/plumb-net/plumb/scheduler/internal/assess"
	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// budget is how many keys of a kind that a policy covers may begin to go within a minute.
type budget struct {
	limit kv.Disruptions
	begun []time.Time // the turns within the last minute, the oldest first
	// waiting are the nodes that asked for a turn, and when: they are numbered. Those that
	// do not wait any more are struck out when the next turn is given.
	waiting map[*graph.Node]uint64
	timed   bool // a timer runs
}

// budgetID names a budget. A kind that comes back finds its budget as it was.
type budgetID struct {
	kind    string
	pattern kv.Key
}

// takeTurn gives a node its turn in the budget of its kind, where it waits for that and may
// have it now, and takes back a turn of which nothing came. It returns how the node stands
// then. As long as the node waits, what depends on it does as if it were to stay.
func (e *Engine) takeTurn(n *graph.Node, a assess.Assessment) assess.Assessment {
	if a.Blocker == assess.OnBudget && e.Out.MayDisrupt(n) {
		e.SetFlag(n, assess.FlagHasTurn, true)
		e.awaitTurn(n, false)
		return e.Assess(n)
	}
	if n.Presence == graph.Unknown || a.Due == assess.DoLook {
		return a // a read will tell
	}
	e.awaitTurn(n, a.Blocker == assess.OnBudget)
	e.SetFlag(n, assess.FlagHasTurn, a.Leaving) // who begins to go with others goes on without them
	return a
}

// awaitTurn notes whether a node waits for its turn.
func (e *Engine) awaitTurn(n *graph.Node, yes bool) {
	e.G.DeferChange(n, yes)
	if assess.Has(n, assess.FlagAwaitsTurn) == yes {
		return
	}
	e.SetFlag(n, assess.FlagAwaitsTurn, yes)
	e.wakeDerived(n)
}

// endTurn forgets the turn of a node whose kind has gone.
func (e *Engine) endTurn(n *graph.Node) {
	e.SetFlag(n, assess.FlagAwaitsTurn, false)
	e.SetFlag(n, assess.FlagHasTurn, false)
}

// wakeGoing wakes what depends on a node that has begun to leave, or goes together with it,
// and waits for a turn of its own: it needs none any more.
func (e *Engine) wakeGoing(n *graph.Node) {
	wake := func(d *graph.Node) bool {
		if assess.Has(d, assess.FlagAwaitsTurn) {
			e.G.Wake(d)
		}
		return true
	}
	n.EachDependent(wake)
	for _, edge := range n.In {
		wake(edge.From)
	}
}

// MayDisrupt reports whether a node that is to go may begin to. If not, it has a place among
// those that wait, and is woken when its turn comes.
func (e *Engine) MayDisrupt(n *graph.Node) bool {
	limit, pattern := e.Policies.Disruptions(n.Key)
	id := budgetID{kind.Of(n).Name, pattern}
	b := e.budgets[id]
	if b == nil {
		b = &budget{limit: limit, waiting: map[*graph.Node]uint64{}}
		if e.budgets == nil {
			e.budgets = map[budgetID]*budget{}
		}
		e.budgets[id] = b
	}
	if _, waits := b.waiting[n]; !waits || !assess.Has(n, assess.FlagAwaitsTurn) {
		e.asked++
		b.waiting[n] = e.asked
	}
	e.giveTurns(b)
	return assess.Has(n, assess.FlagHasTurn)
}

// giveTurns gives as many nodes their turn as the budget has left, in the order in which
// they asked.
func (e *Engine) giveTurns(b *budget) {
	b.begun = slices.DeleteFunc(b.begun, func(t time.Time) bool { return !t.Add(kv.DisruptionWindow).After(e.Now) })
	if len(b.begun) < int(b.limit) {
		byNumber := func(m, n *graph.Node) int { return cmp.Compare(b.waiting[m], b.waiting[n]) }
		for _, n := range slices.SortedFunc(maps.Keys(b.waiting), byNumber) {
			if len(b.begun) == int(b.limit) {
				break
			}
			switch {
			case e.Assess(n).Blocker == assess.OnBudget:
				b.begun = append(b.begun, e.Now)
				delete(b.waiting, n)
				e.SetFlag(n, assess.FlagHasTurn, true)
			case n.Dropped() || !assess.Has(n, assess.FlagAwaitsTurn):
				delete(b.waiting, n)
				continue
			}
			// What is being read keeps its place, and what needs no turn any more goes on.
			e.CausedBy(n.Cause, n, func() { e.G.Wake(n) })
		}
	}
	if len(b.waiting) > 0 && len(b.begun) > 0 && !b.timed {
		b.timed = true
		e.Retries.AddFunc(b.begun[0].Add(kv.DisruptionWindow), func() {
			b.timed = false
			e.giveTurns(b)
		})
		e.Arm()
	}
}

// AwaitTurn is how many keys of a kind wait for their turn.
func (e *Engine) AwaitTurn(k *kind.Kind) (n int) {
	for id, b := range e.budgets {
		if id.kind != k.Name {
			continue
		}
		for m := range b.waiting {
			if assess.Has(m, assess.FlagAwaitsTurn) {
				n++
			}
		}
	}
	return n
}
