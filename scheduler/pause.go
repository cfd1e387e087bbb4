package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plumb-net/plumb/scheduler/graph"
	"github.com/plumb-net/plumb/scheduler/kv"
)

type pause struct {
	target Key
	reason string
	until  time.Time
}

// Pause holds a key, all under a prefix that ends in a slash, or with "" all there
// is: nothing is done to it until Resume, or until the time, if that is not zero.
func (s *Scheduler) Pause(target Key, reason string, until time.Time) error {
	return s.call(func(l *loop) {
		l.pauses[target] = pause{target, reason, until}
		l.because("", "pause "+string(target), func() { l.wakeUnder(target) })
		if !until.IsZero() {
			l.retries.addFunc(until, func() {
				if p, ok := l.pauses[target]; ok && p.until.Equal(until) {
					l.resume(target)
				}
			})
			l.arm()
		}
	})
}

// Resume ends a Pause of exactly this target. If there is none, it does nothing and
// returns an ErrNotPaused that names the pauses that hold some of it.
func (s *Scheduler) Resume(target Key) error {
	var missed error
	err := s.call(func(l *loop) {
		if _, ok := l.pauses[target]; !ok {
			missed = l.notPaused(target)
			return
		}
		l.resume(target)
	})
	if err != nil {
		return err
	}
	return missed
}

// notPaused says which pauses, if any, are about more or less than the target.
func (e *engine) notPaused(target Key) error {
	var near []string
	for p := range e.pauses {
		if kv.Under(target, []Key{p}) || kv.Under(p, []Key{target}) {
			near = append(near, string(p))
		}
	}
	if len(near) == 0 {
		return fmt.Errorf("%w: %s", ErrNotPaused, target)
	}
	slices.Sort(near)
	return fmt.Errorf("%w: %s; paused is %s", ErrNotPaused, target, strings.Join(near, ", "))
}

func (e *engine) resume(target Key) {
	delete(e.pauses, target)
	e.because("", "resume "+string(target), func() { e.wakeUnder(target) })
}

func (e *engine) wakeUnder(target Key) {
	e.recheckAll = true
	for _, n := range e.nodesUnder([]Key{target}) {
		e.wakeDerived(n)
	}
}

// wakeDerived wakes a node and all that it derives, which is held with it.
func (e *engine) wakeDerived(n *graph.Node) {
	e.g.Wake(n)
	if n.X != nil {
		for _, c := range n.X.Children {
			e.wakeDerived(c)
		}
	}
}

// freeze has others see whether the node is paused: it satisfies no new need
// then, and nothing that stands on it has to go.
func (e *engine) freeze(n *graph.Node) {
	if n.Frozen || len(e.pauses) > 0 {
		e.g.SetFrozen(n, e.pausedBy(n) != nil)
	}
}

// pausedBy finds the pause that holds a node; a derived value is held with its base.
func (as *assessor) pausedBy(n *graph.Node) *pause {
	if len(as.pauses) == 0 {
		return nil
	}
	for ; n != nil; n = n.Base {
		for target, p := range as.pauses {
			if kv.Under(n.Key, []Key{target}) {
				return &p
			}
		}
	}
	return nil
}

// nodesUnder are the nodes of the targets, sorted by key.
func (as *assessor) nodesUnder(targets []Key) []*graph.Node {
	var out []*graph.Node
	if len(targets) == 0 {
		as.g.All(func(n *graph.Node) bool { out = append(out, n); return true })
	}
	for _, t := range targets {
		if !kv.IsPrefix(t) {
			if n := as.g.Get(t); n != nil {
				out = append(out, n)
			}
			continue
		}
		as.g.Below(t, func(n *graph.Node) bool { out = append(out, n); return true })
	}
	slices.SortFunc(out, byKey)
	return slices.Compact(out)
}
