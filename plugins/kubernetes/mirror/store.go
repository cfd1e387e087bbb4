package mirror

import (
	"fmt"
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

// Item is the part of an object that a store keeps. It is immutable.
type Item interface {
	// Path returns <namespace>/<name>.
	Path() string
	// Subject returns what a change of the object concerns, such as the path of a pod.
	Subject() string
	ID() types.UID
	ResourceVersion() string
}

// Store keeps the objects of one resource that concern the node. The reflector fills it; its methods may be called
// from any goroutine.
type Store[T Item] struct {
	trim func(o any) T
	mu   sync.Mutex // guards the fields below
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

// NewStore returns a store of objects of a resource. It keeps the result of trim for each object, and signals changes
// to news, which has a buffer of one.
func NewStore[T Item](r Resource, trim func(o any) T, news chan struct{}) *Store[T] {
	s := &Store[T]{trim: trim, objects: map[string]T{}, dirty: map[string]bool{}, news: news, removals: make(chan struct{}, 1)}
	if r.Optional {
		s.leaving = map[string]time.Time{}
	}
	return s
}

var (
	_ cache.TransformingStore      = (*Store[Item])(nil)
	_ cache.ReflectorBookmarkStore = (*Store[Item])(nil)
)

// Transformer implements [cache.TransformingStore]. It drops metadata that trim does not read, so that a streamed
// list does not hold it.
func (s *Store[T]) Transformer() cache.TransformFunc {
	return func(o any) (any, error) {
		if o, ok := o.(metav1.Object); ok {
			o.SetManagedFields(nil)
			o.SetOwnerReferences(nil)
		}
		return o, nil
	}
}

// Add implements [cache.ReflectorStore].
func (s *Store[T]) Add(o any) error { return s.Update(o) }

// Update implements [cache.ReflectorStore].
func (s *Store[T]) Update(o any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(s.trim(o))
	s.lost = s.lost && len(s.leaving) > 0
	s.signal()
	return nil
}

// Delete implements [cache.ReflectorStore].
func (s *Store[T]) Delete(o any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := s.trim(o)
	if known, ok := s.objects[gone.Path()]; ok && known.ID() == gone.ID() {
		s.remove(gone.Path())
	}
	s.see(gone.ResourceVersion())
	s.signal()
	return nil
}

// Replace implements [cache.ReflectorStore].
func (s *Store[T]) Replace(list []any, version string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := map[string]bool{}
	for _, o := range list {
		now := s.trim(o)
		there[now.Path()] = true
		s.put(now)
	}
	for path, known := range s.objects {
		if s.dirty[known.Subject()] = true; !there[path] {
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
func (s *Store[T]) Resync() error { return nil }

// Bookmark implements [cache.ReflectorBookmarkStore].
func (s *Store[T]) Bookmark(version string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.see(version)
	return nil
}

// put stores an object. The lock is held.
func (s *Store[T]) put(o T) {
	s.keep(o)
	s.see(o.ResourceVersion())
}

// keep stores an object whatever its version. The lock is held.
func (s *Store[T]) keep(o T) {
	if known, ok := s.objects[o.Path()]; ok {
		s.dirty[known.Subject()] = true
	}
	s.objects[o.Path()] = o
	s.dirty[o.Subject()] = true
	delete(s.leaving, o.Path())
}

// remove removes an object, or notes that its removal has to be confirmed. The lock is held.
func (s *Store[T]) remove(path string) {
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
func (s *Store[T]) drop(path string) {
	s.dirty[s.objects[path].Subject()] = true
	delete(s.objects, path)
	delete(s.leaving, path)
}

// see records a version, and the time of this message of the server. The lock is held.
func (s *Store[T]) see(version string) {
	s.heard = time.Now()
	if order, err := resourceversion.CompareResourceVersion(version, s.newestVersion); s.newestVersion == "" || err == nil && order > 0 {
		s.newestVersion = version
	}
}

func (s *Store[T]) signal() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// Load fills the store with the saved copy of an earlier run.
func (s *Store[T]) Load(objects []T, version string, crd types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range objects {
		s.keep(o)
	}
	s.newestVersion, s.crdUID = version, crd
	s.signal()
}

// Look stores an object that was read by a request of its own, unless the store has a newer one.
func (s *Store[T]) Look(o any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.trim(o)
	if known, ok := s.objects[now.Path()]; ok {
		if order, err := resourceversion.CompareResourceVersion(now.ResourceVersion(), known.ResourceVersion()); err != nil || order <= 0 {
			return
		}
	}
	s.keep(now)
	s.signal()
}

// Touch marks a pod as changed.
func (s *Store[T]) Touch(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirty[path] = true
	s.signal()
}

// Take returns the paths of the pods with changed objects since the last call. answered reports whether the API
// server has listed its objects or does not serve them.
func (s *Store[T]) Take() (dirty map[string]bool, answered, older bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	dirty, s.dirty = s.dirty, map[string]bool{}
	return dirty, s.listed || s.refused != nil, s.older
}

// Accept accepts the state of the API server: one that is older than before, or that lacks objects that were lost.
func (s *Store[T]) Accept() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.older, s.lost = false, false
	for path, o := range s.objects {
		s.dirty[o.Subject()] = true
		if _, gone := s.leaving[path]; gone || s.refused != nil {
			s.drop(path)
		}
	}
	s.signal()
}

// Refuse notes that the API server does not serve the resource, or denies it. The objects are unknown then, and stay.
func (s *Store[T]) Refuse(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = s.lost || apierrors.IsNotFound(err) && len(s.objects) > 0
	if s.refused == nil {
		s.signal()
	}
	s.refused = err
}

// ComesFrom records the UID of the CRD of the objects that follow, or "" if it is unknown. If the UID has changed, the
// known objects were deleted with their CRD.
func (s *Store[T]) ComesFrom(crd types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = s.lost || crd != "" && s.crdUID != "" && crd != s.crdUID && len(s.objects) > 0
	if crd != "" {
		s.crdUID = crd
	}
}

// CRD returns the UID of the CRD that the objects are of, or "" if it is unknown.
func (s *Store[T]) CRD() types.UID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.crdUID
}

// isFrom reports whether the objects are of a CRD with this UID, as far as both are known.
func (s *Store[T]) isFrom(crd types.UID) bool {
	known := s.CRD()
	return crd == "" || known == "" || crd == known
}

// Unconfirmed returns when the oldest removal was seen that has to be confirmed, and false if there is none.
func (s *Store[T]) Unconfirmed() (since time.Time, any bool) {
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

// Confirm removes the objects whose removals were seen until a time.
func (s *Store[T]) Confirm(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, at := range s.leaving {
		if !at.After(until) {
			s.drop(path)
		}
	}
	s.signal()
}

// Get returns the object of a path, or the zero value.
func (s *Store[T]) Get(path string) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[path]
}

// BySubject returns the objects of pods, by the path of the pod.
func (s *Store[T]) BySubject(paths map[string]bool) map[string][]T {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string][]T{}
	for _, o := range s.objects {
		if path := o.Subject(); paths[path] {
			all[path] = append(all[path], o)
		}
	}
	return all
}

// All returns all objects.
func (s *Store[T]) All() []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.objects))
}

// State describes a store.
type State struct {
	Objects       int
	Listed, Older bool
	// Leaving is how many objects the API server no longer has, while their removal is not confirmed.
	Leaving int
	// Lost reports whether the API server stopped serving the resource after it had served objects of it.
	Lost bool
	// Refused is the error of an API server that does not serve the resource, or denies it.
	Refused error
}

// State returns the state of the store.
func (s *Store[T]) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return State{len(s.objects), s.listed, s.older, len(s.leaving), s.lost, s.refused}
}

// Lacking returns why the objects of an optional resource are unknown, or "", and whether values of earlier ones stay.
// manifest is the file of deploy/kubernetes with the CRD.
func (s State) Lacking(r Resource, manifest string) (why string, stay bool) {
	kept, name := s.Leaving, r.GroupResource()
	switch {
	case apierrors.IsNotFound(s.Refused):
		why, kept = fmt.Sprintf("the API server does not serve %s; to use %ss, apply deploy/kubernetes/%s", name, r.Kind, manifest), s.Objects
	case s.Refused != nil:
		why, kept = fmt.Sprintf("the API server refuses access to %s: %v", name, s.Refused), s.Objects
	case s.Lost && kept > 0:
		why = fmt.Sprintf("the CRD %s was deleted with its objects", name)
	default:
		return "", false
	}
	if kept > 0 {
		why += fmt.Sprintf("; the values of %d %ss stay; run \"agentctl resync --accept\" to withdraw them", kept, r.Kind)
	}
	return why, kept > 0
}

// Newest returns the newest version that was seen.
func (s *Store[T]) Newest() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newestVersion
}

// silence returns the time since the last message of the server.
func (s *Store[T]) silence() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.heard)
}

// isEmpty reports whether the store has no objects.
func (s *Store[T]) isEmpty() bool { return s.State().Objects == 0 }

// hear restarts the measurement of silence.
func (s *Store[T]) hear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = time.Now()
}

// unlisted signals new removals that have to be confirmed.
func (s *Store[T]) unlisted() <-chan struct{} { return s.removals }
