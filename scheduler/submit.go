package scheduler

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/scheduler/internal/engine"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
	"github.com/plumb-net/plumb/scheduler/plan"
)

// checkTxn refuses transactions that mean nothing. It reads only what never changes.
func (l *loop) checkTxn(t Txn) error {
	if (len(t.Want) > 0 || t.Complete) && l.SourceIndex(t.Source) < 0 {
		return fmt.Errorf("%w %q: name one of Options.Sources", ErrUnknownSource, t.Source)
	}
	for _, c := range t.Want {
		if c.Key == "" || strings.HasSuffix(string(c.Key), "/") {
			return fmt.Errorf("a transaction wants the key %q, which names nothing", c.Key)
		}
	}
	return nil
}

// submitted edits a transaction.
func (l *loop) submitted(t *Txn, h *Handle) {
	sim, seen, err := l.planned(t, h)
	if err != nil {
		h.err = err
		close(h.done)
		return
	}
	l.Seq++
	h.result.Seq = l.Seq
	if sim != nil {
		h.planned = true
		l.runs.Start(l.Seq, sim, seen, func(left *Deviation) {
			h.planned, h.result.Deviation = false, left
			l.recheck(&h.waiter)
		})
	}
	l.G.Cause, l.G.Via = l.Seq, nil
	defer func() { l.G.Cause = 0 }()
	if h.txn.Revert && h.before == nil && !h.reverted {
		h.before = l.wantsBefore(*t)
	}
	touched := l.Edit(l.SourceIndex(t.Source), t.Want, t.Complete, t.ByOwner, t.Retry)
	if !seen && !h.reverted { // who executes a plan has seen what goes; what is reverted was just made
		l.HoldBack(touched)
	}
	l.unleaveAsked(t)
	touched = append(touched, l.LookAt(t.Look, true)...)
	if t.LookAll {
		l.LookAtAll()
	}
	r := l.Note(t.Source, t.Note, touched)
	r.Complete, r.Deviation, r.Written = t.Complete, h.result.Deviation, t.Written
	before := len(l.Ready)
	l.SettleDirty()
	engine.NotePlanned(r, l.Ready[before:])
	if len(t.Want) > 0 || t.Complete {
		l.Hist.Add(r)
	} else {
		l.KeepProvisional(r)
	}
	if !h.reverted {
		h.keys, h.named = touched, len(touched)
	}
	if (t.LookAll || len(t.Look) > 0) && !t.hint {
		l.lookers[l.Seq] = h
	}
	h.kinds = l.lookedAtWhole(t)
	l.await(&h.waiter)
}

// planned makes the plan that a transaction is to execute. If somebody has seen it, the plan is
// made again, and refused if it is another one by now.
func (l *loop) planned(t *Txn, h *Handle) (sim *plan.Simulation, seen bool, err error) {
	if h.reverted {
		return nil, false, nil
	}
	base := t.Base
	if h.announced = l.expects(t); h.announced != nil {
		base, t.Want = h.announced.txn.Base, h.announced.txn.Want // the same, in the order of the plan
	}
	if base.IsZero() {
		return l.unseen(t), false, nil
	}
	l.turn()
	sim, err = l.preview(toTheEnd, Event{Txn: *t})
	if err == nil {
		err = base.Moved(sim.Finish().Base)
	}
	if err != nil && h.announced != nil {
		h.result.Deviation = &Deviation{Step: 1, Why: err.Error()}
		return nil, false, nil
	}
	return sim, true, err
}

// unseen makes the plan of a transaction that is executed as previewed, nil if it is executed
// without one: something else is being done, which a plan would deviate for, or the preview
// would take long, or would show more deletions than may be at once.
func (l *loop) unseen(t *Txn) *plan.Simulation {
	if !t.AsPreviewed || l.runs.Any() || l.Crowded() || len(t.Want) > previewFree {
		return nil
	}
	sim, err := l.preview(workAtMost(previewFree), Event{Txn: *t})
	if err != nil || sim.Plan.Held != "" {
		return nil // an error of the transaction is found again without a plan
	}
	return sim
}

// lookedAtWhole are the kinds of which the transaction has everything read.
func (l *loop) lookedAtWhole(t *Txn) (out []*kind.Kind) {
	for _, k := range l.Kinds.All() {
		named := func(key Key) bool { return strings.HasPrefix(string(k.Prefix), string(key)) }
		if (k.Look.All || k.Look.Running) && (t.LookAll || slices.ContainsFunc(t.Look, named)) {
			out = append(out, k)
		}
	}
	return out
}

func (l *loop) wantsBefore(t Txn) []Change {
	src := l.SourceIndex(t.Source)
	before := make([]Change, 0, len(t.Want))
	for _, c := range t.Want {
		prev := Change{Key: c.Key}
		if n := l.G.Get(c.Key); n != nil {
			if n.X != nil && n.X.Wants != nil {
				for _, w := range n.X.Wants {
					if w.Source == src {
						prev.Value, prev.Invalid = w.Value, w.Invalid
					}
				}
			} else if n.Source == src {
				prev.Value = n.Desired
			}
		}
		before = append(before, prev)
	}
	return before
}

// unleaveAsked: who asks for a look asks for repair.
func (l *loop) unleaveAsked(t *Txn) {
	if t.hint || len(l.Policies) == 0 {
		return
	}
	targets := t.Look
	if t.LookAll {
		targets = nil
	} else if len(targets) == 0 {
		return
	}
	for _, n := range l.NodesUnder(targets) {
		l.Unleave(n)
	}
}

// Expect announces a transaction with a base that its source will submit by
// itself, without one: somebody wrote the plan's changes into a store, and the
// source will hear of them from there. The next transaction of that source that
// says the same is executed as the plan. As it says what is in the store, it is
// not refused: if what the plan was made on has moved by then, it is done
// without the plan, and Result.Deviation says so.
//
// The handle is that of the transaction to come. Call Forget when it is no
// longer expected.
func (s *Scheduler) Expect(t Txn) *Handle {
	h := newHandle(s, t)
	if s.call(func(l *loop) { l.expected = append(l.expected, h) }) != nil {
		h.err = ErrStopped
		close(h.done)
	}
	return h
}

// Forget ends what Expect began. It reports whether the transaction had come.
func (h *Handle) Forget() (came bool) {
	err := h.s.call(func(l *loop) {
		n := len(l.expected)
		l.expected = slices.DeleteFunc(l.expected, func(o *Handle) bool { return o == h })
		came = len(l.expected) == n
	})
	return err == nil && came
}

// expects finds the announcement of a transaction, nil if there is none.
func (l *loop) expects(t *Txn) *Handle {
	for i, h := range l.expected {
		if t.Base.IsZero() && l.sameTxn(t, &h.txn) {
			l.expected = slices.Delete(l.expected, i, i+1)
			return h
		}
	}
	return nil
}

// sameTxn reports whether two transactions want the same.
func (l *loop) sameTxn(a, b *Txn) bool {
	if a.Source != b.Source || a.Complete != b.Complete || len(a.Want) != len(b.Want) || len(a.Look)+len(b.Look) > 0 {
		return false
	}
	wants := make(map[Key]Change, len(a.Want))
	for _, c := range a.Want {
		wants[c.Key] = c
	}
	for _, c := range b.Want {
		o, there := wants[c.Key]
		if !there || (c.Invalid == nil) != (o.Invalid == nil) || c.Invalid != nil && c.Invalid.Error() != o.Invalid.Error() {
			return false
		}
		if k := l.Kinds.Find(c.Key); k != nil && kind.Differ(k, c.Key, c.Value, o.Value) {
			return false
		}
	}
	return true
}
