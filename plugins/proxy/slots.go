package proxy

import "sync"

// slots bound how many connections there are. How many may change meanwhile.
type slots struct {
	mu        sync.Mutex
	used, max int
	// freed is closed when one may be free, nil if nobody waits.
	freed chan struct{}
}

// take waits for a free slot.
func (s *slots) take() {
	for {
		s.mu.Lock()
		if s.used < s.max {
			s.used++
			s.mu.Unlock()
			return
		}
		if s.freed == nil {
			s.freed = make(chan struct{})
		}
		freed := s.freed
		s.mu.Unlock()
		<-freed
	}
}

func (s *slots) give() { s.change(func() { s.used-- }) }

func (s *slots) set(n int) { s.change(func() { s.max = n }) }

func (s *slots) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	if s.freed != nil {
		close(s.freed)
		s.freed = nil
	}
}
