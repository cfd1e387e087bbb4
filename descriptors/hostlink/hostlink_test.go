package hostlink_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plumb-net/plumb/descriptors/hostlink"
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/scheduler"
)

// places is a namespace that comes and goes.
type places struct {
	k    kernel.Kernel
	mu   sync.Mutex
	path string
}

func (p *places) set(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.path = path
}

func (p *places) Resolve(_ context.Context, in *models.Namespace) (selector.Place, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if in.GetIn() == nil {
		return selector.Place{NS: p.k.Own()}, nil
	}
	if p.path == "" {
		return selector.Place{}, fmt.Errorf("%s: %w", in.Text(), kernel.ErrNoNamespace)
	}
	ns, err := p.k.Open(p.path)
	return selector.Place{NS: ns, Path: p.path}, err
}

func TestHostLinks(t *testing.T) {
	own := netlinktest.New(t)
	k, err := netlink.New(netlink.Options{OwnPath: own.Path, NamedDir: netlinktest.Dir(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	owner := kernel.NewOwner("host7", "boot", &kernel.MemLedger{}, nil)
	names, where, tick := &kernel.Names{}, &places{k: k}, make(chan time.Time)
	d := hostlink.New(hostlink.Deps{Kernel: k, Owner: owner, Names: names, Places: where, Poll: tick})
	look := func(keys ...scheduler.Key) string {
		t.Helper()
		var list []string
		s := scheduler.Scope[*models.HostLink, kernel.LinkRef]{All: len(keys) == 0, Keys: keys}
		for f, err := range d.Retrieve(t.Context(), s) {
			if err != nil {
				t.Errorf("%s: %v", f.Key, err)
			}
			list = append(list, fmt.Sprintf("%s %s", f.Key, f.Value.GetType()))
		}
		slices.Sort(list)
		return strings.Join(list, ", ")
	}
	own.IP(t, "link add eth9 type veth peer name eth8")
	mark, group := owner.Mark("interface/br"), owner.Group()
	if _, err := k.AddLink(k.Own(), kernel.LinkSpec{Name: "br", Alias: mark, Group: group, Bridge: &kernel.BridgeSpec{}}); err != nil {
		t.Fatal(err)
	}
	own.IP(t, fmt.Sprintf("link add eth7 group %d type bridge", group)) // a stranger in our group
	const all = "hostlink/eth7 bridge, hostlink/eth8 veth, hostlink/eth9 veth, hostlink/lo device"
	if got := look(); got != all {
		t.Errorf("found %s", got)
	}

	var mu sync.Mutex
	var keys []scheduler.Key
	ready := false
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- d.Watch(ctx, func(ks ...scheduler.Key) {
			mu.Lock()
			defer mu.Unlock()
			ready = ready || len(ks) == 0
			keys = append(keys, ks...)
		})
	}()
	defer func() { cancel(); <-done }()
	seen := func(what string, holds func() bool) {
		t.Helper()
		netlinktest.Eventually(t, what, func() bool { mu.Lock(); defer mu.Unlock(); return holds() })
	}
	reported := func(want ...scheduler.Key) {
		t.Helper()
		for _, k := range want {
			seen(string(k), func() bool { return slices.Contains(keys, k) })
		}
		mu.Lock()
		defer mu.Unlock()
		keys = nil
	}
	seen("ready", func() bool { return ready })

	own.IP(t, "link set dev eth9 up")
	reported("hostlink/eth9")
	look("hostlink/eth9", "hostlink/eth8")
	own.Rename(t, "eth9", "eth6")
	reported("hostlink/eth9", "hostlink/eth6")
	if got := look("hostlink/eth9", "hostlink/eth6"); got != "hostlink/eth6 veth" {
		t.Errorf("found %s", got)
	}
	own.IP(t, "link del dev eth6")
	reported("hostlink/eth6", "hostlink/eth8")

	// In another namespace, on demand.
	far := selector.LinkKey(&models.Namespace{In: &models.Namespace_Microservice{Microservice: "web"}}, "eth0")
	d.Interest(far, true)
	if got := look(far); got != "" {
		t.Errorf("found %s", got)
	}
	p := netlinktest.Start(t)
	where.set(p.Path)
	tick <- time.Time{}
	reported(far)
	if got := look(far); got != "" {
		t.Errorf("found %s", got)
	}
	p.IP(t, "link add eth0 type bridge")
	reported(far)
	if got := look(far); got != string(far)+" bridge" {
		t.Errorf("found %s", got)
	}
	p.IP(t, "link add eth1 type bridge") // nobody needs it
	p.IP(t, "link del dev eth0")
	reported(far)
	p.IP(t, "link add eth0 type bridge")
	reported(far)
	look(far)
	where.set("")
	p.Kill()
	reported(far)
	if got := look(far); got != "" {
		t.Errorf("found %s", got)
	}
	d.Interest(far, false)
	if got := look(); got != "hostlink/eth7 bridge, hostlink/lo device" {
		t.Errorf("found %s", got)
	}
}
