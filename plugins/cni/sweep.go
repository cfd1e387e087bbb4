package cni

import (
	"context"
	"sync"
	"time"

	"github.com/plumb-net/plumb/scheduler"
)

// SweepEvery is how often attachments are looked through for those that serve
// nobody any more.
const SweepEvery = time.Minute

// Sweep removes the attachments of which no DEL came or none was completed: those
// that were begun and never finished, those whose path is a stranger's, and those
// whose namespace was gone at the last sweep too while no runtime runs the
// container. It returns how many.
func (s *Service) Sweep(ctx context.Context) (removed int) {
	gone := map[Key]bool{}
	for _, a := range s.store.Of("") {
		why := s.useless(a, gone)
		if why == "" || ctx.Err() != nil {
			continue
		}
		done, left := s.drop(ctx, a, func(now Attachment) bool { return s.useless(now, gone) != "" })
		if done {
			removed++
			s.log.Info("an attachment that serves nobody is removed", "attachment", a.Key.String(), "reason", why, "left", left)
		}
	}
	s.mu.Lock()
	s.lost = gone
	s.mu.Unlock()
	s.tidy(ctx)
	return removed
}

// finish removes what a crash left half made or half removed, each until it is gone: at
// a start it may have to wait for others to make way. It is read first: what is not known
// to be there cannot go.
func (s *Service) finish(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for _, a := range s.store.Of("") {
		_, stranger := s.there(a)
		if a.Phase == Added && !stranger {
			continue
		}
		all.Go(func() {
			_, err := s.engine.Apply(ctx, scheduler.Txn{Source: Source, Note: "what is left of " + a.Key.String(), Look: keysIn(a.Wants)})
			if err != nil {
				return // the sweep does it
			}
			_ = s.wait(ctx, keysIn(a.Wants), func() (left string, _ error) {
				_, left = s.drop(ctx, a, func(now Attachment) bool { return now.Phase != Added || stranger })
				return left, nil
			})
		})
	}
}

func keysIn(names []string) []scheduler.Key {
	keys := make([]scheduler.Key, len(names))
	for i, name := range names {
		keys[i] = scheduler.Key(name)
	}
	return keys
}

// useless says why an attachment serves nobody, "" if it may. It notes those whose
// namespace has gone.
func (s *Service) useless(a Attachment, gone map[Key]bool) string {
	here, stranger := s.there(a)
	running, sure := s.host.Running(a.Key.ContainerID)
	switch {
	case a.Phase != Added:
		return "it was left " + string(a.Phase)
	case stranger:
		return "another network namespace is at " + a.Netns
	case here || running || !sure:
		return ""
	}
	gone[a.Key] = true
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.lost[a.Key] {
		return ""
	}
	return "there is no network namespace at " + a.Netns
}

// drop removes an attachment unless somebody is at work on it, or it is another by
// now or not to be dropped after all.
func (s *Service) drop(ctx context.Context, a Attachment, still func(Attachment) bool) (done bool, left string) {
	ctx, leave, free := s.queue.TryEnter(ctx, a.Key)
	if !free {
		return false, ""
	}
	defer leave()
	now, there := s.store.Get(a.Key)
	if !there || now.Since != a.Since || !still(now) {
		return false, ""
	}
	if err := s.store.Remove(a.Key); err != nil { // the next start looks again
		s.log.Warn("that an attachment is removed cannot be written", "attachment", a.Key.String(), "error", err)
	}
	return true, s.detach(ctx, a.Key)
}
