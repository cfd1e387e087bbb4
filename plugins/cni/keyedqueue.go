package cni

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// ErrDeleted: the attachment that an ADD waits to make was deleted meanwhile.
var ErrDeleted = errors.New("it was deleted while it was being added")

// KeyedQueue lets calls about one attachment happen one after another, in the order in
// which they came; those about others do not wait. The zero value is ready.
type KeyedQueue struct {
	mu    sync.Mutex
	lanes map[Key]*lane
}

type lane struct {
	running *turn
	waiting []*turn
}

type turn struct {
	ends   bool // it ends the turns before it: a DEL
	cancel context.CancelCauseFunc
	begin  chan struct{}
}

// Enter waits for the turn of a call. The context that it returns ends when the
// call should be given up; its cause is ErrDeleted if a DEL came after it. leave must
// be called when the call is done. A DEL (del) ends the calls before it, but waits
// until they have left.
func (t *KeyedQueue) Enter(ctx context.Context, k Key, del bool) (_ context.Context, leave func(), err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	me := &turn{ends: del, cancel: cancel, begin: make(chan struct{})}
	t.join(k, me)
	select {
	case <-me.begin:
		return ctx, func() { t.leave(k, me) }, nil
	case <-ctx.Done():
		t.leave(k, me)
		return nil, nil, context.Cause(ctx)
	}
}

// TryEnter is Enter for who goes away if somebody is there.
func (t *KeyedQueue) TryEnter(ctx context.Context, k Key) (_ context.Context, leave func(), free bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lanes[k] != nil {
		return nil, nil, false
	}
	ctx, cancel := context.WithCancelCause(ctx)
	me := &turn{cancel: cancel, begin: make(chan struct{})}
	t.enqueue(k, me)
	return ctx, func() { t.leave(k, me) }, true
}

func (t *KeyedQueue) join(k Key, me *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.enqueue(k, me)
}

// enqueue takes the lock for granted.
func (t *KeyedQueue) enqueue(k Key, me *turn) {
	if t.lanes == nil {
		t.lanes = map[Key]*lane{}
	}
	l := t.lanes[k]
	if l == nil {
		t.lanes[k] = &lane{running: me}
		close(me.begin)
		return
	}
	if me.ends {
		for _, before := range append([]*turn{l.running}, l.waiting...) {
			if !before.ends {
				before.cancel(ErrDeleted)
			}
		}
	}
	l.waiting = append(l.waiting, me)
}

// leave ends a turn, or the waiting for it, and begins the next.
func (t *KeyedQueue) leave(k Key, me *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	me.cancel(nil)
	l := t.lanes[k]
	if l.running != me {
		l.waiting = slices.DeleteFunc(l.waiting, func(w *turn) bool { return w == me })
		return
	}
	if len(l.waiting) == 0 {
		delete(t.lanes, k)
		return
	}
	l.running, l.waiting = l.waiting[0], l.waiting[1:]
	close(l.running.begin)
}
