package agent

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/namespace"
	"github.com/plumb-net/plumb/descriptors/netns"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/scheduler"
)

// bounded are values of the kinds that the policy restricts in the namespace of the host;
// NS stands for the namespace.
var bounded = map[string]string{
	"interface/existing": `{"namespace":NS,"host_name":"eth0","existing":{},"enabled":false}`,
	"interface/adopt":    `{"namespace":NS,"host_name":"eth0","adopt":true,"bridge":{}}`,
	"sysctl/a":           `{"namespace":NS,"key":"net.core.bpf_jit_enable","value":"0"}`,
	"nftables/a":         `{"namespace":NS,"chains":[{"name":"in","type":"filter","hook":"input","policy":"drop"}]}`,
	"nftables/fast":      `{"namespace":NS,"flowtables":[{"name":"fast","devices":["a"]}]}`,
	"proxy/listen":       `{"listen":{"namespace":NS,"address":"@name"},"forward":{"namespace":{"microservice":"w"},"address":"127.0.0.1:80"}}`,
	"proxy/forward":      `{"listen":{"namespace":{"microservice":"w"},"address":"127.0.0.1:80"},"forward":{"namespace":NS,"address":"127.0.0.1:2379"}}`,
}

// view is what is in place of a kind.
type view[V, M any] map[scheduler.Key]scheduler.Object[V, M]

func (w view[V, M]) Get(k scheduler.Key) (V, M, bool) {
	o, ok := w[k]
	return o.Value, o.Meta, ok
}

func (w view[V, M]) All() iter.Seq2[scheduler.Key, scheduler.Object[V, M]] {
	return func(yield func(scheduler.Key, scheduler.Object[V, M]) bool) {
		for k, o := range w {
			if !yield(k, o) {
				return
			}
		}
	}
}

// podAt has one pod, whose inode is not known.
type podAt string

func (p podAt) Pod(string) (string, uint64) { return string(p), 0 }

// spellings are all ways to name the namespace that a process is in. A link and a bind
// mount of it are made in dir.
func spellings(t *testing.T, dir string, pid int) map[string]*models.Namespace {
	t.Helper()
	file := fmt.Sprintf("/proc/%d/ns/net", pid)
	link, mounted, chain := filepath.Join(dir, "link"), filepath.Join(dir, "mounted"), filepath.Join(dir, "chain")
	if err := errors.Join(os.Symlink(file, link), os.Symlink("link", chain), os.WriteFile(mounted, nil, 0o444),
		unix.Mount(file, mounted, "none", unix.MS_BIND, "")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(mounted, unix.MNT_DETACH) })
	byPath := func(p string) *models.Namespace { return &models.Namespace{In: &models.Namespace_Path{Path: p}} }
	byName := func(n string) *models.Namespace { return &models.Namespace{In: &models.Namespace_Netns{Netns: n}} }
	all := map[string]*models.Namespace{
		"netns, a link":           byName("link"),
		"netns, a link to a link": byName("chain"),
		"netns, a bind mount":     byName("mounted"),
		"path, a link":            byPath(link),
		"path, a bind mount":      byPath(mounted),
		"path of the process":     byPath(file),
		"path of a thread":        byPath(fmt.Sprintf("/proc/%d/task/%d/ns/net", pid, pid)),
		"pid":                     {In: &models.Namespace_Pid{Pid: uint32(pid)}},
		"container":               {In: &models.Namespace_Container{Container: "box"}},
		"microservice":            {In: &models.Namespace_Microservice{Microservice: "web"}},
		"pod":                     {In: &models.Namespace_Pod{Pod: "default/web"}},
		"path with the inode":     byPath(mounted),
	}
	all["path with the inode"].Inode = inode(file)
	if pid == os.Getpid() {
		all["path of process 1"] = byPath("/proc/1/ns/net")
		all["path of this process"] = byPath("/proc/self/ns/net")
		all["path of this thread"] = byPath("/proc/thread-self/ns/net")
		all["pid 1"] = &models.Namespace{In: &models.Namespace_Pid{Pid: 1}}
	}
	return all
}

// observe reads what the kinds observe of a selector's namespace, and of containers that are
// said to be in it.
func observe(t *testing.T, k kernel.Kernel, r *reach, dir string, in *models.Namespace, pid int) selector.Views {
	t.Helper()
	file := fmt.Sprintf("/proc/%d/ns/net", pid)
	box := &models.Container{Runtime: "docker", ContainerId: "0", Name: "box", Pid: uint32(pid), Netns: inode(file)}
	web := &models.Microservice{Pid: uint32(pid), Netns: inode(file)}
	views := selector.Views{NamedDir: dir, Pods: podAt(file), Refused: r.refused,
		Containers:    view[*models.Container, struct{}]{"container/docker:0": {Value: box}},
		Microservices: view[*models.Microservice, struct{}]{"microservice/web": {Value: web}}}
	named := netns.New(k, kernel.NewOwner("host7", "boot", &kernel.MemLedger{}, nil), netns.Options{Dir: dir, Refused: r.refused})
	all := view[*models.NetNS, kernel.NS]{}
	for f, err := range named.Retrieve(t.Context(), scheduler.Scope[*models.NetNS, kernel.NS]{All: true}) {
		if err != nil {
			t.Fatal(err)
		}
		all[f.Key] = scheduler.Object[*models.NetNS, kernel.NS]{Value: f.Value, Meta: f.Meta}
	}
	refs := view[*models.NamespaceRef, struct{}]{}
	observed := namespace.New(k, namespace.Options{Pods: views.Pods, Refused: r.refused})
	key := scheduler.Key(in.Key())
	observed.Interest(key, true)
	for f, err := range observed.Retrieve(t.Context(), scheduler.Scope[*models.NamespaceRef, struct{}]{Keys: []scheduler.Key{key}}) {
		if err != nil { // not even root may see that of process 1
			continue
		}
		refs[f.Key] = scheduler.Object[*models.NamespaceRef, struct{}]{Value: f.Value}
	}
	views.NetNS, views.Refs = all, refs
	return views
}

// satisfied reports whether a value may be built that needs the namespace.
func satisfied(v selector.Views, in *models.Namespace) bool {
	n := selector.Needs(in)[0]
	passes := func(k scheduler.Key, value, meta any) bool { return n.Pass == nil || n.Pass(k, value, meta) }
	for k, o := range v.Containers.All() {
		if strings.HasPrefix(string(k), string(n.Prefix)) && n.Prefix != "" {
			return passes(k, o.Value, o.Meta)
		}
	}
	if o, m, ok := v.Microservices.Get(n.Key); ok {
		return passes(n.Key, o, m)
	}
	if o, m, ok := v.NetNS.Get(n.Key); ok {
		return passes(n.Key, o, m)
	}
	o, m, ok := v.Refs.Get(n.Key)
	return ok && passes(n.Key, o, m)
}

// TestNamespaceByIdentity: no selector leads a value to the namespace of the host or of
// the agent, however it is spelled; all of them lead to another container's. Each value
// that names the host by a file is refused when it is decoded, and what a runtime names is
// refused when the namespace is opened.
func TestNamespaceByIdentity(t *testing.T) {
	box := netlinktest.Start(t)
	for _, tc := range []struct {
		place string
		pid   int
		host  bool
	}{{"the host", os.Getpid(), true}, {"another container", box.Pid, false}} {
		dir := t.TempDir()
		k, err := netlink.New(netlink.Options{NamedDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		all := spellings(t, dir, tc.pid)
		r := newReach(k, dir, nil)
		for name, in := range all {
			for key, value := range bounded {
				byRuntime := in.GetContainer()+in.GetMicroservice()+in.GetPod() != ""
				_, err := r.decode(key, []byte(strings.ReplaceAll(value, "NS", string(models.Encode(in)))))
				if refused := errors.As(err, new(*models.InvalidError)); refused != (tc.host && !byRuntime) {
					t.Errorf("%s, by %s: decode %s: %v", tc.place, name, key, err)
				}
			}
			views := observe(t, k, r, dir, in, tc.pid)
			at, err := selector.NewResolver(k, views).Resolve(t.Context(), in)
			switch {
			case tc.host && !errors.Is(err, kernel.ErrNoNamespace) && !errors.Is(err, os.ErrPermission):
				t.Errorf("%s, by %s: opened: %v, %v", tc.place, name, at, err)
			case !tc.host && (err != nil || uint64(at.NS) != box.Inode):
				t.Errorf("%s, by %s: %v, %v", tc.place, name, at, err)
			}
			isFile := in.GetContainer()+in.GetMicroservice() == "" // the tracker refuses the others
			if got := satisfied(views, in); got == tc.host && (isFile || !tc.host) {
				t.Errorf("%s, by %s: the need is satisfied: %v", tc.place, name, got)
			}
		}
	}
}

// TestNamespaceReplacedByHosts: a name that leads to the host's namespace since it was
// observed is refused when it is opened, whatever was observed before.
func TestNamespaceReplacedByHosts(t *testing.T) {
	dir := t.TempDir()
	k, err := netlink.New(netlink.Options{NamedDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	box, r := netlinktest.Start(t), newReach(k, dir, nil)
	name := filepath.Join(dir, "blue")
	for _, in := range []*models.Namespace{
		{In: &models.Namespace_Netns{Netns: "blue"}}, {In: &models.Namespace_Path{Path: name}},
	} {
		if err := os.Symlink(fmt.Sprintf("/proc/%d/ns/net", box.Pid), name); err != nil {
			t.Fatal(err)
		}
		views := observe(t, k, r, dir, in, box.Pid)
		resolver := selector.NewResolver(k, views)
		if at, err := resolver.Resolve(t.Context(), in); err != nil || uint64(at.NS) != box.Inode {
			t.Fatalf("%v: %v, %v", in, at, err)
		}
		if err := errors.Join(os.Remove(name), os.Symlink("/proc/self/ns/net", name)); err != nil {
			t.Fatal(err)
		}
		// The namespace that was observed lives: what is in it is reached, and nothing else.
		if at, err := resolver.Resolve(t.Context(), in); err != nil && !errors.Is(err, kernel.ErrNoNamespace) || err == nil && uint64(at.NS) != box.Inode {
			t.Errorf("%v after it was replaced: %v, %v", in, at, err)
		}
		// A reading that took the host's namespace for it.
		views.NetNS = view[*models.NetNS, kernel.NS]{"netns/blue": {Value: &models.NetNS{}, Meta: k.Own()}}
		views.Refs = view[*models.NamespaceRef, struct{}]{scheduler.Key(in.Key()): {Value: &models.NamespaceRef{Inode: uint64(k.Own())}}}
		if at, err := selector.NewResolver(k, views).Resolve(t.Context(), in); !errors.Is(err, kernel.ErrNoNamespace) {
			t.Errorf("%v, read as the host's: %v, %v", in, at, err)
		}
		if views := observe(t, k, r, dir, in, os.Getpid()); satisfied(views, in) {
			t.Errorf("%v: the need is satisfied by the host's namespace", in)
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHostsNamespaceByPolicy: a policy that names the very file lets a value name the
// host's namespace by it, and there the policy for the host's namespace applies.
func TestHostsNamespaceByPolicy(t *testing.T) {
	dir := t.TempDir()
	k, err := netlink.New(netlink.Options{NamedDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	all := spellings(t, dir, os.Getpid())
	link := filepath.Join(dir, "link")
	for _, tc := range []struct {
		policy, by, key string
		want            string // of the error
	}{
		{"* path=" + dir + "/*", "netns, a link", "interface/plain", "is the network namespace of the host"},
		{"* path=" + dir + "/*", "path, a link", "interface/plain", "is the network namespace of the host"},
		{"* path=" + dir + "/lin?", "path, a link", "interface/plain", "is the network namespace of the host"},
		{"* path=" + link, "path, a bind mount", "interface/plain", "is not where namespaces may be named"},
		{"* path=" + link, "netns, a bind mount", "interface/plain", "is the network namespace of the host"},
		{"* path=" + link, "path, a link", "interface/plain", ""},
		{"* path=" + link, "netns, a link", "interface/plain", ""},
		{"* path=any", "netns, a bind mount", "interface/plain", ""},
		{"* pid=any", "pid 1", "interface/plain", ""},
		{"* path=" + link, "path, a link", "interface/existing", "existing=virtual"},
		{"* path=" + link, "path, a link", "sysctl/a", "sysctl=net.ipv4.*"},
		{"* path=" + link, "netns, a link", "nftables/a", "hook=nat:*"},
		{"* path=" + link, "netns, a link", "nftables/fast", "hook=nat:*"},
		{"* path=any", "netns, a bind mount", "proxy/listen", "proxy=listen:tcp:*"},
		{"* pid=any", "pid 1", "proxy/forward", "proxy=listen:tcp:*"},
		{"* pid=any", "pid", "interface/adopt", "existing=virtual"},
	} {
		p, err := parsePolicies([]string{tc.policy})
		if err != nil {
			t.Fatal(err)
		}
		r, in := newReach(k, dir, p.reach), all[tc.by]
		// What an agent in its first namespace bounds, whatever namespace this test is in.
		r.defaults.Existing, r.defaults.Sysctls, r.defaults.Hooks, r.defaults.Proxies = nil, nil, nil, nil
		r.defaults.Uplink = func(string) string { return "is a physical device" }
		value := bounded[tc.key]
		if value == "" {
			value = `{"namespace":NS,"dummy":{}}`
		}
		_, err = r.decode(tc.key, []byte(strings.ReplaceAll(value, "NS", string(models.Encode(in)))))
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s, %s by %s:\n got %v\nwant %s", tc.policy, tc.key, tc.by, err, tc.want)
		}
		if tc.key == "interface/plain" && r.refused(in, uint64(k.Own())) != (tc.want != "") {
			t.Errorf("%s, by %s, when it is opened: refused %v", tc.policy, tc.by, tc.want == "")
		}
	}
}

// firstIs is a kernel whose first namespace is a given one.
type firstIs struct {
	kernel.Kernel
	ns kernel.NS
}

func (k firstIs) Sysctl(ns kernel.NS, place string) (string, error) {
	if place == firstOnly && ns != k.ns {
		return "", kernel.ErrNotExist
	}
	return "1000", nil
}

// TestFirstNamespace: the first namespace of the kernel is the host's also for an agent
// that cannot see process 1 of the host.
func TestFirstNamespace(t *testing.T) {
	first, another := kernel.NS(4711), kernel.NS(4712)
	k, err := netlink.New(netlink.Options{NamedDir: netlinktest.Dir(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	r := newReach(firstIs{k, first}, netlinktest.Dir(t), nil)
	r.first = false // as in a container
	by := &models.Namespace{In: &models.Namespace_Netns{Netns: "blue"}}
	for range 2 {
		for ns, want := range map[kernel.NS]bool{first: true, another: false, k.Own(): true} {
			if got := r.refused(by, uint64(ns)); got != want {
				t.Errorf("%d: refused %v, want %v", ns, got, want)
			}
		}
	}
	if r.refused(nil, uint64(first)) {
		t.Error("a value without a selector is refused")
	}
}
