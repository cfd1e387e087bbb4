package kubernetes

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// item is the part of an object that a store keeps. It is immutable.
type item interface {
	// Path returns <namespace>/<name>.
	Path() string
	// podPath returns the path of the pod that the object concerns.
	podPath() string
	uid() types.UID
	version() string
}

// store keeps the objects of one resource that concern the node. The reflector fills it; its methods may be called
// from any goroutine.
type store[T item] struct {
	trim func(o any) T
	mu   sync.Mutex // guards what follows
	// objects are the objects by path: those of the saved copy until the first list, then those of the API server.
	objects map[string]T
	// dirty are the paths of pods whose objects changed since take.
	dirty map[string]bool
	// newestVersion is the newest resource version that the API server has returned, in earlier runs too.
	newestVersion string
	// listed reports whether the API server has listed its objects in this run.
	listed bool
	// older reports whether the API server has listed a version older than newestVersion.
	older bool
	heard time.Time
	news  chan struct{} // signals changes for take
}

// newStore returns a store that keeps what trim returns of an object, and signals changes to news.
func newStore[T item](trim func(o any) T, news chan struct{}) *store[T] {
	return &store[T]{trim: trim, objects: map[string]T{}, dirty: map[string]bool{}, news: news}
}

var (
	_ cache.TransformingStore      = (*store[*Pod])(nil)
	_ cache.ReflectorBookmarkStore = (*store[*Pod])(nil)
)

// Transformer implements [cache.TransformingStore]. It drops metadata that trim does not read, so that a streamed
// list does not hold it.
func (s *store[T]) Transformer() cache.TransformFunc {
	return func(o any) (any, error) {
		if o, ok := o.(metav1.Object); ok {
			o.SetManagedFields(nil)
			o.SetLabels(nil)
			o.SetOwnerReferences(nil)
		}
		return o, nil
	}
}

// Add implements [cache.ReflectorStore].
func (s *store[T]) Add(o any) error { return s.Update(o) }

// Update implements [cache.ReflectorStore].
func (s *store[T]) Update(o any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(s.trim(o))
	s.signal()
	return nil
}

// Delete implements [cache.ReflectorStore].
func (s *store[T]) Delete(o any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := s.trim(o)
	if known, ok := s.objects[gone.Path()]; ok && known.uid() == gone.uid() {
		s.remove(gone.Path())
	}
	s.see(gone.version())
	s.signal()
	return nil
}

// Replace implements [cache.ReflectorStore].
func (s *store[T]) Replace(list []any, version string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := map[string]bool{}
	for _, o := range list {
		now := s.trim(o)
		there[now.Path()] = true
		s.put(now)
	}
	for path, known := range s.objects {
		if s.dirty[known.podPath()] = true; !there[path] {
			s.remove(path)
		}
	}
	// The revisions of an etcd that was restored from a backup continue from those of the backup.
	if order, err := resourceversion.CompareResourceVersion(version, s.newestVersion); err == nil && s.newestVersion != "" && order < 0 {
		s.older, s.newestVersion = true, ""
	}
	s.see(version)
	s.listed = true
	s.signal()
	return nil
}

// Resync implements [cache.ReflectorStore].
func (s *store[T]) Resync() error { return nil }

// Bookmark implements [cache.ReflectorBookmarkStore].
func (s *store[T]) Bookmark(version string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.see(version)
	return nil
}

// put stores an object. The lock is held.
func (s *store[T]) put(o T) {
	s.keep(o)
	s.see(o.version())
}

// keep stores an object whatever its version. The lock is held.
func (s *store[T]) keep(o T) {
	if known, ok := s.objects[o.Path()]; ok {
		s.dirty[known.podPath()] = true
	}
	s.objects[o.Path()] = o
	s.dirty[o.podPath()] = true
}

// remove removes an object. The lock is held.
func (s *store[T]) remove(path string) {
	s.dirty[s.objects[path].podPath()] = true
	delete(s.objects, path)
}

// see records a version, and the time of this message of the server. The lock is held.
func (s *store[T]) see(version string) {
	s.heard = time.Now()
	if order, err := resourceversion.CompareResourceVersion(version, s.newestVersion); s.newestVersion == "" || err == nil && order > 0 {
		s.newestVersion = version
	}
}

func (s *store[T]) signal() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// load fills the store with the saved copy of an earlier run.
func (s *store[T]) load(objects []T, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range objects {
		s.keep(o)
	}
	s.newestVersion = version
	s.signal()
}

// look stores an object that was read by a request of its own, unless the store has a newer one.
func (s *store[T]) look(o any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.trim(o)
	if known, ok := s.objects[now.Path()]; ok {
		if order, err := resourceversion.CompareResourceVersion(now.version(), known.version()); err != nil || order <= 0 {
			return
		}
	}
	s.keep(now)
	s.signal()
}

// touch marks a pod as changed.
func (s *store[T]) touch(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirty[path] = true
	s.signal()
}

// take returns the paths of the pods whose objects changed since the last call.
func (s *store[T]) take() (dirty map[string]bool, listed, older bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	dirty, s.dirty = s.dirty, map[string]bool{}
	return dirty, s.listed, s.older
}

// accept accepts an API server that is older than before.
func (s *store[T]) accept() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.older = false; s.listed {
		for _, o := range s.objects {
			s.dirty[o.podPath()] = true
		}
	}
	s.signal()
}

// get returns the object of a path, or the zero value.
func (s *store[T]) get(path string) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[path]
}

// state returns how many objects there are, whether the API server has listed them, and whether it is older than
// it was.
func (s *store[T]) state() (objects int, listed, older bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.objects), s.listed, s.older
}

// newest returns the newest version that was seen.
func (s *store[T]) newest() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newestVersion
}

// silence returns the time since the last message of the server.
func (s *store[T]) silence() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.heard)
}

// hear restarts the measurement of silence.
func (s *store[T]) hear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = time.Now()
}
