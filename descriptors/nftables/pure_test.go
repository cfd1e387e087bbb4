package nftables_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/plumb-net/plumb/descriptors/nftables"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// TestPure says what the kind thinks about values, without reading anything.
func TestPure(t *testing.T) {
	d := nftables.New(nftables.Deps{})
	datadriven.RunTest(t, "testdata/pure/nftables", func(t *testing.T, c *datadriven.TestData) string {
		const key = scheduler.Key("nftables/x")
		values := decode(t, c.Input)
		var b strings.Builder
		switch c.Cmd {
		case "needs":
			for _, n := range d.Needs(key, values[0]) {
				fmt.Fprintf(&b, "%s: %s\n", n, n.Why)
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
}

func decode(t testing.TB, input string) []*models.Nftables {
	t.Helper()
	var list []*models.Nftables
	for line := range strings.Lines(input) {
		msg, err := models.DecodeKind(models.KindNftables, []byte(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		list = append(list, msg.(*models.Nftables))
	}
	return list
}
