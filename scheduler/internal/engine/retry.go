package engine

import (
	"cmp"
	"container/heap"
	"time"

	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// hold leaves the node alone for a while.
func (e *nodes) hold(n *graph.Node, d time.Duration) {
	at := e.Now.Add(d)
	e.G.Hold(n, at.UnixNano())
	e.Out.RetryAt(n, at)
}

// clearHold forgets failures: the value or what is there changed, or it worked.
func (e *nodes) clearHold(n *graph.Node) {
	if n.X == nil || n.X.Err == nil && n.Held() == graph.NotHeld || n.Phase == graph.Overdue {
		return
	}
	e.Out.Unwait(n)
	x := e.G.Extra(n)
	x.Err, x.Attempts, x.Lapses, x.LastOp, x.LastTo = nil, 0, 0, 0, nil
	e.G.EndHold(n)
}

// retryAbove: n is not as it was, so what could not be made on it is tried
// again at once, also if its failure was final.
func (e *nodes) retryAbove(n *graph.Node) {
	e.Out.Unblock(n)
	n.EachIncoming(func(edge *graph.Edge) {
		d := edge.From
		if edge.OfDesired() && failedToMake(d) {
			e.clearHold(d)
			e.G.Wake(d)
		}
	})
}

// lapse: something that n needs is gone. What failed, or will, failed because of that, so
// it is tried at once when all is there again.
func (e *nodes) lapse(n *graph.Node) {
	switch {
	case n.Operates():
		e.G.Extra(n).Lapsed = true
	case failedToMake(n):
		e.clearHold(n)
	}
}

// failedToMake reports whether n is held because it could not be made, or because what is
// there could not be read after that. What it left may still be read just now.
func failedToMake(n *graph.Node) bool {
	if n.Held() == graph.NotHeld {
		return false
	}
	switch n.Presence {
	case graph.Absent:
		return n.X.LastOp != 0
	case graph.Unknown:
		return kv.Operation(n.X.LastOp) == kv.OpCreate || kv.Operation(n.X.LastOp) == kv.OpUpdate
	}
	return false
}

// Backoff doubles from RetryMin to RetryMax, with jitter.
func (e *nodes) Backoff(attempt int) time.Duration { return e.delay(attempt, kv.Retries{}) }

func (e *nodes) delay(attempt int, r kv.Retries) time.Duration {
	d, most := cmp.Or(r.Min, e.Set.RetryMin), cmp.Or(r.Max, e.Set.RetryMax)
	for i := 1; i < attempt && d < most; i++ {
		d *= 2
	}
	d = min(d, most)
	return d + time.Duration(cmp.Or(r.Jitter, e.Set.Jitter)*(e.Set.Rand()-0.5)*float64(d))
}

// onceMore adds the present to times, of which those within the window stay.
// Times are unix nanoseconds; the list is copied, as previews ask.
func (e *nodes) onceMore(times []int64, window time.Duration) []int64 {
	since := e.Now.Add(-window).UnixNano()
	recent := make([]int64, 0, len(times)+1)
	for _, t := range times {
		if t > since {
			recent = append(recent, t)
		}
	}
	return append(recent, e.Now.UnixNano())
}

// setRetries notes how a source wants failures of a node to be tried again, if
// its word is the one that counts.
func (e *nodes) setRetries(n *graph.Node, src int8, r *kv.Retries) {
	if n.Source != src || r == nil && n.X == nil {
		return
	}
	x := e.G.Extra(n)
	x.Retries = nil
	if r != nil {
		x.Retries = *r
	}
}

// retriesOf is how failures of a node are tried again: as it was wanted, or as
// what it is derived from was.
func retriesOf(n *graph.Node) kv.Retries {
	for ; n != nil; n = n.Base {
		if n.X != nil && n.X.Retries != nil {
			return n.X.Retries.(kv.Retries)
		}
	}
	return kv.Retries{}
}

// retryQueue is what is due at a time: nodes to try again, kinds to read again.
type retryQueue struct{ items []retryItem }

type retryItem struct {
	at time.Time
	n  *graph.Node
	k  *kind.Kind
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
func (q *retryQueue) addKind(at time.Time, k *kind.Kind)  { heap.Push(q, retryItem{at: at, k: k}) }

// AddFunc has f called at a time.
func (q *retryQueue) AddFunc(at time.Time, f func()) { heap.Push(q, retryItem{at: at, f: f}) }

// Arm asks for a turn when the next item is due.
func (e *nodes) Arm() {
	if len(e.Retries.items) > 0 {
		e.wakeAt(e.Retries.items[0].at)
	}
}

// Due releases what is due now.
func (e *Engine) Due() {
	for len(e.Retries.items) > 0 && !e.Retries.items[0].at.After(e.Now) {
		it := heap.Pop(&e.Retries).(retryItem)
		switch {
		case it.f != nil:
			it.f()
		case it.k != nil:
			if e.Kinds.Registered(it.k) && it.k.Look.Attempts > 0 { // else it was read meanwhile
				e.CausedBy(it.k.Look.Cause, nil, func() { e.lookAtKind(it.k) })
			}
		case !it.n.Dropped() && it.n.Held() == graph.UntilTime && it.n.X.NextTry == it.at.UnixNano():
			e.CausedBy(it.n.Cause, it.n, func() { e.TryAgain(it.n) }) // it goes on for the same reason
		}
	}
	e.Arm()
}

// TryAgain has a node tried again that is held. What is there is read first, where it can
// be.
func (e *nodes) TryAgain(n *graph.Node) {
	if n.Held() == graph.NotHeld {
		return
	}
	e.G.EndHold(n)
	e.G.Extra(n).CalmAt = 0
	e.Out.Touch(n)
	if n.Presence != graph.Absent {
		e.markForRead(n)
	}
	e.G.Wake(n)
}
