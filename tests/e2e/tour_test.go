package e2e

import (
	"testing"

	"github.com/plumb-net/plumb/tests/e2e/host"
)

// cable is a veth from a container to the bridge, with addresses and a route.
var tour = []struct{ key, value string }{
	{"interface/br-apps", `{"addresses":["10.61.0.254/24"],"bridge":{}}`},
	{"interface/web", `{"namespace":{"microservice":"web"},"host_name":"eth1","addresses":["10.61.0.1/24"],"veth":{"peer":"web-host"}}`},
	{"interface/web-host", `{"master":"br-apps","veth":{"peer":"web"}}`},
	{"interface/db", `{"namespace":{"microservice":"db"},"host_name":"eth1","addresses":["10.61.0.2/24"],"veth":{"peer":"db-host"}}`},
	{"interface/db-host", `{"master":"br-apps","veth":{"peer":"db"}}`},
	{"route/web-default", `{"interface":"web","destination":"default","gateway":"10.61.0.254"}`},
	{"route/db-default", `{"interface":"db","destination":"default","gateway":"10.61.0.254"}`},
}

func TestSmoke(t *testing.T) {
	h := host.New(t, host.Options{})
	h.Start()
	for _, x := range tour {
		h.Put(x.key, x.value)
	}
	h.AwaitSettled()
	for _, x := range tour {
		t.Log(h.Key(x.key).Text())
	}
	h.Run("web")
	h.Run("db")
	for _, x := range tour {
		h.AwaitConfigured(x.key)
	}
	h.Eventually("ping", func() error { return h.Ping("web", "10.61.0.2") })
	t.Log(h.Picture())
	before := h.Exact()
	t.Log(h.Stop())
	h.Start()
	h.AwaitSettled()
	t.Log(h.KernelWrites(), host.Diff(before, h.Exact()))
}
