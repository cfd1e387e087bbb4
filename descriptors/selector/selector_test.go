package selector_test

import (
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/scheduler"
)

func in(text string) *models.Namespace {
	ns, ok := selector.Parse(text)
	if !ok {
		panic(text)
	}
	return ns
}

func TestTextIsReadBack(t *testing.T) {
	for _, text := range []string{"", "microservice:web", "microservice:a b:c", "container:x", "netns:blue", "pid:17", "path:/run/x:y", "pod:default/web"} {
		ns := in(text)
		if got := selector.Text(ns); got != text {
			t.Errorf("%q became %q", text, got)
		}
		key := selector.LinkKey(ns, "eth0")
		back, host, ok := selector.ParseLinkKey(key)
		if !ok || host != "eth0" || selector.Text(back) != text {
			t.Errorf("%s: %s %s %v", key, selector.Text(back), host, ok)
		}
	}
	for _, text := range []string{"x:y", "microservice:", "pid:x", "pid:-1", "web"} {
		if _, ok := selector.Parse(text); ok {
			t.Errorf("%q was taken", text)
		}
	}
}

func TestNeeds(t *testing.T) {
	running := &models.Container{Runtime: "docker", ContainerId: "abc", Name: "db", Pid: 1, Netns: 7}
	for _, c := range []struct {
		selector, need, why string
		object, meta        any
		passes              bool
		projection          string
	}{
		{"microservice:web", "microservice/web", "a running container with the service label web",
			&models.Microservice{Pid: 1, Netns: 7}, nil, true, "net:[7]"},
		{"microservice:web", "microservice/web", "a running container with the service label web",
			&models.Microservice{Pid: 1, Netns: 7, Refused: "host network"}, nil, false, "net:[7]"},
		{"container:db", "container/*", "a running container with the id or name db", running, nil, true, "net:[7]"},
		{"container:abc", "container/*", "a running container with the id or name abc", running, nil, true, "net:[7]"},
		{"container:ab", "container/*", "a running container with the id or name ab", running, nil, false, "net:[7]"},
		{"container:db", "container/*", "a running container with the id or name db", &models.Container{Name: "db"}, nil, false, "net:[0]"},
		{"netns:blue", "netns/blue", "the network namespace blue", &models.NetNS{}, kernel.NS(7), true, "net:[7]"},
		{"netns:blue", "netns/blue", "the network namespace blue", &models.NetNS{}, kernel.NS(0), true, "net:[0]"}, // in a preview
		{"netns:blue", "netns/blue", "the network namespace blue", &models.NetNS{}, selector.Refused, false, "net:[18446744073709551615]"},
		{"pid:17", "namespace/pid:17", "the process 17", &models.NamespaceRef{Inode: 7}, nil, true, "net:[7]"},
		{"path:/run/x", "namespace/path:%2Frun%2Fx", "a network namespace at /run/x", &models.NamespaceRef{Inode: 7}, nil, true, "net:[7]"},
		{"path:/run/x#7", "namespace/path:%2Frun%2Fx", "a network namespace at /run/x", &models.NamespaceRef{Inode: 7}, nil, true, "net:[7]"},
		{"path:/run/x#8", "namespace/path:%2Frun%2Fx", "a network namespace at /run/x", &models.NamespaceRef{Inode: 7}, nil, false, "net:[7]"},
		{"pod:default/web", "namespace/pod:default%2Fweb", "the pod default/web, attached by a container runtime", &models.NamespaceRef{Inode: 7}, nil, true, "net:[7]"},
	} {
		text, meant, _ := strings.Cut(c.selector, "#")
		ns := in(text)
		if meant != "" {
			ns.Inode, _ = strconv.ParseUint(meant, 10, 64)
		}
		list := selector.Needs(ns)
		if len(list) != 1 {
			t.Fatalf("%s: %d needs", c.selector, len(list))
		}
		n := list[0]
		if n.String() != c.need || n.Why != c.why {
			t.Errorf("%s: %s: %s", c.selector, n, n.Why)
		}
		if passes := n.Pass == nil || n.Pass("", c.object, c.meta); passes != c.passes {
			t.Errorf("%s: %v passes %v", c.selector, c.object, passes)
		}
		if got := n.Project(c.object, c.meta); got != c.projection {
			t.Errorf("%s: projection %s, want %s", c.selector, got, c.projection)
		}
	}
	if len(selector.Needs(nil)) != 0 {
		t.Error("the agent's own namespace needs something")
	}
}

// view is what is in place of a kind.
type view[V, M any] map[scheduler.Key]struct {
	v V
	m M
}

func (w view[V, M]) Get(k scheduler.Key) (V, M, bool) {
	e, ok := w[k]
	return e.v, e.m, ok
}

func (w view[V, M]) All() iter.Seq2[scheduler.Key, scheduler.Object[V, M]] {
	return func(yield func(scheduler.Key, scheduler.Object[V, M]) bool) {
		for k, e := range w {
			if !yield(k, scheduler.Object[V, M]{Value: e.v, Meta: e.m}) {
				return
			}
		}
	}
}

func newKernel(t *testing.T) *netlink.Kernel {
	t.Helper()
	k, err := netlink.New(netlink.Options{OwnPath: netlinktest.New(t).Path, NamedDir: netlinktest.Dir(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return k
}

// source is who knows containers at first hand.
type source struct {
	services   map[string]*models.Microservice
	containers map[string]*models.Container
	err        error
}

func (s *source) Microservices() (map[string]*models.Microservice, error) { return s.services, s.err }
func (s *source) Containers() (map[string]*models.Container, error)       { return s.containers, s.err }

func TestResolve(t *testing.T) {
	k := newKernel(t)
	p := netlinktest.Start(t)
	ms := view[*models.Microservice, struct{}]{}
	cs := view[*models.Container, struct{}]{}
	refs := view[*models.NamespaceRef, struct{}]{}
	r := selector.NewResolver(k, selector.Views{Microservices: ms, Containers: cs, Refs: refs})
	put := func(inode uint64) {
		ms["microservice/web"] = struct {
			v *models.Microservice
			m struct{}
		}{v: &models.Microservice{Pid: uint32(p.Pid), Netns: inode}}
		cs["container/docker:abc"] = struct {
			v *models.Container
			m struct{}
		}{v: &models.Container{ContainerId: "abc", Name: "db", Pid: uint32(p.Pid), Netns: inode}}
		refs[scheduler.Key(models.NamespacePIDKey(uint32(p.Pid)))] = struct {
			v *models.NamespaceRef
			m struct{}
		}{v: &models.NamespaceRef{Inode: inode}}
	}
	selectors := []string{"microservice:web", "container:abc", "container:db", fmt.Sprintf("pid:%d", p.Pid)}
	for _, s := range selectors[:3] {
		if _, err := r.Resolve(t.Context(), in(s)); !errors.Is(err, kernel.ErrNoNamespace) {
			t.Errorf("%s before it is there: %v", s, err)
		}
	}
	// What is there but not known to the scheduler is not gone.
	src := &source{err: errors.New("the engine does not answer")}
	doubtful := selector.NewResolver(k, selector.Views{Microservices: ms, Containers: cs, Refs: refs, Source: src})
	for _, step := range []struct {
		name string
		do   func()
		gone bool
	}{
		{"unknown", func() {}, false},
		{"known to be gone", func() { src.err = nil }, true},
		{"there", func() {
			src.services = map[string]*models.Microservice{"web": {Pid: uint32(p.Pid), Netns: p.Inode}}
			src.containers = map[string]*models.Container{"docker:abc": {ContainerId: "abc", Name: "db", Pid: uint32(p.Pid), Netns: p.Inode}}
		}, false},
		{"refused", func() { src.services["web"].Refused, src.containers["docker:abc"].Refused = "host", "host" }, true},
	} {
		step.do()
		for _, s := range selectors[:3] {
			if _, err := doubtful.Resolve(t.Context(), in(s)); err == nil || errors.Is(err, kernel.ErrNoNamespace) != step.gone {
				t.Errorf("%s %s: %v", s, step.name, err)
			}
		}
		if _, err := doubtful.Resolve(t.Context(), in(selectors[3])); err == nil || errors.Is(err, kernel.ErrNoNamespace) {
			t.Errorf("%s lives: %v", selectors[3], err)
		}
	}
	put(4711) // an inode that is not the process's: it is being replaced
	for _, s := range selectors {
		if _, err := r.Resolve(t.Context(), in(s)); !errors.Is(err, kernel.ErrNoNamespace) {
			t.Errorf("%s replaced: %v", s, err)
		}
	}
	put(p.Inode)
	for _, s := range selectors {
		place, err := r.Resolve(t.Context(), in(s))
		if err != nil || uint64(place.NS) != p.Inode || place.Path != fmt.Sprintf("/proc/%d/ns/net", p.Pid) {
			t.Errorf("%s: %v %v", s, place, err)
		}
	}
	if place, err := r.Resolve(t.Context(), nil); err != nil || place.NS != k.Own() {
		t.Errorf("own: %v %v", place, err)
	}
	p.Kill()
	netlinktest.Eventually(t, "the end of the namespace", func() bool { return !k.Alive(kernel.NS(p.Inode)) })
	for _, s := range selectors {
		if _, err := r.Resolve(t.Context(), in(s)); !errors.Is(err, kernel.ErrNoNamespace) {
			t.Errorf("%s after its end: %v", s, err)
		}
	}
}

// Who means one namespace is not given another that has its path.
func TestResolveAnother(t *testing.T) {
	k := newKernel(t)
	p := netlinktest.Start(t)
	refs := view[*models.NamespaceRef, struct{}]{}
	r := selector.NewResolver(k, selector.Views{Refs: refs})
	meant := func(inode uint64) *models.Namespace {
		return &models.Namespace{In: &models.Namespace_Path{Path: p.Path}, Inode: inode}
	}
	e := refs[scheduler.Key(meant(0).Key())]
	e.v = &models.NamespaceRef{Inode: p.Inode}
	refs[scheduler.Key(meant(0).Key())] = e
	for _, inode := range []uint64{0, p.Inode} {
		if place, err := r.Resolve(t.Context(), meant(inode)); err != nil || uint64(place.NS) != p.Inode {
			t.Errorf("%d: %v, %v", inode, place, err)
		}
	}
	if place, err := r.Resolve(t.Context(), meant(p.Inode+1)); !errors.Is(err, kernel.ErrNoNamespace) {
		t.Errorf("another: %v, %v", place, err)
	}
}
