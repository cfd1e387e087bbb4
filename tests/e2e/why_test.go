package e2e

import (
	"strings"
	"testing"

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
