package selector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"

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
	// Refused and Pods are what that kind was given: what may not be used is not there.
	Refused func(in *models.Namespace, inode uint64) bool
	Pods    Pods
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
	if in.GetIn() == nil {
		return Place{NS: r.kernel.Own()}, nil
	}
	inode, path, ok := r.find(in)
	if !ok {
		if err := r.doubt(in); err != nil {
			return Place{}, fmt.Errorf("%s is not known: %w", in.Text(), err)
		}
		return Place{}, gone(in, nil)
	}
	ns := kernel.NS(inode)
	// An inode that lives is still the namespace that was observed: the
	// kernel's handle keeps it from being given to another.
	if r.kernel.Alive(ns) {
		return Place{NS: ns, Path: path}, nil
	}
	opened, err := r.kernel.Open(path)
	if err != nil {
		return Place{}, gone(in, err)
	}
	if opened != ns {
		return Place{}, fmt.Errorf("%w: it is being replaced", gone(in, nil))
	}
	return Place{NS: ns, Path: path}, nil
}

func gone(in *models.Namespace, err error) error {
	if err == nil || errors.Is(err, kernel.ErrNoNamespace) {
		return fmt.Errorf("%s: %w", in.Text(), kernel.ErrNoNamespace)
	}
	return fmt.Errorf("%s: open it: %w", in.Text(), err)
}

// doubt tells why a namespace that is not in place in the scheduler may be
// there all the same; nil: it is surely gone.
func (r *Resolver) doubt(in *models.Namespace) error {
	named, key, meant := in, scheduler.Key(in.Key()), in.GetInode()
	switch in := in.GetIn().(type) {
	case *models.Namespace_Microservice:
		if r.views.Source == nil {
			return nil
		}
		all, err := r.views.Source.Microservices()
		if v, sure := all[in.Microservice]; sure {
			return unread(v != nil && microserviceUsable(key, v, struct{}{}))
		}
		return err
	case *models.Namespace_Container:
		if r.views.Source == nil {
			return nil
		}
		all, err := r.views.Source.Containers()
		for _, v := range all {
			if v != nil && isContainer(v, in.Container) {
				return unread(containerUsable(v))
			}
		}
		return err
	case *models.Namespace_Netns:
		return r.doubtFile(nil, r.views.NamedDir+"/"+in.Netns, 0)
	case *models.Namespace_Pod:
		path, _ := File(named, r.views.Pods)
		return unread(path != "")
	case *models.Namespace_Pid, *models.Namespace_Path:
		path, _ := File(named, nil)
		return r.doubtFile(named, path, meant)
	}
	return nil
}

// doubtFile: meant is the inode of the namespace that is meant, 0 for any. in is what
// may be refused, nil for what is never.
func (r *Resolver) doubtFile(in *models.Namespace, path string, meant uint64) error {
	ns, err := r.kernel.Open(path)
	if err == nil && in != nil && r.views.Refused != nil && r.views.Refused(in, uint64(ns)) {
		return nil
	}
	another := err == nil && meant != 0 && uint64(ns) != meant
	if another || kernel.IsGone(err) {
		return nil
	}
	return cmp.Or(err, errUnread)
}

func unread(there bool) error {
	if there {
		return errUnread
	}
	return nil
}

var errUnread = errors.New("it is there, but was not read yet")

// find returns the inode that was observed and the path that leads to it.
func (r *Resolver) find(in *models.Namespace) (inode uint64, path string, ok bool) {
	key, meant := scheduler.Key(in.Key()), in.GetInode()
	switch in := in.GetIn().(type) {
	case *models.Namespace_Microservice:
		v, _, found := get(r.views.Microservices, key)
		return v.GetNetns(), processPath(v.GetPid()), found && microserviceUsable(key, v, struct{}{})
	case *models.Namespace_Container:
		v, found := r.container(in.Container)
		return v.GetNetns(), processPath(v.GetPid()), found
	case *models.Namespace_Netns:
		_, ns, found := get(r.views.NetNS, key)
		return uint64(ns), r.views.NamedDir + "/" + in.Netns, found && ns != 0
	}
	v, _, found := get(r.views.Refs, key)
	path, _ = File(in, nil)
	return v.GetInode(), cmp.Or(path, v.GetPath()), found && (meant == 0 || v.GetInode() == meant)
}

// container finds a running container. A full id finds it at once; a name is
// looked for among all. Of several the smallest key is taken.
func (r *Resolver) container(selector string) (*models.Container, bool) {
	if r.views.Containers == nil {
		return nil, false
	}
	docker := scheduler.Key(models.ContainerKey("docker", selector))
	if v, _, ok := r.views.Containers.Get(docker); ok && containerUsable(v) {
		return v, true
	}
	var best *models.Container
	var bestKey scheduler.Key
	for k, o := range r.views.Containers.All() {
		v := o.Value
		if isContainer(v, selector) && containerUsable(v) && (best == nil || k < bestKey) {
			best, bestKey = v, k
		}
	}
	return best, best != nil
}

func get[V, M any](view View[V, M], k scheduler.Key) (v V, m M, ok bool) {
	if view == nil {
		return v, m, false
	}
	return view.Get(k)
}

// File is the file of a namespace that is named by pid, path or pod, "" if there is
// none, and the inode that it must have, 0 for any. pods may be nil.
func File(in *models.Namespace, pods Pods) (path string, inode uint64) {
	switch in := in.GetIn().(type) {
	case *models.Namespace_Pid:
		return processPath(in.Pid), 0
	case *models.Namespace_Path:
		return in.Path, 0
	case *models.Namespace_Pod:
		if pods != nil {
			return pods.Pod(in.Pod)
		}
	}
	return "", 0
}

func processPath(pid uint32) string {
	return "/proc/" + strconv.FormatUint(uint64(pid), 10) + "/ns/net"
}
