package etcd

import (
	"context"
	"fmt"
	"slices"

	"github.com/plumb-net/plumb/scheduler"
)

// accept believes the store that answers, whatever it is, and returns the
// transaction that said its complete word. It is carried out by the next
// session, which it brings about.
func (s *source) accept(ctx context.Context) (*scheduler.Handle, error) {
	a := &acceptance{done: make(chan struct{})}
	s.mu.Lock()
	s.accepting = append(s.accepting, a)
	s.mu.Unlock()
	s.again(errAccept)
	select {
	case <-a.done:
		return a.handle, a.err
	case <-ctx.Done():
		// Not to be believed later, by surprise.
		s.mu.Lock()
		defer s.mu.Unlock()
		s.accepting = slices.DeleteFunc(s.accepting, func(x *acceptance) bool { return x == a })
		return nil, fmt.Errorf("accept: %w", ctx.Err())
	}
}

func (s *source) takeAccepting() []*acceptance {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.accepting
	s.accepting = nil
	return out
}
