package e2e

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plumb-net/plumb/tests/e2e/host"
)

// TestProxiesGoOn: no connection through a proxy hears of it when the agent is restarted or
// crashes; the process that serves it is found again and is not made anew. One that
// somebody kills is, at once.
func TestProxiesGoOn(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true, NoEngine: true})
	h.Start()
	h.Put("netns/blue", `{}`)
	h.Put("proxy/web", `{"listen":{"address":"127.0.0.1:8080"},"forward":{"namespace":{"netns":"blue"},"address":"127.0.0.1:80"}}`)
	h.Put("proxy/file", `{"listen":{"address":"/run/plumb-proxy/`+h.Label+`"},"forward":{"namespace":{"netns":"blue"},"address":"127.0.0.1:80"}}`)
	h.AwaitConfigured("proxy/web", "proxy/file")
	blue := h.Named("blue")
	blue.IP(t, "link set lo up")
	serve(t, blue, "tcp", "127.0.0.1:80", "blue")
	c, err := dial(h.Own, "tcp", "127.0.0.1:8080")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Minute))
	before := h.Proxies()
	for name, restart := range map[string]func(){
		"stop": func() { h.Stop(); h.Start() }, "crash": func() { h.Kill9(); h.Start() },
		"twice": func() { h.Kill9(); h.Launch(); h.Kill9(); h.Start() },
	} {
		if got := talk(t, c, "before "+name); got != "blue: before "+name {
			t.Errorf("%q", got)
		}
		restart()
		if got := talk(t, c, "after "+name); got != "blue: after "+name {
			t.Errorf("%q", got)
		}
		h.AwaitConfigured("proxy/web", "proxy/file")
		if got := h.Proxies(); !maps.Equal(got, before) {
			t.Errorf("after %s there are %v, before %v", name, got, before)
		}
		if page, err := h.HTTP("/metrics"); err != nil || !strings.Contains(page, `plumb_proxy_sessions{key="proxy/web"} 1`) {
			t.Errorf("after %s the connection is not counted: %v", name, err)
		}
		if n := h.KernelWrites(); n != 0 {
			t.Errorf("%d writes after %s", n, name)
		}
	}
	for pid := range before {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	h.Eventually("they are made anew", func() error {
		for _, at := range [][2]string{{"tcp", "127.0.0.1:8080"}, {"unix", "/run/plumb-proxy/" + h.Label}} {
			if got := say(h.Own, at[0], at[1], "again"); got != "blue: again, blue ends" {
				return errors.New(got)
			}
		}
		return nil
	})
	h.AwaitConfigured("proxy/web", "proxy/file")
	h.Stop()
	h.Cleanup() // looks for what is left
	if _, err := os.Lstat("/run/plumb-proxy/" + h.Label); err == nil {
		t.Error("the socket file is left")
	}
}

// TestProxyCrashes: wherever the agent crashes while it makes, changes or ends a proxy, the
// next one finishes, and there is one process and no other.
func TestProxyCrashes(t *testing.T) {
	t.Parallel()
	const web = `{"listen":{"address":"/run/plumb-proxy/%s"},"forward":{"namespace":{"netns":"blue"},"address":"127.0.0.1:80"},"max_sessions":%d}`
	for _, at := range []string{"recorded=1", "started=1", "made=1", "recorded=2", "made=2", "deleted=1"} {
		t.Run(at, func(t *testing.T) {
			h := host.New(t, host.Options{Parallel: true, NoEngine: true})
			h.Start()
			h.Put("netns/blue", `{}`)
			h.AwaitConfigured("netns/blue")
			h.Stop()
			h.Env = []string{"PLUMB_FAILPOINT=proxy/" + at, "PLUMB_FAILPOINT_LOG=" + filepath.Join(h.Dir, "crashed")}
			h.Start()
			h.Put("proxy/web", fmt.Sprintf(web, h.Label, 1))
			switch at {
			case "recorded=2", "made=2":
				h.AwaitConfigured("proxy/web")
				h.Put("proxy/web", fmt.Sprintf(web, h.Label, 2))
			case "deleted=1":
				h.AwaitConfigured("proxy/web")
				h.Delete("proxy/web")
			}
			if !h.AwaitEnd(host.Patience) {
				t.Fatal("it did not crash")
			}
			h.Env = nil
			h.Start()
			want := []string{"plumb:" + h.Label + ":proxy/web"}
			if at == "deleted=1" {
				want = nil
				h.AwaitSettled()
			} else {
				h.AwaitConfigured("proxy/web")
			}
			if got := slices.Collect(maps.Values(h.Proxies())); !slices.Equal(got, want) {
				t.Errorf("there are %v, want %v", got, want)
			}
			if _, err := os.Lstat("/run/plumb-proxy/" + h.Label); (err == nil) != (want != nil) {
				t.Errorf("its socket file: %v", err)
			}
		})
	}
}

// TestProxyWaitsForItsAddress: who listens already is named, and the proxy comes when he has
// gone.
func TestProxyWaitsForItsAddress(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true, NoEngine: true})
	h.Start()
	stop := serve(t, h.Own, "tcp", "127.0.0.1:8080", "somebody")
	h.Put("proxy/web", `{"listen":{"address":"0.0.0.0:8080"},"forward":{"address":"127.0.0.1:80"}}`)
	h.Eventually("it is told who has the address", func() error {
		want := fmt.Sprintf("proxy/web retrying: tcp 0.0.0.0:8080 is in use (owner: process %d (e2e.test))", os.Getpid())
		if got := h.States("proxy/web"); !strings.HasPrefix(got, want) {
			return fmt.Errorf("%s, want %s", got, want)
		}
		return nil
	})
	if got := say(h.Own, "tcp", "127.0.0.1:8080", "hello"); got != "somebody: hello, somebody ends" {
		t.Errorf("%q", got)
	}
	stop()
	h.AwaitConfigured("proxy/web")
}

// TestProxyOfAContainer: with each run of its container there is another process, also if
// the container is restarted while there is no agent; none is left over.
func TestProxyOfAContainer(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true})
	h.Start()
	h.Run("web", "--network", "none")
	h.Put("proxy/web", `{"listen":{"address":"127.0.0.1:8080"},"forward":{"namespace":{"microservice":"web"},"address":"127.0.0.1:80"}}`)
	h.AwaitConfigured("proxy/web")
	reach := func(run string) {
		t.Helper()
		web := h.Places()["container web"]
		web.IP(t, "link set lo up")
		serve(t, web, "tcp", "127.0.0.1:80", run)
		h.Eventually("the server of the "+run+" run answers", func() error {
			if got := say(h.Own, "tcp", "127.0.0.1:8080", "hello"); got != run+": hello, "+run+" ends" {
				return errors.New(got)
			}
			return nil
		})
		if got := h.Proxies(); len(got) != 1 {
			t.Errorf("there are %v", got)
		}
	}
	reach("first")
	h.Docker("restart", "-t", "0", h.ContainerName("web"))
	reach("second")
	h.Stop()
	h.Docker("kill", h.ContainerName("web"))
	h.Eventually("it ends with its container, without an agent", func() error {
		if got := h.Proxies(); len(got) > 0 {
			return fmt.Errorf("there are %v", got)
		}
		return nil
	})
	h.Docker("start", h.ContainerName("web"))
	h.Start()
	reach("third")
}
