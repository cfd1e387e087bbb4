package selector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// View is what the resolver reads of another kind: what is in place there.
// [scheduler.Kind] is one.
type View[V, M any] interface {
	Get(k scheduler.Key) (V, M, bool)
	All() iter.Seq2[scheduler.Key, scheduler.Object[V, M]]
}

// Views are the kinds that selectors name.
type Views struct {
	Microservices View[*models.Microservice, struct{}]
	Containers    View[*models.Container, struct{}]
	NetNS         View[*models.NetNS, kernel.NS]
	// Refs are the namespaces named by pid, path and pod, which are a kind of their own.
	Refs View[*models.NamespaceRef, struct{}]
	// Refused reports whether the open namespace that a selector led to may not be used;
	// such a namespace counts as absent. Nil refuses none.
	Refused func(in *models.Namespace, inode uint64) bool
	// Pods is what the kind of Refs was given.
	Pods Pods
	// NamedDir is where named namespaces are. Default: [NamedDir].
	NamedDir string
	// Source knows containers at first hand. Without it what is not in place
	// in the scheduler is taken for gone.
	Source Source
}

// Source tells what is known of containers for sure, by label and by key. Its
// error says why others may be there as well.
type Source interface {
	Microservices() (map[string]*models.Microservice, error)
	Containers() (map[string]*models.Container, error)
}

// NamedDir is where everybody keeps named namespaces.
const NamedDir = "/run/netns"

// Place is a namespace that was found.
type Place struct {
	NS kernel.NS
	// Path is how to find it again after a restart of the agent, empty for
	// the agent's own.
	Path string
}

// Places finds the namespace that a selector names, while an operation needs it;
// [Resolver] does.
type Places interface {
	Resolve(ctx context.Context, in *models.Namespace) (Place, error)
}

// Pods tells which namespace a pod has.
type Pods interface {
	// Pod is the file of a pod's namespace and its inode, 0 if that is not known;
	// "" if there is no such pod.
	Pod(name string) (path string, inode uint64)
}

// Resolver finds the namespaces that selectors name.
type Resolver struct {
	kernel kernel.Kernel
	views  Views
}

// NewResolver makes a resolver. A view that is nil never has anything in place.
func NewResolver(k kernel.Kernel, v Views) *Resolver {
	v.NamedDir = cmp.Or(v.NamedDir, NamedDir)
	return &Resolver{kernel: k, views: v}
}

// Resolve finds the namespace and makes it usable. Its error is
// kernel.ErrNoNamespace when there is none any more, and then worth another
// try: what satisfied the need has just gone or is being replaced. When the
// scheduler only does not know of it yet, or no more, the error is another:
// unknown is not gone.
func (r *Resolver) Resolve(ctx context.Context, in *models.Namespace) (Place, error) {
	if err := ctx.Err(); err != nil {
		return Place{}, err
	}
	w := wayOf(in)
	if w == nil {
		return Place{NS: r.kernel.Own()}, nil
	}
	inode, path, ok := w.find(r.views, scheduler.Key(in.Key()))
	if !ok {
		if err := w.doubt(r); err != nil {
			return Place{}, fmt.Errorf("%s is not known: %w", in.Text(), err)
		}
		return Place{}, gone(in, nil)
	}
	ns := kernel.NS(inode)
	// An inode that lives is still the namespace that was observed: the
	// kernel's handle keeps it from being given to another.
	if !r.kernel.Alive(ns) {
		opened, err := r.kernel.Open(path)
		if err != nil {
			return Place{}, gone(in, err)
		}
		if opened != ns {
			return Place{}, fmt.Errorf("%w: it is being replaced", gone(in, nil))
		}
	}
	// The open namespace is judged, whose identity no longer changes.
	if r.refused(in, ns) {
		return Place{}, fmt.Errorf("%w: %s", gone(in, nil), RefusedText)
	}
	return Place{NS: ns, Path: path}, nil
}

// Refused is the metadata of a named namespace that no value may use. It is not 0, which
// is the metadata of a namespace that a preview would create.
const Refused = ^kernel.NS(0)

// RefusedText says why a namespace is refused.
const RefusedText = "it is the network namespace of the host or of the agent; leave namespace out for the agent's own"

func (r *Resolver) refused(in *models.Namespace, ns kernel.NS) bool {
	return r.views.Refused != nil && r.views.Refused(in, uint64(ns))
}

func gone(in *models.Namespace, err error) error {
	if err == nil || errors.Is(err, kernel.ErrNoNamespace) {
		return fmt.Errorf("%s: %w", in.Text(), kernel.ErrNoNamespace)
	}
	return fmt.Errorf("%s: open it: %w", in.Text(), err)
}

// open opens a file; its error is nil only if there surely is no namespace.
func (r *Resolver) open(path string) (kernel.NS, error) {
	ns, err := r.kernel.Open(path)
	if kernel.IsGone(err) {
		return 0, nil
	}
	return ns, cmp.Or(err, errUnread)
}

func unread(there bool) error {
	if there {
		return errUnread
	}
	return nil
}

var errUnread = errors.New("it is there, but was not read yet")

func get[V, M any](view View[V, M], k scheduler.Key) (v V, m M, ok bool) {
	if view == nil {
		return v, m, false
	}
	return view.Get(k)
}
