package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/tests/e2e/host"
)

// TestAddressChange: an interface gets another address, in the network of the old one, and
// loses no route, neither the one by a gateway nor the one that names only the link. The
// kernel would drop both with the primary address. Often in a row it is no fight either.
func TestAddressChange(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{NoEngine: true})
	h.Start()
	h.MustCtl("put", "netns/blue", "{}")
	value := func(i int) string {
		return fmt.Sprintf(`{"namespace":{"netns":"blue"},"host_name":"t0","addresses":["10.91.0.%d/24"],"tap":{}}`, i)
	}
	h.MustCtl("put", "interface/t0", value(10))
	h.MustCtl("put", "route/gw", `{"interface":"t0","destination":"default","gateway":"10.91.0.1"}`)
	h.MustCtl("put", "route/link", `{"interface":"t0","destination":"10.92.0.0/16"}`)
	keys := []string{"interface/t0", "route/gw", "route/link"}
	h.AwaitConfigured(keys...)
	for i := 11; i < 21; i++ {
		if plan := h.CtlInput("key: interface/t0\nvalue: "+value(i), "plan", "-f", "-"); plan.Code != 1 || strings.Contains(plan.Out, "route/") {
			t.Errorf("the plan takes a route down, exit %d:\n%s%s", plan.Code, plan.Out, plan.Err)
		}
		h.MustCtl("put", "interface/t0", value(i), "--wait", "--timeout", "20s")
		for _, key := range keys {
			if s := h.Key(key); s.State != "configured" {
				t.Errorf("change %d: %s", i, s.Text())
			}
		}
	}
	h.AwaitConfigured(keys...)
	if done := h.Done(); strings.Count(done, "route/") != 2 {
		t.Errorf("a route was made more than once:\n%s", done)
	}
	blue := h.Named("blue")
	addrs := fmt.Sprint(host.Show(t, blue, "-4 addr show dev t0")[0]["addr_info"])
	if !strings.Contains(addrs, "10.91.0.20") || strings.Contains(addrs, "secondary") {
		t.Errorf("addresses: %s", addrs)
	}
}

// TestAddressReplacedByOthers: while everything is held, others remove an address and add the same one with
// other settings, again and again. Afterwards the agent has replaced it each time, and it is there.
func TestAddressReplacedByOthers(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{NoEngine: true})
	h.Start()
	h.Put("interface/t0", `{"bridge":{}}`)
	h.Put("address/t0", `{"interface":"t0","address":"10.91.0.1/24","label":"t0:x"}`)
	h.AwaitConfigured("interface/t0", "address/t0")
	for range 20 {
		h.MustCtl("freeze", "-m", "others change it")
		h.Own.IP(t, "addr del 10.91.0.1/24 dev t0")
		h.Own.IP(t, "addr add 10.91.0.1/24 dev t0")
		h.MustCtl("unfreeze")
		h.Eventually("the address is that of the intent", func() error {
			if out := h.Own.IP(t, "-4 -o addr show dev t0"); !strings.Contains(out, "t0:x") {
				return fmt.Errorf("%q, %s", out, h.Key("address/t0").Text())
			}
			return nil
		})
	}
}
