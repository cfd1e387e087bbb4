package cni_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni"
	"github.com/plumb-net/plumb/scheduler"
)

// TestSeveralNetworks plays testdata/ways: which routes a container has that is in several
// networks.
func TestSeveralNetworks(t *testing.T) { playCollisions(t, "testdata/ways/*") }

// TestCollisions plays the stories in testdata/collide: networks that would have what
// others have. Whatever is refused is refused at once and leaves all as it was.
//
//	host               the networks of the host: address|route PREFIX [LINK [KEY]]; or: unread
//	operator           KEY VALUE of each line
//	container          the default routes of the container: GATEWAY [METRIC [TABLE]]
//	add CONTAINER [IF] a configuration; prints the addresses, or the error
//	routes             prints those of all containers
//	del CONTAINER NETWORK [IF]
//	status             a configuration
//	restart            the agent
func TestCollisions(t *testing.T) { playCollisions(t, "testdata/collide/*") }

func playCollisions(t *testing.T, pattern string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	must(t, err)
	if len(files) == 0 {
		t.Fatal("no stories")
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			in(t, func(t *testing.T, n *node) {
				datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string { return n.collide(t, d) })
			})
		})
	}
}

func (n *node) collide(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	input := strings.TrimSpace(d.Input)
	switch d.Cmd {
	case "host":
		n.host.networks, n.host.unreadable = hostNetworks(t, input)
	case "operator":
		var wanted []scheduler.Change
		for line := range strings.Lines(input) {
			key, text, _ := strings.Cut(strings.TrimSpace(line), " ")
			kind, _, _ := strings.Cut(key, "/")
			v, err := models.DecodeKind(kind, []byte(text))
			must(t, err)
			wanted = append(wanted, scheduler.Set(scheduler.Key(key), v))
		}
		n.operator(wanted...)
	case "restart":
		n.restart()
	case "del":
		config := fmt.Sprintf(`{"cniVersion":"1.1.0","name":%q}`, d.CmdArgs[1].Key)
		ifname := "eth0"
		if len(d.CmdArgs) > 2 {
			ifname = d.CmdArgs[2].Key
		}
		if a := n.callFor(t.Context(), "DEL", d.CmdArgs[0].Key, ifname, "", config); a.Error != nil {
			return a.Error.Error() + "\n"
		}
	case "status":
		if a := n.call(t.Context(), "STATUS", "", "", input); a.Error != nil {
			return a.Error.Error() + "\n"
		}
		return "ready\n"
	case "add":
		ifname := "eth0"
		if len(d.CmdArgs) > 1 {
			ifname = d.CmdArgs[1].Key
		}
		return n.collidingADD(t, d.CmdArgs[0].Key, ifname, input)
	case "container":
		n.host.routes = map[string][]kernel.Route{"/run/netns/7": routesOf(t, input)}
	case "routes":
		return n.routes()
	default:
		t.Fatalf("%s: %s is no command", d.Pos, d.Cmd)
	}
	return ""
}

// collidingADD is an ADD that is answered at the same instant, and that changes nothing
// if it fails.
func (n *node) collidingADD(t *testing.T, container, ifname, config string) string {
	t.Helper()
	before, began := n.show(), time.Now()
	a := n.callFor(t.Context(), "ADD", container, ifname, "/run/netns/7", config)
	synctest.Wait()
	if time.Since(began) > 0 {
		t.Errorf("it took %s", time.Since(began))
	}
	if a.Error != nil {
		if n.show() != before {
			t.Errorf("it left\n%s\nof\n%s", n.show(), before)
		}
		return a.Error.Error() + "\n"
	}
	var b strings.Builder
	for _, ip := range a.Result.IPs {
		fmt.Fprintln(&b, ip.Address)
	}
	return b.String()
}

func hostNetworks(t *testing.T, text string) (list []cni.HostNetwork, err error) {
	t.Helper()
	for line := range strings.Lines(text) {
		words := append(strings.Fields(line), "", "")
		if words[0] == "unread" {
			return nil, errors.New("no buffer space")
		}
		list = append(list, cni.HostNetwork{Prefix: netip.MustParsePrefix(words[1]), Route: words[0] == "route", Link: words[2], Key: words[3]})
	}
	return list, nil
}

// FuzzPool: whatever a pool says, what is taken for a network is one that packets of
// containers can be in, and has an address for one.
func FuzzPool(f *testing.F) {
	texts, err := os.ReadFile("testdata/collide/unusable")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(texts)) {
		if _, rest, ok := strings.Cut(line, `"pool":"`); ok {
			pool, _, _ := strings.Cut(rest, `"`)
			f.Add(pool)
		}
	}
	f.Fuzz(func(t *testing.T, pool string) {
		p, err := cni.PoolNetwork(pool)
		if err != nil {
			return
		}
		host := p.Addr()
		if !p.IsSingleIP() {
			host = host.Next()
		}
		if !p.Contains(host) || host.IsLoopback() || host.IsMulticast() || host.IsUnspecified() || host.IsLinkLocalUnicast() || host.Is4In6() || host.Zone() != "" {
			t.Errorf("%q is taken for %s", pool, p)
		}
		if p.IsSingleIP() {
			t.Errorf("%q has one address, which is the gateway's", pool)
		}
	})
}

// routesOf are default routes.
func routesOf(t *testing.T, text string) (list []kernel.Route) {
	t.Helper()
	for line := range strings.Lines(text) {
		r := kernel.Route{Type: "unicast", Table: models.MainTable}
		var gateway string
		_, _ = fmt.Sscan(line, &gateway, &r.Metric, &r.Table)
		r.Gateway = netip.MustParseAddr(gateway)
		r.Dst = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		if r.Gateway.Is6() {
			r.Dst = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
		list = append(list, r)
	}
	return list
}

// routes are those of the host.
func (n *node) routes() string {
	n.kernel.mu.Lock()
	defer n.kernel.mu.Unlock()
	var lines []string
	for _, v := range n.kernel.objects {
		if r, ok := v.(*models.Route); ok {
			network, _, _ := strings.Cut(strings.TrimPrefix(r.GetInterface(), "cni:"), ":")
			lines = append(lines, fmt.Sprintf("%s: %s via %s metric %d table %d\n", network, r.GetDestination(), r.GetGateway(), r.GetMetric(), r.EffectiveTable()))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}
