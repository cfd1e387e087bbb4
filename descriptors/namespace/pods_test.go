package namespace_test

import (
	"errors"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/namespace"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/scheduler"
)

// pods are those that a runtime has attached.
type pods map[string]pod

type pod struct {
	path  string
	inode uint64
}

func (p pods) Pod(name string) (string, uint64) { return p[name].path, p[name].inode }

// TestPods: a pod is there as long as it is attached, and only in the very namespace
// that it was attached in.
func TestPods(t *testing.T) {
	k, ns, all := newKernel(t), netlinktest.New(t), pods{}
	d := namespace.New(k, namespace.Options{Pods: all})
	key := scheduler.Key(models.NamespacePodKey("default/web"))
	refs := refs{}
	look := func() (ref *models.NamespaceRef) {
		clear(refs)
		for f, err := range d.Retrieve(t.Context(), scheduler.Scope[*models.NamespaceRef, struct{}]{Keys: []scheduler.Key{key}}) {
			if err != nil {
				t.Error(err)
			}
			ref = f.Value
			refs[key] = ref
		}
		return ref
	}
	r := selector.NewResolver(k, selector.Views{Refs: refs, Pods: all})
	web := &models.Namespace{In: &models.Namespace_Pod{Pod: "default/web"}}
	d.Interest(key, true)
	if look() != nil {
		t.Error("it is there before it is attached")
	}
	if _, err := r.Resolve(t.Context(), web); !errors.Is(err, kernel.ErrNoNamespace) {
		t.Error(err)
	}
	all["default/web"] = pod{ns.Path, ns.Inode}
	if _, err := r.Resolve(t.Context(), web); err == nil || errors.Is(err, kernel.ErrNoNamespace) {
		t.Errorf("what was not read yet is gone: %v", err)
	}
	if ref := look(); ref.GetInode() != ns.Inode || ref.GetPath() != ns.Path {
		t.Errorf("found %v", ref)
	}
	if place, err := r.Resolve(t.Context(), web); err != nil || uint64(place.NS) != ns.Inode || place.Path != ns.Path {
		t.Errorf("%v %v", place, err)
	}
	all["default/web"] = pod{ns.Path, 4711}
	if ref := look(); ref != nil {
		t.Errorf("a stranger's namespace: %v", ref)
	}
	all["default/web"] = pod{ns.Path, 0}
	if ref := look(); ref.GetInode() != ns.Inode {
		t.Errorf("with an inode that is not known: %v", ref)
	}
}

// TestRefused: a namespace that may not be used is not there, whatever names it, also
// for what is to be removed.
func TestRefused(t *testing.T) {
	k, ns := newKernel(t), netlinktest.New(t)
	refuse := true
	refused := func(in *models.Namespace, inode uint64) bool {
		return refuse && in.GetPath() == ns.Path && inode == ns.Inode
	}
	d := namespace.New(k, namespace.Options{Refused: refused})
	r := selector.NewResolver(k, selector.Views{Refs: refs{}, Refused: refused})
	key := scheduler.Key(models.NamespacePathKey(ns.Path))
	d.Interest(key, true)
	look := func() (there bool) {
		for f, err := range d.Retrieve(t.Context(), scheduler.Scope[*models.NamespaceRef, struct{}]{Keys: []scheduler.Key{key}}) {
			if err != nil {
				t.Error(err)
			}
			there = f.Value.GetInode() == ns.Inode
		}
		return there
	}
	if look() {
		t.Error("it is there and refused")
	}
	if _, err := r.Resolve(t.Context(), &models.Namespace{In: &models.Namespace_Path{Path: ns.Path}}); !errors.Is(err, kernel.ErrNoNamespace) {
		t.Errorf("what is to be removed there: %v", err)
	}
	refuse = false
	if !look() {
		t.Error("it is not refused, and not there")
	}
}
