package e2e

import (
	"errors"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/plugins/containerd/containerdtest"
	"github.com/plumb-net/plumb/plugins/cri/critest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

// TestContainerd: interfaces live in a container and in a pod of containerd as
// they do in Docker's. containerd may be killed and started again: nothing is
// written for that. What goes is waited for, what comes back is configured.
func TestContainerd(t *testing.T) {
	t.Parallel()
	c := containerdtest.Start(t)
	h := host.New(t, host.Options{NoEngine: true, Args: []string{"--containerd", c.Socket}})
	h.Start()
	keys := []string{"interface/br", "interface/web", "interface/web-x", "interface/pod", "interface/pod-x"}
	h.Put("interface/br", `{"bridge":{},"addresses":["10.1.0.1/24"]}`)
	h.Put("interface/web", `{"namespace":{"microservice":"web"},"host_name":"eth1","addresses":["10.1.0.2/24"],"veth":{"peer":"web-x"}}`)
	h.Put("interface/web-x", `{"master":"br","veth":{"peer":"web"}}`)
	h.Put("interface/pod", `{"namespace":{"container":"default/shop"},"host_name":"eth1","addresses":["10.1.0.3/24"],"veth":{"peer":"pod-x"}}`)
	h.Put("interface/pod-x", `{"master":"br","veth":{"peer":"pod"}}`)
	h.Await("pending", "interface/web", "interface/pod")

	run := func() { c.Run("default", "web", "--env", "MICROSERVICE_LABEL=web") }
	shop := critest.Pod{Name: "shop"}
	pod := func() string {
		t.Helper()
		sandbox, err := c.RunPod(t.Context(), shop)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.RunContainer(t.Context(), sandbox, shop, "main", nil); err != nil {
			t.Fatal(err)
		}
		return sandbox
	}
	run()
	sandbox := pod()
	h.AwaitConfigured(keys...)
	// By its exit code, which Ctr looks at: of what a short process prints ctr now and then loses all.
	c.Ctr("default", "tasks", "exec", "--exec-id", "p", "web", "ping", "-c1", "10.1.0.3")
	if out := h.MustCtl("microservices", "-o", "json"); !strings.Contains(out, `"runtime": "containerd:default"`) {
		t.Errorf("microservices: %s", out)
	}

	h.AwaitSettled()
	writes := h.KernelWrites()
	c.Kill()
	h.Eventually("the agent says that containerd is away", func() error {
		if _, err := h.HTTP("/readyz"); err == nil {
			return errors.New("it is ready")
		}
		return nil
	})
	h.AwaitConfigured(keys...)
	c.Up()
	h.AwaitReady()
	h.AwaitConfigured(keys...)
	if n := h.KernelWrites() - writes; n != 0 {
		t.Errorf("%d kernel writes for a restart of containerd:\n%s", n, h.Done())
	}

	c.Remove("default", "web")
	h.Await("pending", "interface/web")
	run()
	h.AwaitConfigured(keys...)
	if err := c.RemovePod(t.Context(), sandbox); err != nil {
		t.Fatal(err)
	}
	h.Await("pending", "interface/pod")
	pod()
	h.AwaitConfigured(keys...)
}
