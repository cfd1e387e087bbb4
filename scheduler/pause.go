package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plumb-net/plumb/scheduler/internal/assess"
	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// Pause holds a key, all under a prefix that ends in a slash, or with "" all there
// is: nothing is done to it until Resume, or until the time, if that is not zero. What its
// owner takes back goes all the same, see [Txn.ByOwner].
func (s *Scheduler) Pause(target Key, reason string, until time.Time) error {
	return s.call(func(l *loop) {
		l.Pauses[target] = assess.Pause{Target: target, Reason: reason, Until: until}
		l.WithRecord("", "pause "+string(target), func() { l.WakeUnder(target) })
		if !until.IsZero() {
			l.Retries.AddFunc(until, func() {
				if p, ok := l.Pauses[target]; ok && p.Until.Equal(until) {
					l.resume(target)
				}
			})
			l.Arm()
		}
	})
}

// Shadow has the scheduler do nothing at all from now on: it reads, computes and reports. No
// call ends that, and it holds what owners take back as well.
func (s *Scheduler) Shadow(reason string) error {
	return s.call(func(l *loop) {
		l.Assessor.Shadow = reason
		l.WithRecord("", "shadow", func() { l.WakeUnder("") })
	})
}

// Resume ends a Pause of exactly this target. If there is none, it does nothing and
// returns an ErrNotPaused that names the pauses that hold some of it.
func (s *Scheduler) Resume(target Key) error {
	var missed error
	err := s.call(func(l *loop) {
		if _, ok := l.Pauses[target]; !ok {
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
func (l *loop) notPaused(target Key) error {
	var near []string
	for p := range l.Pauses {
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

// HeldBack are keys that nobody wants any more and that are not removed, since they are more
// than Policy.Deletions lets go at once. They stay as they are, and what depends on them
// does too, until Release, or until they are wanted again.
type HeldBack struct {
	ID     string // "held-1"
	Reason string
	// Cause is the transaction that took them from the intent, At when it did.
	Cause uint64
	At    time.Time
	Keys  []Key // sorted
}

// HeldBack tells what is held back, the oldest first.
func (s *Scheduler) HeldBack() (out []HeldBack, err error) {
	err = s.call(func(l *loop) {
		keys := map[*assess.HeldBack][]Key{}
		for k, h := range l.Assessor.HeldBack {
			if n := l.G.Get(k); n != nil && n.Presence != graph.Absent {
				keys[h] = append(keys[h], k)
			}
		}
		for h, ks := range keys {
			slices.Sort(ks)
			out = append(out, HeldBack{ID: h.ID, Reason: h.Reason, Cause: h.Cause, At: h.At, Keys: ks})
		}
	})
	slices.SortFunc(out, func(a, b HeldBack) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	return out, err
}

// TakeBack announces that keys are about to be taken from the intent by who put them there: a
// change is undone because it does not work. They are not held back, however many they are.
// Call end when the sources have said all; a key that is still there then may go later too,
// until it is wanted anew.
func (s *Scheduler) TakeBack(keys ...Key) (end func(), err error) {
	var over func()
	err = s.call(func(l *loop) { over = l.Engine.TakeBack(keys) })
	return func() {
		if over != nil {
			_ = s.call(func(*loop) { over() })
		}
	}, err
}

// Release lets go what is held back under an ID, all if it is empty. The error is
// ErrNotHeldBack if there is nothing.
func (s *Scheduler) Release(id string) error {
	released := false
	err := s.call(func(l *loop) {
		l.WithRecord("", strings.TrimSpace("release "+id), func() { released = l.Engine.Release(id) })
	})
	if err == nil && !released {
		err = ErrNotHeldBack
	}
	return err
}

func (l *loop) resume(target Key) {
	delete(l.Pauses, target)
	l.WithRecord("", "resume "+string(target), func() { l.WakeUnder(target) })
}
