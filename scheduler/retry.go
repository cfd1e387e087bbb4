package scheduler

import (
	"cmp"
	"container/heap"
	"time"

	"github.com/plumb-net/plumb/scheduler/graph"
)

// hold leaves the node alone for a while.
func (e *engine) hold(n *graph.Node, d time.Duration) {
	at := e.now.Add(d)
	e.g.Extra(n).NextTry = at.UnixNano()
	e.setFlag(n, flagHeld, true)
	e.out.retryAt(n, at)
}

// clearHold forgets failures: the value or the world changed, or it worked.
func (e *engine) clearHold(n *graph.Node) {
	if n.X == nil || n.X.Err == nil && !has(n, flagHeld) || n.X.Overdue {
		return
	}
	e.out.unwait(n)
	x := e.g.Extra(n)
	x.Err, x.Attempts, x.NextTry, x.LastOp, x.LastTo = nil, 0, 0, 0, nil
	e.setFlag(n, flagHeld, false)
	e.g.Refute(n, false)
}

// retryAbove: n is not as it was, so what could not be made on it is tried
// again at once, also if its failure was final.
func (e *engine) retryAbove(n *graph.Node) {
	e.out.unblock(n)
	for _, edge := range n.In {
		d := edge.From
		if edge.OfDesired() && failedToMake(d) {
			e.clearHold(d)
			e.g.Wake(d)
		}
	}
}

// lapse: something that n needs is gone. What failed, or will, failed because of that, so
// it is tried at once when all is there again.
func (e *engine) lapse(n *graph.Node) {
	switch {
	case has(n, flagRunning):
		e.g.Extra(n).Lapsed = true
	case failedToMake(n):
		e.clearHold(n)
	}
}

// failedToMake reports whether n is held because it could not be made, or because what is
// there could not be read after that. What it left may still be read just now.
func failedToMake(n *graph.Node) bool {
	if !has(n, flagHeld) || n.X == nil {
		return false
	}
	switch n.Presence {
	case graph.Absent:
		return n.X.LastOp != 0
	case graph.Unknown:
		return Operation(n.X.LastOp) == OpCreate || Operation(n.X.LastOp) == OpUpdate
	}
	return false
}

// backoff doubles from RetryMin to RetryMax, with jitter.
func (e *engine) backoff(attempt int) time.Duration { return e.delay(attempt, Retries{}) }

func (e *engine) delay(attempt int, r Retries) time.Duration {
	d, most := cmp.Or(r.Min, e.set.retryMin), cmp.Or(r.Max, e.set.retryMax)
	for i := 1; i < attempt && d < most; i++ {
		d *= 2
	}
	d = min(d, most)
	return d + time.Duration(cmp.Or(r.Jitter, e.set.jitter)*(e.set.rand()-0.5)*float64(d))
}

// onceMore adds the present to times, of which those within the window stay.
// Times are unix nanoseconds; the list is copied, as previews ask.
func (e *engine) onceMore(times []int64, window time.Duration) []int64 {
	since := e.now.Add(-window).UnixNano()
	recent := make([]int64, 0, len(times)+1)
	for _, t := range times {
		if t > since {
			recent = append(recent, t)
		}
	}
	return append(recent, e.now.UnixNano())
}

// setRetries notes how a source wants failures of a node to be tried again, if
// its word is the one that counts.
func (e *engine) setRetries(n *graph.Node, src int8, r *Retries) {
	if n.Source != src || r == nil && n.X == nil {
		return
	}
	x := e.g.Extra(n)
	x.Retries = nil
	if r != nil {
		x.Retries = *r
	}
}

// retriesOf is how failures of a node are tried again: as it was wanted, or as
// what it is derived from was.
func retriesOf(n *graph.Node) Retries {
	for ; n != nil; n = n.Base {
		if n.X != nil && n.X.Retries != nil {
			return n.X.Retries.(Retries)
		}
	}
	return Retries{}
}

// retryQueue is what is due at a time: nodes to try again, kinds to read again.
type retryQueue struct{ items []retryItem }

type retryItem struct {
	at time.Time
	n  *graph.Node
	k  *kind
	f  func() // anything else that is due
}

func (q *retryQueue) Len() int           { return len(q.items) }
func (q *retryQueue) Less(i, j int) bool { return q.items[i].at.Before(q.items[j].at) }
func (q *retryQueue) Swap(i, j int)      { q.items[i], q.items[j] = q.items[j], q.items[i] }
func (q *retryQueue) Push(x any)         { q.items = append(q.items, x.(retryItem)) }
func (q *retryQueue) Pop() any {
	last := len(q.items) - 1
	it := q.items[last]
	q.items[last] = retryItem{}
	q.items = q.items[:last]
	return it
}

func (q *retryQueue) addNode(at time.Time, n *graph.Node) { heap.Push(q, retryItem{at: at, n: n}) }
func (q *retryQueue) addKind(at time.Time, k *kind)       { heap.Push(q, retryItem{at: at, k: k}) }
func (q *retryQueue) addFunc(at time.Time, f func())      { heap.Push(q, retryItem{at: at, f: f}) }

// arm asks for a turn when the next item is due.
func (e *engine) arm() {
	if len(e.retries.items) > 0 {
		e.wakeAt(e.retries.items[0].at)
	}
}

// due releases what is due now.
func (e *engine) due() {
	for len(e.retries.items) > 0 && !e.retries.items[0].at.After(e.now) {
		it := heap.Pop(&e.retries).(retryItem)
		switch {
		case it.f != nil:
			it.f()
		case it.k != nil:
			if e.kinds.registered(it.k) && it.k.look.attempts > 0 { // else it was read meanwhile
				e.under(it.k.look.cause, nil, func() { e.lookAtKind(it.k) })
			}
		case !it.n.Dropped() && has(it.n, flagHeld) && it.n.X.NextTry == it.at.UnixNano():
			e.under(it.n.Cause, it.n, func() { e.release(it.n) }) // it goes on for the same reason
		}
	}
	e.arm()
}

// release ends a hold: the node is tried again. What is there is read first,
// where it can be.
func (e *engine) release(n *graph.Node) {
	e.setFlag(n, flagHeld, false)
	x := e.g.Extra(n)
	x.NextTry, x.CalmAt = 0, 0
	e.g.Refute(n, false)
	e.touch(n)
	if k := kindOf(n); k != nil && k.retrieve != nil && n.Presence != graph.Absent {
		e.suspect(n)
	}
	e.g.Wake(n)
}
