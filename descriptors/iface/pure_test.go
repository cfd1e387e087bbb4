package iface_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/plumb-net/plumb/descriptors/iface"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// TestPure says what the kind thinks about values, without any kernel: what
// they need, claim and split off, and how to get from one to the other.
func TestPure(t *testing.T) {
	d := iface.New(iface.Deps{})
	datadriven.Walk(t, "testdata/pure", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, c *datadriven.TestData) string {
			key := scheduler.Key(c.CmdArgs[0].Key)
			values := decode(t, string(key), c.Input)
			v := values[0]
			var b strings.Builder
			switch c.Cmd {
			case "needs":
				for _, n := range d.Needs(key, v) {
					fmt.Fprintln(&b, showNeed(n))
				}
			case "agree":
				for _, n := range d.Needs(key, v) {
					if n.Together {
						fmt.Fprintln(&b, n.Agree(values[1]))
					}
				}
			case "claims":
				for _, claim := range d.Claims(key, v) {
					fmt.Fprintf(&b, "%s (%s)\n", claim.What, claim.ID)
				}
			case "derive":
				for _, x := range d.Derive(key, v) {
					fmt.Fprintf(&b, "%s %s\n", x.Key, models.Encode(x.Value.(*models.Address)))
				}
			case "compare":
				verdict := d.Compare(key, v, values[1])
				word := verdict.Change.String()
				fmt.Fprintf(&b, "%s: %s (%s)\n", word, verdict.Reason, d.Disruption(key, v, values[1]))
				if d.Equal(key, v, values[1]) != (verdict.Change == scheduler.Same) {
					fmt.Fprintln(&b, "Equal disagrees")
				}
			default:
				t.Fatalf("unknown command %q", c.Cmd)
			}
			return b.String()
		})
	})
}

// decode reads one value per line.
func decode(t *testing.T, key, input string) []*models.Interface {
	t.Helper()
	var list []*models.Interface
	for line := range strings.Lines(input) {
		msg, err := models.DecodeKind(models.KindInterface, []byte(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		list = append(list, msg.(*models.Interface))
	}
	return list
}

func showNeed(n scheduler.Need) string {
	s := fmt.Sprintf("%s: %s", n, n.Why)
	if n.Together {
		s += " [together]"
	}
	if n.Pass != nil {
		s += " [if]"
	}
	if n.Project != nil {
		s += " [project]"
	}
	return s
}
