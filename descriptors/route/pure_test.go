package route_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/route"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// TestPure says what the kind thinks about values, without reading anything. The
// command passes asks which needs an address of web would satisfy.
func TestPure(t *testing.T) {
	d := route.New(route.Deps{})
	datadriven.Walk(t, "testdata/pure", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, c *datadriven.TestData) string {
			key := scheduler.Key(c.CmdArgs[0].Key)
			values := decode(t, c.Input)
			var b strings.Builder
			switch c.Cmd {
			case "needs":
				for _, n := range d.Needs(key, values[0]) {
					fmt.Fprintf(&b, "%s: %s\n", n, n.Why)
				}
			case "passes":
				address := c.CmdArgs[1].Key
				for _, n := range d.Needs(key, values[0]) {
					if n.Prefix != "" {
						fmt.Fprintf(&b, "%s %v\n", n, n.Pass("", &models.Address{Interface: "web", Address: address}, kernel.AddressRef{}))
					}
				}
			case "claims":
				for _, claim := range d.Claims(key, values[0]) {
					fmt.Fprintln(&b, claim.What)
				}
			case "compare":
				verdict := d.Compare(key, values[0], values[1])
				word := verdict.Change.String()
				fmt.Fprintf(&b, "%s: %s (%s)\n", word, verdict.Reason, d.Disruption(key, values[0], values[1]))
			default:
				t.Fatalf("unknown command %q", c.Cmd)
			}
			return b.String()
		})
	})
}

func decode(t *testing.T, input string) []*models.Route {
	t.Helper()
	var list []*models.Route
	for line := range strings.Lines(input) {
		msg, err := models.DecodeKind(models.KindRoute, []byte(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		list = append(list, msg.(*models.Route))
	}
	return list
}
