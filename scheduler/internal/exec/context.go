package exec

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// opContext is the context of one operation. It makes a channel only when asked,
// since a context with a timer for each operation costs more than many an
// operation does. It is small, for there is one for each operation.
type opContext struct {
	of       *base
	deadline time.Duration // since base.epoch
	state    atomic.Pointer[ctxState]
}

// ctxState is how a context that somebody asked, or that ended, stands.
type ctxState struct {
	done chan struct{}
	err  error
	mu   sync.Mutex
	stop func() bool
}

// released is the state of an ended context that nobody had asked.
var released = func() *ctxState {
	s := &ctxState{done: make(chan struct{}), err: context.Canceled}
	close(s.done)
	return s
}()

// Deadline implements context.Context.
func (c *opContext) Deadline() (time.Time, bool) { return c.of.epoch.Add(c.deadline), true }

// Value implements context.Context.
func (c *opContext) Value(key any) any { return c.of.ctx.Value(key) }

// Done implements context.Context.
func (c *opContext) Done() <-chan struct{} { return c.asked().done }

// Err implements context.Context.
func (c *opContext) Err() error {
	s := c.asked()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		return c.of.ctx.Err()
	}
	return s.err
}

// asked returns the state and makes it if needed.
func (c *opContext) asked() *ctxState {
	if s := c.state.Load(); s != nil {
		return s
	}
	s := &ctxState{done: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.state.CompareAndSwap(nil, s) {
		return c.state.Load()
	}
	s.stop = context.AfterFunc(c.of.ctx, func() { s.end(c.of.ctx.Err()) })
	return s
}

func (c *opContext) cancelOverdue() { c.asked().end(context.DeadlineExceeded) }

// release ends the context of an operation that has returned.
func (c *opContext) release() {
	if c.state.CompareAndSwap(nil, released) {
		return
	}
	s := c.state.Load()
	s.end(context.Canceled)
	s.mu.Lock()
	stop := s.stop
	s.mu.Unlock()
	if stop != nil {
		stop()
	}
}

func (s *ctxState) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
		close(s.done)
	}
}
