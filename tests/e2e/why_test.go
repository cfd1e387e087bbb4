package e2e

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/docker/dockertest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

// TestWhyReachesTheRoot: what cannot live in a container is told the reason of
// the container, not only that something is wrong with it.
func TestWhyReachesTheRoot(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true})
	h.Start()
	h.Run("web", "--network", "host")
	h.Put("interface/web", `{"namespace":{"microservice":"web"},"host_name":"eth1","veth":{"peer":"web-x"}}`)
	h.Put("interface/web-x", `{"veth":{"peer":"web"}}`)
	h.Await("pending", "interface/web", "interface/web-x")
	h.Await("observed", "microservice/web")
	const root = "host network mode"
	for _, out := range []string{h.Key("interface/web").Text(), h.MustCtl("why", "interface/web")} {
		if !strings.Contains(out, root) {
			t.Errorf("want %q in\n%s", root, out)
		}
	}
}

// TestFrozenDocker: an engine that is halted says nothing, and its streams stay open. That
// shows within ten seconds, and nobody says that a container is not there then.
func TestFrozenDocker(t *testing.T) {
	h := host.New(t, host.Options{}) // alone: the engine is everybody's
	h.Start()
	h.Run("web")
	h.Put("interface/web", `{"namespace":{"microservice":"web"},"host_name":"eth1","veth":{"peer":"web-x"}}`)
	h.Put("interface/web-x", `{"veth":{"peer":"web"}}`)
	h.Put("interface/e2", `{"namespace":{"microservice":"e2"},"host_name":"eth1","tap":{}}`)
	h.AwaitConfigured("interface/web", "interface/web-x")
	h.Await("pending", "interface/e2")

	h.Engine.Do(t, (*dockertest.Engine).Freeze)
	thaw := sync.OnceFunc(func() { h.Engine.Do(t, (*dockertest.Engine).Thaw) })
	t.Cleanup(thaw)
	took := h.Within(10*time.Second, "readiness and status to tell of it", func() error {
		if _, err := h.HTTP("/readyz"); err == nil || !strings.Contains(err.Error(), "docker") {
			return fmt.Errorf("/readyz: %v", err)
		}
		if out := h.Ctl("status").Out; !regexp.MustCompile(`docker +down +\S+ +does not answer`).MatchString(out) {
			return fmt.Errorf("status:\n%s", out)
		}
		return nil
	})
	t.Logf("it took %v", took.Round(time.Millisecond))
	why := h.MustCtl("why", "interface/e2")
	root, _, _ := strings.Cut(why, "\n")
	for _, part := range []string{"root: it cannot be told whether microservice/e2 is there: docker has not answered since", "⇒"} {
		if !strings.Contains(root, part) {
			t.Errorf("no %q in\n%s", part, why)
		}
	}
	if strings.Contains(why, "is not there") {
		t.Errorf("nobody can know that:\n%s", why)
	}
	h.Await("configured", "interface/web")

	thaw()
	h.AwaitReady()
	h.Eventually("the root to be the missing container", func() error {
		if why := h.MustCtl("why", "interface/e2"); !strings.HasPrefix(why, "root: microservice/e2 is not there: no container with the service label e2 runs ⇒ ") {
			return errors.New(why)
		}
		return nil
	})
}
