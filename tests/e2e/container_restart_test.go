package e2e

import (
	"flag"
	"fmt"
	"sync"
	"testing"

	"github.com/plumb-net/plumb/tests/e2e/host"
)

// bridged puts a bridge with addresses of the host.
func bridged(h *host.Host) {
	h.Put("interface/br", `{"host_name":"br","bridge":{},"addresses":["10.70.0.1/16","fd70::1/64"]}`)
}

// onBridge puts a cable from the bridge to a namespace, with the nth addresses. It returns the keys.
func onBridge(h *host.Host, name, namespace string, n int) []string {
	h.Put("interface/out-"+name, fmt.Sprintf(`{"host_name":"o-%s","master":"br","veth":{"peer":"in-%s"}}`, name, name))
	h.Put("interface/in-"+name, fmt.Sprintf(`{"host_name":"eth0","namespace":%s,"veth":{"peer":"out-%s"},"addresses":["%s/16","%s/64"]}`, namespace, name, four(n), six(n)))
	return []string{"interface/out-" + name, "interface/in-" + name, fmt.Sprintf("address/in-%s/%s/16", name, four(n)), fmt.Sprintf("address/in-%s/%s/64", name, six(n))}
}

// withIPv6 are options of a container: Docker switches IPv6 off in a container without a network.
var withIPv6 = []string{"--sysctl", "net.ipv6.conf.all.disable_ipv6=0", "--sysctl", "net.ipv6.conf.default.disable_ipv6=0"}

func four(n int) string { return fmt.Sprintf("10.70.%d.%d", n/250, n%250+2) }
func six(n int) string  { return fmt.Sprintf("fd70::%x", n+2) }

// TestPeersReachARestartedContainer: a container restarts, so that its addresses come back with
// another MAC. Peers that have the former MAC in their neighbor caches reach it as soon as its
// addresses are configured.
func TestPeersReachARestartedContainer(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true})
	h.Start()
	bridged(h)
	peer := h.Mount("peer")
	h.AwaitConfigured(onBridge(h, "peer", `{"netns":"peer"}`, 1)...)
	h.Run("web", withIPv6...)
	keys := onBridge(h, "web", `{"microservice":"web"}`, 0)
	h.AwaitConfigured(keys...)
	for round := range 6 {
		for _, from := range []struct {
			name string
			try  func(args ...string) (string, error)
		}{{"the peer", peer.Try}, {"the host", h.Own.Try}} {
			for _, to := range []string{four(0), six(0)} {
				if out, err := from.try("busybox", "ping", "-c", "1", "-W", "1", to); err != nil {
					t.Errorf("round %d: a ping from %s to %s is lost: %v\n%s", round, from.name, to, err, out)
				}
			}
		}
		h.Docker("restart", h.ContainerName("web"))
		h.Eventually("the addresses are in the new namespace", func() error {
			_, err := h.In("web").Try("ip", "addr", "show", "dev", "eth0")
			return err
		})
		h.AwaitConfigured(keys...)
	}
}

var manyContainers = flag.Int("containers", 12, "how many containers TestManyContainers runs")

// TestManyContainers: many containers start at once, a part of them restarts, and all are removed.
// Each has its network each time, and nothing is left of them.
func TestManyContainers(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true})
	before := h.Exact()
	h.Start()
	bridged(h)
	var keys []string
	all := make([]string, *manyContainers)
	for i := range all {
		all[i] = fmt.Sprint("m", i)
		keys = append(keys, onBridge(h, all[i], fmt.Sprintf(`{"microservice":%q}`, all[i]), i)...)
	}
	for i := range all {
		h.Run(all[i], withIPv6...)
	}
	h.AwaitConfigured(keys...)
	reach := func() {
		t.Helper()
		for i := range all {
			if out, err := h.Own.Try("busybox", "ping", "-c", "1", "-W", "1", four(i)); err != nil {
				t.Errorf("a ping to %s is lost: %v\n%s", all[i], err, out)
			}
		}
	}
	reach()
	var wg sync.WaitGroup
	for lane := range 4 {
		wg.Go(func() {
			for i := lane; i < len(all); i += 12 {
				if out, err := h.Engine.Try("restart", h.ContainerName(all[i])); err != nil {
					t.Errorf("restart %s: %v\n%s", all[i], err, out)
				}
			}
		})
	}
	wg.Wait()
	h.Eventually("all are reached", func() error {
		for i := range all {
			if _, err := h.Own.Try("busybox", "ping", "-c", "1", "-W", "1", four(i)); err != nil {
				return fmt.Errorf("%s is not reached", all[i])
			}
		}
		return nil
	})
	h.AwaitConfigured(keys...)
	for lane := range 4 {
		wg.Go(func() {
			for i := lane; i < len(all); i += 4 {
				if out, err := h.Engine.Try("rm", "-f", h.ContainerName(all[i])); err != nil {
					t.Errorf("rm %s: %v\n%s", all[i], err, out)
				}
			}
		})
	}
	wg.Wait()
	h.Await("pending", keys...)
	h.MustCtl("delete", "interface/br")
	for i := range all {
		h.Delete("interface/in-" + all[i])
		h.Delete("interface/out-" + all[i])
	}
	h.AwaitNoDifference()
	h.Eventually("nothing is left", func() error {
		if diff := host.Diff(before, h.Exact()); diff != "" {
			return fmt.Errorf("%s", diff)
		}
		return nil
	})
}
