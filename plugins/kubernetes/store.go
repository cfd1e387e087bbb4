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
	// pods are those of the API server by path, known by an earlier run until the first list.
	pods map[string]*Pod
	// dirty are the paths of pods that changed since take.
	dirty map[string]bool
	// version is the newest that was seen of the API server, in an earlier run too.
	version string
	// listed: the API server has listed its pods in this run.
	listed bool
	// older: the API server has listed a version older than one that it had shown before.
	older bool
	heard time.Time
	news  chan struct{} // a signal that there is something to take
}

func newStore() *store {
	return &store{pods: map[string]*Pod{}, dirty: map[string]bool{}, news: make(chan struct{}, 1)}
}

var (
	_ cache.TransformingStore      = (*store)(nil)
	_ cache.ReflectorBookmarkStore = (*store)(nil)
)

// Transformer implements [cache.TransformingStore]: a list that is streamed keeps no more than names,
// annotations and statuses of pods.
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
	// A store of etcd that was restored from a backup counts on from there.
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

// see notes a version, and that the server was heard. The lock is held.
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

// load fills the store with what an earlier run has saved.
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

// look puts a pod that was read by itself, unless the store has a newer one.
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

// touch has a pod taken again.
func (s *store) touch(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirty[path] = true
	s.signal()
}

// taken is what a source takes of the store.
type taken struct {
	pods          map[string]*Pod // those that changed by path; nil: deleted
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

// accept believes the API server although it is older than what was known.
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

// silence returns for how long nothing was heard of the server.
func (s *store) silence() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.heard)
}

// hear begins to count the silence anew.
func (s *store) hear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = time.Now()
}
