package namespace

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// Options of the observed kind. The zero value works.
type Options struct {
	// Poll gives the moments at which the namespaces that are needed are
	// looked at. Default: once a second while Watch runs.
	Poll <-chan time.Time
	// StartTime tells when a process started, in any unit that only grows
	// within a boot. Default: the kernel tells.
	StartTime func(pid uint32) (uint64, error)
	// Pods tells of pods. Default: there are none.
	Pods selector.Pods
	// Refused reports whether the namespace that a selector leads to may not be used.
	// It is asked whenever one is opened: a process and a file may come to mean
	// another. Nil refuses none.
	Refused func(in *models.Namespace, inode uint64) bool
}

// New makes the observed kind of the namespaces named by pid, path and pod. They
// are only looked at while some value needs them.
//
// A process is known by its start time as well: when its number is given to
// another process the namespace is gone, and stays gone for as long as
// somebody needs it, because a stranger's namespace is not what was asked for.
func New(port kernel.Kernel, o Options) scheduler.Descriptor[*models.NamespaceRef, struct{}] {
	if o.StartTime == nil {
		o.StartTime = func(pid uint32) (uint64, error) { return port.Started(int(pid)) }
	}
	d := &observer{kernel: port, opts: o, wanted: map[scheduler.Key]*sight{}}
	k := kind.Observed[*models.NamespaceRef, struct{}](models.KindNamespace)
	k.Retrieve, k.Watch, k.Interest = d.retrieve, d.watch, d.interest
	k.Equal = func(_ scheduler.Key, a, b *models.NamespaceRef) bool {
		return a.GetInode() == b.GetInode() && a.GetPid() == b.GetPid() && a.GetPath() == b.GetPath()
	}
	return k
}

type observer struct {
	kernel kernel.Kernel
	opts   Options

	mu     sync.Mutex
	wanted map[scheduler.Key]*sight
}

// sight is what was last seen of a namespace that is needed.
type sight struct {
	inode   uint64 // of the file at the path, 0 if there was none
	started uint64 // of the process that was seen first
}

func (d *observer) interest(k scheduler.Key, wanted bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case !wanted:
		delete(d.wanted, k)
	case d.wanted[k] == nil:
		d.wanted[k] = &sight{}
	}
}

type (
	found = scheduler.Found[*models.NamespaceRef, struct{}]
	scope = scheduler.Scope[*models.NamespaceRef, struct{}]
)

func (d *observer) retrieve(ctx context.Context, s scope) iter.Seq2[found, error] {
	keys := s.Keys
	if s.All {
		keys = d.keys()
	}
	return func(yield func(found, error) bool) {
		for _, k := range keys {
			ref, err := d.look(k, s.ReadOnly)
			if (ref != nil || err != nil) && !yield(found{Key: k, Value: ref}, err) {
				return
			}
		}
	}
}

func (d *observer) keys() []scheduler.Key {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.wanted))
}

// look reads one namespace; nil means that it is not there, or that nobody asks.
func (d *observer) look(k scheduler.Key, readOnly bool) (*models.NamespaceRef, error) {
	if !d.asked(k) {
		return nil, nil
	}
	in, path, inode := d.file(k)
	if !readOnly {
		// What the watch compares with is read first: a change after it is noticed.
		d.note(k, d.behind(path))
	}
	if path == "" {
		return nil, nil
	}
	ns, err := d.kernel.Open(path)
	switch {
	case kernel.IsGone(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %w", in.Text(), err)
	case inode != 0 && inode != uint64(ns):
		return nil, nil // the path is another's by now
	case d.opts.Refused != nil && d.opts.Refused(in, uint64(ns)):
		return nil, nil
	}
	ref := &models.NamespaceRef{Inode: uint64(ns), Pid: in.GetPid()}
	if in.GetPod() != "" {
		ref.Path = path
	}
	return ref, nil
}

// file is where the namespace of a key is, "" if it is nowhere: a process may be
// another by now. inode is that which it must have, 0 for any.
func (d *observer) file(k scheduler.Key) (in *models.Namespace, path string, inode uint64) {
	in, ok := selector.Parse(nameOf(k))
	if !ok {
		return nil, "", 0
	}
	if _, process := in.GetIn().(*models.Namespace_Pid); process && !d.sameProcess(k, in.GetPid()) {
		return in, "", 0
	}
	path, inode = selector.File(in, d.opts.Pods)
	return in, path, inode
}

// behind is what is at a path, 0 for nowhere.
func (d *observer) behind(path string) uint64 {
	if path == "" {
		return 0
	}
	return uint64(d.kernel.Behind(path))
}

func (d *observer) asked(k scheduler.Key) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.wanted[k] != nil
}

// nameOf takes the selector's text out of a key, "" if it is none.
func nameOf(k scheduler.Key) string {
	name, err := models.Unescape(strings.TrimPrefix(string(k), models.KindNamespace+"/"))
	if err != nil {
		return ""
	}
	return name
}

func (d *observer) note(k scheduler.Key, inode uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.wanted[k]; s != nil {
		s.inode = inode
	}
}

// sameProcess reports whether the process runs and is the one that was seen first.
func (d *observer) sameProcess(k scheduler.Key, pid uint32) bool {
	started, err := d.opts.StartTime(pid)
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.wanted[k]
	if err != nil || s == nil {
		return err == nil
	}
	if s.started == 0 {
		s.started = started
	}
	return s.started == started
}
