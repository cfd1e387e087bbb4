package cni_test

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/plumb-net/plumb/descriptors/ipam"
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/cni"
	"github.com/plumb-net/plumb/plugins/cni/wire"
	"github.com/plumb-net/plumb/plugins/netlink"
)

// fakeHost is a host on which the namespace at /run/netns/N has the inode N, unless
// something else is said.
type fakeHost struct {
	mu            sync.Mutex
	boot          string
	at            map[string]uint64 // what is said of paths, 0: nothing there
	own           uint64
	running       map[string]bool
	unsure        bool
	unready, lost string
	frozen        string
	forgot        string // why records may be lacking
	left          []wire.Request
	book          *ipam.Book
	tell          []func(ids ...string)
	networks      []cni.HostNetwork
	cut           map[string]string         // in>out
	call          bool                      // bridges call iptables
	listens       map[string]string         // protocol and address
	mac           string                    // of every link
	unreadable    error                     // why the networks cannot be read
	routes        map[string][]kernel.Route // of namespaces, by path
	flowsOf       []string                  // the addresses of which connections were deleted
	why           string                    // why values for a pod may still come
	deleted       error                     // why none will come
	asked         cni.Pod
	changed       []cni.Pod // whose attachments have changed
}

var _ cni.Host = (*fakeHost)(nil)

func newFakeHost() *fakeHost {
	return &fakeHost{boot: "one", at: map[string]uint64{}, running: map[string]bool{}, own: 1}
}

func (h *fakeHost) Boot() string { return h.boot }

func (h *fakeHost) Namespace(path string) (inode uint64, own bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	inode, said := h.at[path]
	if n, ok := strings.CutPrefix(path, "/run/netns/"); ok && !said {
		inode, _ = strconv.ParseUint(n, 10, 64)
	}
	return inode, inode == h.own
}

func (h *fakeHost) Running(id string) (running, sure bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.running[id], !h.unsure
}

func (h *fakeHost) Watch(ctx context.Context, f func(ids ...string)) error {
	h.mu.Lock()
	h.tell = append(h.tell, f)
	h.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

func (h *fakeHost) Carries(kernel.LinkRef) bool { return true }

func (h *fakeHost) Full(pool string) bool { return h.book.Full(pool) }

func (h *fakeHost) User(pool string, a netip.Addr) string { return h.book.User(pool, a) }

func (h *fakeHost) Routes(path, _ string) ([]kernel.Route, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.routes[path], nil
}

func (h *fakeHost) DeleteFlows(of ...netip.Addr) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.flowsOf = append(h.flowsOf, fmt.Sprint(of))
	return nil
}

func (h *fakeHost) Listener(protocol string, at netip.AddrPort) string {
	return h.listens[protocol+" "+at.String()]
}

func (h *fakeHost) Link(_, name string) (kernel.Link, error) {
	return kernel.Link{Name: name, MAC: h.mac}, nil
}

func (h *fakeHost) BridgesCall(int) bool { return h.call }

func (h *fakeHost) Cut(_ int, in, out string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cut[in+">"+out]
}

func (h *fakeHost) Networks(netip.Prefix) ([]cni.HostNetwork, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.networks, h.unreadable
}

func (h *fakeHost) Trouble() (unready, lost string) { return h.unready, h.lost }

func (h *fakeHost) Frozen() string { return h.frozen }

func (h *fakeHost) Lost() string { return h.forgot }

func (h *fakeHost) Containers() []string { return slices.Sorted(maps.Keys(h.running)) }

func (h *fakeHost) Leave(r wire.Request) error {
	h.left = append(h.left, r)
	return nil
}

func (h *fakeHost) Awaited(p cni.Pod) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = p
	return h.why, h.deleted
}

func (h *fakeHost) AttachmentsChanged(p cni.Pod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changed = append(h.changed, p)
}

// awaits sets what is said of pods that are awaited.
func (h *fakeHost) awaits(why string, deleted error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.why, h.deleted = why, deleted
}

func (h *fakeHost) Paths() map[uint64]string {
	return map[uint64]string{7: "/run/netns/7", 8: "/run/netns/8"}
}

// kernelHost is a host whose namespaces and links are real.
type kernelHost struct {
	*fakeHost
	k *netlink.Kernel
}

func (h kernelHost) Namespace(path string) (inode uint64, own bool) {
	var st syscall.Stat_t
	if syscall.Stat(path, &st) != nil {
		return 0, false
	}
	return st.Ino, st.Ino == uint64(h.k.Own())
}

func (h kernelHost) Carries(at kernel.LinkRef) bool {
	running, err := h.k.Running(at)
	return err == nil && running
}

func (h kernelHost) Routes(path, _ string) ([]kernel.Route, error) {
	ns, err := h.k.Open(path)
	if err != nil {
		return nil, err
	}
	return h.k.Routes(ns)
}

func (h kernelHost) Link(path, name string) (kernel.Link, error) {
	ns := h.k.Own()
	if path != "" {
		var err error
		if ns, err = h.k.Open(path); err != nil {
			return kernel.Link{}, err
		}
	}
	return h.k.Link(ns, name)
}

func (h kernelHost) Full(string) bool { return false }

func (h kernelHost) User(string, netip.Addr) string { return "" }

// set changes the host and tells who watches.
func (h *fakeHost) set(change func(), ids ...string) {
	h.mu.Lock()
	change()
	tell := h.tell
	h.mu.Unlock()
	for _, f := range tell {
		f(ids...)
	}
}
