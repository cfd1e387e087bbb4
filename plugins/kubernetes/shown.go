package kubernetes

import (
	"maps"
	"slices"

	"github.com/plumb-net/plumb/plugins/kubernetes/mirror"
	"github.com/plumb-net/plumb/scheduler"
)

// view is a pod, and the PodIntents that name it, as the reporter sees them.
type view struct {
	pod   *Pod // nil if the API server has no such pod on the node
	keys  []scheduler.Key
	parts []part
	wrong error // why the annotation or a PodIntent cannot be read
	left  bool
}

// part returns the part of a PodIntent.
func (v view) part(name string) (part, bool) {
	i := slices.IndexFunc(v.parts, func(p part) bool { return p.intent.Name == name })
	if i < 0 {
		return part{}, false
	}
	return v.parts[i], true
}

// show passes a pod to the reporter. The lock is held.
func (s *Source) show(path string, now *podState) {
	if was, ok := s.shown[path]; ok {
		if was.pod != nil {
			delete(s.bases, was.pod.keyBase())
		}
		delete(s.shown, path)
	}
	if now.pod != nil || len(now.wants.parts) > 0 {
		s.shown[path] = view{now.pod, slices.Sorted(maps.Keys(now.values)), now.wants.parts, now.wants.unreadable(), now.left}
	}
	if now.pod != nil {
		s.bases[now.pod.keyBase()] = path
	}
	s.touch(path)
}

// touch schedules a pod for the reporter. The lock is held.
func (s *Source) touch(path string) {
	s.touched[path] = true
	select {
	case s.reports <- struct{}{}:
	default:
	}
}

// view returns a pod for the reporter.
func (s *Source) view(path string) (view, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.shown[path]
	return v, ok
}

// isComplete reports whether the API server has answered which pods and PodIntents there are.
func (s *Source) isComplete() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.complete
}

// pathOf returns the path of the pod whose keys share a base, or "".
func (s *Source) pathOf(base string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bases[base]
}

// takeTouched returns the paths of the pods that changed since the last call.
func (s *Source) takeTouched() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.touched
	s.touched = map[string]bool{}
	return t
}

// noteWrite remembers whether statuses can be written.
func (s *Source) noteWrite(err error) {
	s.mu.Lock()
	was := s.writeErr
	if mirror.IsGone(err) {
		err = nil
	}
	s.writeErr = err
	s.mu.Unlock()
	if err != nil && (was == nil || was.Error() != err.Error()) {
		s.opts.Log.Warn("the status of a pod is not written; it is tried again", "error", err)
	}
	if (was == nil) != (err == nil) {
		s.report()
	}
}
