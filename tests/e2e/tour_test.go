package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/docker/dockertest"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

// tour is a network of two containers: a cable from each to a bridge,
// addresses, and a route.
var tour = []struct{ key, value string }{
	{"interface/br-apps", `{"addresses":["10.61.0.254/24"],"bridge":{}}`},
	{"interface/web", `{"namespace":{"microservice":"web"},"host_name":"eth1","addresses":["10.61.0.1/24"],"veth":{"peer":"web-host"}}`},
	{"interface/web-host", `{"master":"br-apps","veth":{"peer":"web"}}`},
	{"interface/db", `{"namespace":{"microservice":"db"},"host_name":"eth1","addresses":["10.61.0.2/24"],"veth":{"peer":"db-host"}}`},
	{"interface/db-host", `{"master":"br-apps","veth":{"peer":"db"}}`},
	{"interface/web-eth0", `{"namespace":{"microservice":"web"},"host_name":"eth0","mtu":1300,"existing":{}}`},
	{"route/web", `{"interface":"web","destination":"10.99.0.0/16","gateway":"10.61.0.254"}`},
	{"route/db", `{"interface":"db","destination":"10.99.0.0/16","gateway":"10.61.0.2"}`},
}

func keysOf(intent []struct{ key, value string }) (keys []string) {
	for _, x := range intent {
		keys = append(keys, x.key)
	}
	return keys
}

// life of a container in the tour: it sleeps until it is told to take all memory.
const life = `while [ ! -f /greedy ]; do sleep 0.1; done; busybox rm /greedy; a=xxxxxxxx; while :; do a=$a$a; done`

func runTour(h *host.Host, name string) {
	h.RunCommand(name, []string{
		h.LabelOption(name), "--restart", "always", "--memory", "12m", "--memory-swap", "12m", "--network", "bridge",
	}, "sh", "-c", life)
}

// TestTour is the main job on a host that lives in the engine's own namespace:
// intent is there before the containers, and whatever becomes of them, the
// network follows without anybody's doing.
func TestTour(t *testing.T) {
	h := host.New(t, host.Options{EngineNamespace: true})
	h.Start()
	for _, x := range tour {
		h.Put(x.key, x.value)
	}
	all := keysOf(tour)
	h.Await("configured", "interface/br-apps")
	h.AwaitSettled()
	golden(t, "tour", h.States(all...))

	runTour(h, "web")
	runTour(h, "db")
	h.AwaitConfigured(all...)
	reach(h)

	for _, c := range []struct {
		name    string
		happens func(h *host.Host)
		again   func(h *host.Host) // what brings the container back; nil: the engine does
	}{
		{"docker kill", func(h *host.Host) { h.Docker("kill", "web") }, func(h *host.Host) { h.Docker("start", "web") }},
		{"docker stop", func(h *host.Host) { h.Docker("stop", "web") }, func(h *host.Host) { h.Docker("start", "web") }},
		{"crash", func(h *host.Host) { _ = syscall.Kill(h.Pid("web"), syscall.SIGKILL) }, nil},
		{"rm -f and run", func(h *host.Host) { h.Docker("rm", "--force", "web") }, func(h *host.Host) { runTour(h, "web") }},
		{"out of memory", func(h *host.Host) { h.Docker("exec", "web", "sh", "-c", ">/greedy") }, nil},
		{"docker restart", func(h *host.Host) { h.Docker("restart", "web") }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := h.With(t)
			before := h.Pid("web") // the inode of a namespace may be given to the next
			w := watch(h, "interface/web")
			began := time.Now()
			c.happens(h)
			w.saw("pending")
			if c.again != nil {
				h.Await("pending", "interface/web", "interface/web-host", "route/web")
				h.Await("configured", "interface/br-apps", "interface/db", "interface/db-host", "route/db")
				c.again(h)
			}
			w.saw("configured")
			h.Eventually("it is another life", func() error {
				if h.Pid("web") == before {
					return errors.New("the process is the one before")
				}
				return nil
			})
			h.AwaitConfigured(all...)
			reach(h)
			h.AwaitNoDifference()
			t.Logf("%v until it pings again", time.Since(began).Round(time.Millisecond))
		})
	}
	t.Run("engine stops", func(t *testing.T) {
		h := h.With(t)
		w := watch(h, "interface/web")
		h.Engine.Do(t, (*dockertest.Engine).Down)
		w.saw("pending", "unknown")
		h.Engine.Do(t, (*dockertest.Engine).Up)
		w.saw("configured")
		h.AwaitConfigured(all...)
		reach(h)
	})
	t.Run("engine is killed", func(t *testing.T) {
		h := h.With(t)
		web, db := h.In("web"), h.In("db")
		w := watch(h, "interface/web")
		h.Engine.Do(t, (*dockertest.Engine).Kill)
		// Unknown is not empty: the containers live on, and so does their network.
		h.Eventually("the engine is known to be down", func() error {
			if _, err := h.HTTP("/readyz"); err == nil {
				return errors.New("the agent says that it is ready")
			}
			return nil
		})
		for until := time.Now().Add(2 * time.Second); time.Now().Before(until); {
			for _, ns := range []*netlinktest.Namespace{web, db} {
				ns.Run(t, "busybox", "ping", "-c", "1", "-W", "1", "10.61.0.254")
			}
			if mtu := web.Show(t, "eth0")["mtu"]; mtu != 1300.0 {
				t.Fatalf("with the engine killed, the MTU of eth0 is %v", mtu)
			}
		}
		h.Engine.Do(t, (*dockertest.Engine).Up) // which ends the containers and starts them again
		w.saw("pending", "unknown")
		w.saw("configured")
		h.AwaitReady()
		h.AwaitConfigured(all...)
		reach(h)
	})
	ends(t, h, "tour-end", t.TempDir())
}

// reach lets the two containers ping each other.
func reach(h *host.Host) {
	h.Eventually("the containers reach each other", func() error {
		return errors.Join(h.Ping("web", "10.61.0.2"), h.Ping("db", "10.61.0.1"), h.Ping("web", "10.61.0.254"))
	})
}

// watcher follows a key with agentctl get -w.
type watcher struct {
	h *host.Host

	mu     sync.Mutex
	states []string // not yet asked for
}

// watch follows a key until the test ends.
func watch(h *host.Host, key string) *watcher {
	t := h.T()
	t.Helper()
	w := &watcher{h: h}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := h.CtlCommand(ctx, "get", key, "-w", "-o", "json")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var k host.Key
			if json.Unmarshal(lines.Bytes(), &k) == nil {
				w.mu.Lock()
				w.states = append(w.states, k.State)
				w.mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		_ = cmd.Wait()
	})
	w.saw("configured")
	return w
}

// saw waits until the key has been in one of the states, after all that was
// seen before.
func (w *watcher) saw(states ...string) {
	w.h.T().Helper()
	w.h.Eventually("it was "+strings.Join(states, " or "), func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		for i, s := range w.states {
			if slices.Contains(states, s) {
				w.states = w.states[i+1:]
				return nil
			}
		}
		return fmt.Errorf("seen: %v", w.states)
	})
}
