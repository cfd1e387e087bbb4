package address_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/plumb-net/plumb/descriptors/address"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// TestPure says what the kind thinks about values, without any world.
func TestPure(t *testing.T) {
	d := address.New(address.Deps{})
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
			case "claims":
				for _, claim := range d.Claims(key, values[0]) {
					fmt.Fprintf(&b, "%s (%s)\n", claim.What, claim.ID)
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

func decode(t *testing.T, input string) []*models.Address {
	t.Helper()
	var list []*models.Address
	for line := range strings.Lines(input) {
		msg, err := models.DecodeKind(models.KindAddress, []byte(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		list = append(list, msg.(*models.Address))
	}
	return list
}

// pool is a stand-in for ipclaims.
type pool map[string]netip.Prefix

func (p pool) Need(claim string) scheduler.Need {
	return scheduler.On(scheduler.Key("ipclaim/"+claim), "the claim")
}

func (p pool) Prefix(claim string) (netip.Prefix, bool) {
	prefix, ok := p[claim]
	return prefix, ok
}
