package scheduler

import (
	"fmt"
)

// Unregister removes a kind. Its values become unimplemented; what stands on
// them leaves. Nothing of the kind itself is touched in the world, and nobody
// knows any more what it stands on there, so that may go; operations of it that
// are under way end by themselves, and their outcome counts no more. The error
// says that no kind has that name, or is ErrStopped.
func (s *Scheduler) Unregister(name string) error {
	var failed error
	err := s.call(func(l *loop) {
		for _, k := range l.Kinds.All() {
			if k.Name == name {
				l.WithRecord("", "kind "+name+" is unregistered", func() { l.Unregister(k) })
				return
			}
		}
		failed = fmt.Errorf("no kind %q is registered", name)
	})
	if err != nil {
		return err
	}
	return failed
}
