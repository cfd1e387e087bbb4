package proxy_test

import (
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/plumb-net/plumb/descriptors/kind/kindtest"
	"github.com/plumb-net/plumb/descriptors/proxy"
	"github.com/plumb-net/plumb/models"
)

// TestPure says what the kind thinks about values, without reading anything.
func TestPure(t *testing.T) {
	d := proxy.New(proxy.Deps{})
	datadriven.Walk(t, "testdata/pure", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, c *datadriven.TestData) string {
			return kindtest.Says(t, d, c.Cmd, c.CmdArgs[0].Key, c.Input)
		})
	})
}

func decode(t *testing.T, input string) []*models.Proxy {
	t.Helper()
	return kindtest.Decode[*models.Proxy](t, models.KindProxy, input)
}
