package scheduler

import (
	"slices"

	"github.com/plumb-net/plumb/scheduler/internal/kind"
)

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
