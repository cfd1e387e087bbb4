package kubernetes

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// store keeps the pods of the node. The reflector fills it; its methods may be called from any goroutine.
type store struct {
	mu sync.Mutex // guards what follows
	// pods are the pods by path: those of the saved copy until the first list, then those of the API server.
	pods map[string]*Pod
	// dirty are the paths of pods that changed since take.
	dirty map[string]bool
	// version is the newest resource version that the API server has returned, in earlier runs too.
	version string
	// listed reports whether the API server has listed its pods in this run.
	listed bool
	// older reports whether the API server has listed a version older than version.
	older bool
	heard time.Time
	news  chan struct{} // signals changes for take
}

func newStore() *store {
	return &store{pods: map[string]*Pod{}, dirty: map[string]bool{}, news: make(chan struct{}, 1)}
}

var (
	_ cache.TransformingStore      = (*store)(nil)
	_ cache.ReflectorBookmarkStore = (*store)(nil)
)

// Transformer implements [cache.TransformingStore]. It drops metadata that trim does not read, so that a streamed
// list does not hold it.
func (s *store) Transformer() cache.TransformFunc {
	return func(o any) (any, error) {
		if o, ok := o.(*object); ok {
			o.ManagedFields, o.Labels, o.OwnerReferences = nil, nil, nil
		}
		return o, nil
	}
}

// Add implements [cache.ReflectorStore].
func (s *store) Add(o any) error { return s.Update(o) }

// Update implements [cache.ReflectorStore].
func (s *store) Update(o any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(trim(o.(*object)))
	s.signal()
	return nil
}

// Delete implements [cache.ReflectorStore].
func (s *store) Delete(o any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := trim(o.(*object))
	if known := s.pods[p.Path()]; known != nil && known.UID == p.UID {
		delete(s.pods, p.Path())
		s.dirty[p.Path()] = true
	}
	s.see(p.Version)
	s.signal()
	return nil
}

// Replace implements [cache.ReflectorStore].
func (s *store) Replace(list []any, version string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path := range s.pods {
		s.dirty[path] = true
	}
	s.pods = map[string]*Pod{}
	for _, o := range list {
		s.put(trim(o.(*object)))
	}
	// The revisions of an etcd that was restored from a backup continue from those of the backup.
	if order, err := resourceversion.CompareResourceVersion(version, s.version); err == nil && s.version != "" && order < 0 {
		s.older, s.version = true, ""
	}
	s.see(version)
	s.listed = true
	s.signal()
	return nil
}

// Resync implements [cache.ReflectorStore].
func (s *store) Resync() error { return nil }

// Bookmark implements [cache.ReflectorBookmarkStore].
func (s *store) Bookmark(version string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.see(version)
	return nil
}

// put stores a pod. The lock is held.
func (s *store) put(p *Pod) {
	s.pods[p.Path()] = p
	s.dirty[p.Path()] = true
	s.see(p.Version)
}

// see records a version, and the time of this message of the server. The lock is held.
func (s *store) see(version string) {
	s.heard = time.Now()
	if order, err := resourceversion.CompareResourceVersion(version, s.version); s.version == "" || err == nil && order > 0 {
		s.version = version
	}
}

func (s *store) signal() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// load fills the store with the saved copy of an earlier run.
func (s *store) load(pods []*Pod, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range pods {
		s.pods[p.Path()] = p
		s.dirty[p.Path()] = true
	}
	s.version = version
	s.signal()
}

// look stores a pod that was read by a request of its own, unless the store has a newer one.
func (s *store) look(o *object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := trim(o)
	if known := s.pods[p.Path()]; known != nil {
		if order, err := resourceversion.CompareResourceVersion(p.Version, known.Version); err != nil || order <= 0 {
			return
		}
	}
	s.pods[p.Path()] = p
	s.dirty[p.Path()] = true
	s.signal()
}

// touch marks a pod as changed.
func (s *store) touch(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirty[path] = true
	s.signal()
}

// taken is a result of take.
type taken struct {
	pods          map[string]*Pod // the changed pods by path; nil if deleted
	listed, older bool
}

// take returns the pods that changed since the last call.
func (s *store) take() taken {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := taken{pods: make(map[string]*Pod, len(s.dirty)), listed: s.listed, older: s.older}
	for path := range s.dirty {
		t.pods[path] = s.pods[path]
	}
	clear(s.dirty)
	return t
}

// accept accepts an API server that is older than before.
func (s *store) accept() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.older = false; s.listed {
		for path := range s.pods {
			s.dirty[path] = true
		}
	}
	s.signal()
}

// get returns the pod of a path, or nil.
func (s *store) get(path string) *Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pods[path]
}

// state returns how many pods there are, whether the API server has listed them, and whether it is older than
// it was.
func (s *store) state() (pods int, listed, older bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pods), s.listed, s.older
}

// newest returns the newest version that was seen.
func (s *store) newest() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// silence returns the time since the last message of the server.
func (s *store) silence() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.heard)
}

// hear restarts the measurement of silence.
func (s *store) hear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = time.Now()
}
