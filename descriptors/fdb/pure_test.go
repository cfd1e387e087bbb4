package fdb_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/plumb-net/plumb/descriptors/fdb"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// TestPure says what the kind thinks about values, without any world.
func TestPure(t *testing.T) {
	d := fdb.New(fdb.Deps{})
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
					fmt.Fprintln(&b, claim.What)
				}
			case "compare":
				verdict := d.Compare(key, values[0], values[1])
				fmt.Fprintf(&b, "%s: %s\n", verdict.Change, verdict.Reason)
			default:
				t.Fatalf("unknown command %q", c.Cmd)
			}
			return b.String()
		})
	})
}

func decode(t *testing.T, input string) []*models.FDB {
	t.Helper()
	var list []*models.FDB
	for line := range strings.Lines(input) {
		msg, err := models.DecodeKind(models.KindFDB, []byte(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		list = append(list, msg.(*models.FDB))
	}
	return list
}
