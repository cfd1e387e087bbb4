package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/plumb-net/plumb/scheduler/internal/assess"
	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// nodes does to single nodes what all need: flags, holds and retries, requests for reads.
type nodes struct {
	recorder
	Set     Settings
	Out     Outside
	Retries retryQueue
	blocked map[kv.Key]map[*graph.Node]bool // whose operations wait for a key; false: they are tried again
	stamp   uint64                          // counts operations and reads, to tell stale reads
	// AllMoved: something has changed that shows at no node.
	AllMoved bool

	// What the engine asks of the loop around it.
	wakeAt func(at time.Time)
	logf   func(level slog.Level, msg string, args ...any)
}

// Settings are those of the scheduler's options that the engine acts by.
type Settings struct {
	RetryMin, RetryMax time.Duration
	Jitter             float64
	Timeout            time.Duration // of a step of a plan that is waited for
	Rand               func() float64
}

// SetFlag sets or clears a flag of a node.
func (e *nodes) SetFlag(n *graph.Node, flag uint16, on bool) {
	if assess.Has(n, flag) == on {
		return
	}
	e.G.Save(n)
	if on {
		n.Flags |= flag
	} else {
		n.Flags &^= flag
	}
}

// CausedBy runs f with the cause that it, and all it wakes, is put down to.
func (e *nodes) CausedBy(cause uint64, via *graph.Node, f func()) {
	c, v := e.G.Cause, e.G.Via
	e.G.Cause, e.G.Via = cause, via
	f()
	e.G.Cause, e.G.Via = c, v
}

// setStale notes whether a node was built with something that has changed.
func (e *nodes) setStale(n *graph.Node, yes bool) {
	e.SetFlag(n, assess.FlagStale, yes)
	if yes {
		e.SetFlag(n, assess.FlagSame, false)
	}
}

// noteFailure notes the error of an operation, or of a read, and when to try again.
func (e *nodes) noteFailure(n *graph.Node, what kv.Operation, err error) {
	e.Out.Unwait(n)
	x := e.G.Extra(n)
	x.Err, x.LastOp = err, uint8(what)
	needLost := x.Lapsed && (what == kv.OpCreate || what == kv.OpUpdate)
	switch {
	case needLost: // it says nothing of what comes when its needs are back
	case kv.IsLapsed(err):
		x.Lapses++ // it uses up no attempt, but is tried less and less often
	default:
		x.Attempts++
	}
	var oe *kv.OpError
	var invalid *kv.InvalidError
	r := retriesOf(n)
	delay := e.delay(x.Attempts+x.Lapses, r)
	switch {
	case errors.As(err, &invalid):
		e.G.HoldForGood(n)
		return
	case needLost:
		e.logFailure(n, what, err, 0)
		return
	case errors.As(err, &oe) && oe.Terminal:
		e.G.HoldForGood(n)
		e.logFailure(n, what, err, 0)
		return
	case r.Attempts > 0 && x.Attempts >= r.Attempts:
		x.Err = fmt.Errorf("%w; all %d attempts are used up", err, r.Attempts)
		e.G.HoldForGood(n)
		e.logFailure(n, what, err, 0)
		return
	case errors.As(err, &oe) && oe.After > 0:
		delay = oe.After
	case errors.As(err, &oe) && oe.On != "":
		delay = e.block(n, oe.On, delay)
	}
	e.hold(n, delay)
	e.logFailure(n, what, err, delay)
}

// logFailure logs when the next try is, if there will be one by itself.
func (e *nodes) logFailure(n *graph.Node, what kv.Operation, err error, next time.Duration) {
	about := []any{"op", what.String(), "key", string(n.Key), "error", err}
	if next > 0 {
		about = append(about, "next_try_in", next)
	}
	e.logf(slog.LevelWarn, "operation failed", about...)
}
