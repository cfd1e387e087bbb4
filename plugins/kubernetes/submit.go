package kubernetes

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/plumb-net/plumb/plugins/intent"
	"github.com/plumb-net/plumb/scheduler"
)

// podState holds the desired values of the pods of one path.
type podState struct {
	pod   *Pod
	wants *wants
	// values are the submitted values: those of wants, and those that an older API server lacks.
	values intent.Values
	// left: the API server has deleted the pod, and its runtime has not detached it yet.
	left bool
}

// taken is a result of take.
type taken struct {
	pods    map[string]*Pod         // the changed pods by path; nil if deleted
	intents map[string][]*PodIntent // the PodIntents that name them
	// answered reports whether the API server has listed its pods and PodIntents; it may have answered that it has no
	// PodIntents.
	answered bool
	older    bool
}

// take returns the pods that changed since the last call, or have changed PodIntents. After an operator has accepted an
// older API server it returns all pods, so that held values are withdrawn.
func (s *Source) take() taken {
	dirty, pods, older := s.store.Take()
	more, intents, olderIntents := s.intents.Take()
	maps.Copy(dirty, more)
	t := taken{pods: make(map[string]*Pod, len(dirty)), answered: pods && intents, older: older || olderIntents}
	s.mu.Lock()
	held := s.held
	s.mu.Unlock()
	if held && !t.older {
		for path := range s.pods {
			dirty[path] = true
		}
	}
	for path := range dirty {
		t.pods[path] = s.store.Get(path)
	}
	t.intents = s.intents.BySubject(dirty)
	return t
}

// submit submits the values of changed pods.
func (s *Source) submit(t taken) {
	txn := scheduler.Txn{Source: Name, AsPreviewed: true}
	for _, path := range slices.Sorted(maps.Keys(t.pods)) {
		txn.Want = append(txn.Want, s.change(path, t.pods[path], t.intents[path], t.older)...)
	}
	s.count(t.older)
	switch n := len(t.pods); n {
	case 1:
		for path := range t.pods {
			txn.Note = "pod " + path
		}
	default:
		txn.Note = fmt.Sprintf("%d pods", n)
	}
	if t.answered && !s.complete {
		// Keys that are not named are no longer wanted.
		txn.Complete, txn.Want = true, intent.Changes(nil, s.all())
		s.mu.Lock()
		s.complete = true
		for path := range s.shown { // statuses that waited for it
			s.touch(path)
		}
		s.mu.Unlock()
	}
	if txn.Complete || len(txn.Want) > 0 {
		s.to.Submit(txn)
	}
	for path := range t.pods {
		s.opts.Changed(path)
	}
}

// change records the current pod and PodIntents of a path, and returns the changes of values. It withdraws no values
// while the API server is older than before.
func (s *Source) change(path string, p *Pod, list []*PodIntent, older bool) []scheduler.Change {
	was := s.pods[path]
	if was == nil {
		was = &podState{wants: &wants{}}
	}
	now := &podState{pod: p}
	switch {
	case p != nil && p.Ended && !s.attached(p):
		now.wants = &wants{parts: waiting(list, "all containers of the pod "+path+" have ended")}
	case p != nil:
		before := &wants{}
		if was.pod != nil && was.pod.UID == p.UID {
			before = was.wants
		}
		now.wants = wantsOf(p, list, before, s.opts.Decode)
	case was.pod != nil && s.attached(was.pod):
		now.pod, now.wants, now.left = was.pod, was.wants, true
	default:
		now.wants = &wants{parts: waiting(list, "the node "+s.opts.Node+" has no pod "+path)}
	}
	now.values = now.wants.values
	switch {
	case now.left:
		now.values = was.values
	case older:
		kept := intent.Values{}
		maps.Copy(kept, was.values)
		maps.Copy(kept, now.values)
		now.values = kept
	}
	s.mu.Lock()
	if wrong := now.wants.unreadable(); wrong != nil && !now.left {
		s.wrong[path] = wrong
	} else {
		delete(s.wrong, path)
	}
	if was.pod != nil && (p == nil || p.UID != was.pod.UID) {
		s.gone[was.pod.runtimeName()] = time.Now()
	}
	s.show(path, now)
	s.mu.Unlock()
	if s.pods[path] = now; now.pod == nil && len(now.values) == 0 {
		delete(s.pods, path)
	}
	return intent.Changes(was.values, now.values)
}
