package kubernetes

import (
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	// leaving are the paths of objects that the API server no longer has, with the time when that was seen, if
	// removals have to be confirmed; else nil.
	leaving map[string]time.Time
	// lost reports whether the API server stopped serving the resource after it had served objects of it. Removals
	// then wait for an operator.
	lost bool
	// crdUID is the UID of the CRD that the objects are of, or "" if it is unknown.
	crdUID types.UID
	// refused is the error of an API server that does not serve the resource, or denies it.
	refused  error
	removals chan struct{} // signals new removals that have to be confirmed
}

// newStore returns a store that keeps the result of trim for each object, and signals changes to news.
func newStore[T item](trim func(o any) T, news chan struct{}) *store[T] {
	return &store[T]{trim: trim, objects: map[string]T{}, dirty: map[string]bool{}, news: news, removals: make(chan struct{}, 1)}
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
	s.lost = s.lost && len(s.leaving) > 0
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
	s.listed, s.refused = true, nil
	s.lost = s.lost && len(s.leaving) > 0
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
	delete(s.leaving, o.Path())
}

// remove removes an object, or notes that its removal has to be confirmed. The lock is held.
func (s *store[T]) remove(path string) {
	if s.leaving == nil {
		s.drop(path)
		return
	}
	if _, known := s.leaving[path]; !known {
		s.leaving[path] = time.Now()
	}
	select {
	case s.removals <- struct{}{}:
	default:
	}
}

// drop removes an object. The lock is held.
func (s *store[T]) drop(path string) {
	s.dirty[s.objects[path].podPath()] = true
	delete(s.objects, path)
	delete(s.leaving, path)
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
func (s *store[T]) load(objects []T, version string, crd types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range objects {
		s.keep(o)
	}
	s.newestVersion, s.crdUID = version, crd
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

// take returns the paths of the pods with changed objects since the last call. answered reports whether the API
// server has listed its objects or does not serve them.
func (s *store[T]) take() (dirty map[string]bool, answered, older bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	dirty, s.dirty = s.dirty, map[string]bool{}
	return dirty, s.listed || s.refused != nil, s.older
}

// accept accepts the state of the API server: one that is older than before, or that lacks objects that were lost.
func (s *store[T]) accept() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.older, s.lost = false, false
	for path, o := range s.objects {
		s.dirty[o.podPath()] = true
		if _, gone := s.leaving[path]; gone || s.refused != nil {
			s.drop(path)
		}
	}
	s.signal()
}

// refuse notes that the API server does not serve the resource, or denies it. The objects are unknown then, and stay.
func (s *store[T]) refuse(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = s.lost || apierrors.IsNotFound(err) && len(s.objects) > 0
	if s.refused == nil {
		s.signal()
	}
	s.refused = err
}

// comesFrom records the UID of the CRD of the objects that follow, or "" if it is unknown. If the UID has changed, the
// known objects were deleted with their CRD.
func (s *store[T]) comesFrom(crd types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = s.lost || crd != "" && s.crdUID != "" && crd != s.crdUID && len(s.objects) > 0
	if crd != "" {
		s.crdUID = crd
	}
}

// crd returns the UID of the CRD that the objects are of, or "" if it is unknown.
func (s *store[T]) crd() types.UID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.crdUID
}

// isFrom reports whether the objects are of a CRD with this UID, as far as both are known.
func (s *store[T]) isFrom(crd types.UID) bool {
	known := s.crd()
	return crd == "" || known == "" || crd == known
}

// unconfirmed returns when the oldest removal was seen that has to be confirmed, and false if there is none.
func (s *store[T]) unconfirmed() (since time.Time, any bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost || s.older {
		return since, false
	}
	for _, at := range s.leaving {
		if since.IsZero() || at.Before(since) {
			since = at
		}
	}
	return since, len(s.leaving) > 0
}

// confirm removes the objects whose removals were seen until a time.
func (s *store[T]) confirm(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, at := range s.leaving {
		if !at.After(until) {
			s.drop(path)
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

// byPod returns the objects of pods, by the path of the pod.
func (s *store[T]) byPod(paths map[string]bool) map[string][]T {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string][]T{}
	for _, o := range s.objects {
		if path := o.podPath(); paths[path] {
			all[path] = append(all[path], o)
		}
	}
	return all
}

// all returns all objects.
func (s *store[T]) all() []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.objects))
}

// storeState describes a store.
type storeState struct {
	objects       int
	listed, older bool
	// leaving is how many objects the API server no longer has, while their removal is not confirmed.
	leaving int
	lost    bool
	refused error
}

func (s *store[T]) state() storeState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return storeState{len(s.objects), s.listed, s.older, len(s.leaving), s.lost, s.refused}
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
