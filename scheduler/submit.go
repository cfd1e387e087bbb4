package scheduler

import (
	"fmt"
	"slices"
	"strings"
)

// checkTxn refuses transactions that mean nothing. It reads only what never changes.
func (l *loop) checkTxn(t Txn) error {
	if (len(t.Want) > 0 || t.Complete) && l.sourceIndex(t.Source) < 0 {
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
	sim, err := l.planned(t, h)
	if err != nil {
		h.err = err
		close(h.done)
		return
	}
	l.seq++
	h.result.Seq = l.seq
	if sim != nil {
		h.planned = true
		l.runs.start(l.seq, sim, func(left *Deviation) {
			h.planned, h.result.Deviation = false, left
			l.stir(&h.waiter)
		})
	}
	l.g.Cause, l.g.Via = l.seq, nil
	defer func() { l.g.Cause = 0 }()
	if h.txn.Revert && h.before == nil && !h.reverted {
		h.before = l.wantsBefore(*t)
	}
	touched := l.edit(l.sourceIndex(t.Source), t.Want, t.Complete, t.Retry)
	l.unleaveAsked(t)
	touched = append(touched, l.lookAt(t.Look, true)...)
	if t.LookAll {
		l.lookAtAll()
	}
	r := l.note(t.Source, t.Note, touched)
	r.Deviation = h.result.Deviation
	before := len(l.ready)
	l.think()
	notePlanned(r, l.ready[before:])
	if len(t.Want) > 0 || t.Complete {
		l.hist.Add(r)
	} else {
		l.keepLater(r)
	}
	if !h.reverted {
		h.keys, h.named = touched, len(touched)
	}
	if (t.LookAll || len(t.Look) > 0) && !t.hint {
		l.lookers[l.seq] = h
	}
	h.kinds = l.lookedAtWhole(t)
	l.await(&h.waiter)
}

// planned makes the plan again that a transaction is to execute, and refuses if
// it is another one by now.
func (l *loop) planned(t *Txn, h *Handle) (*simulation, error) {
	if h.reverted {
		return nil, nil
	}
	base := t.Base
	if h.twin = l.expects(t); h.twin != nil {
		base, t.Want = h.twin.txn.Base, h.twin.txn.Want // the same, in the order of the plan
	}
	if base.IsZero() {
		return nil, nil
	}
	l.turn()
	sim, err := l.preview(Event{Txn: *t})
	if err == nil {
		err = base.Moved(sim.plan.Base)
	}
	if err != nil && h.twin != nil {
		h.result.Deviation = &Deviation{Step: 1, Why: err.Error()}
		return nil, nil
	}
	return sim, err
}

// lookedAtWhole are the kinds of which the transaction has everything read.
func (l *loop) lookedAtWhole(t *Txn) (out []*kind) {
	for _, k := range l.kinds.all() {
		named := func(key Key) bool { return strings.HasPrefix(string(k.Prefix), string(key)) }
		if (k.look.all || k.look.running) && (t.LookAll || slices.ContainsFunc(t.Look, named)) {
			out = append(out, k)
		}
	}
	return out
}

func (l *loop) wantsBefore(t Txn) []Change {
	src := l.sourceIndex(t.Source)
	before := make([]Change, 0, len(t.Want))
	for _, c := range t.Want {
		prev := Change{Key: c.Key}
		if n := l.g.Get(c.Key); n != nil {
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
	if t.hint || len(l.policies) == 0 {
		return
	}
	targets := t.Look
	if t.LookAll {
		targets = nil
	} else if len(targets) == 0 {
		return
	}
	for _, n := range l.nodesUnder(targets) {
		l.unleave(n)
	}
}
