package sysctl_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/plumb-net/plumb/descriptors/sysctl"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// TestPure says what the kind thinks about values, without reading anything.
func TestPure(t *testing.T) {
	d := sysctl.New(sysctl.Deps{})
	datadriven.RunTest(t, "testdata/pure/sysctl", func(t *testing.T, c *datadriven.TestData) string {
		const key = scheduler.Key("sysctl/x")
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
			fmt.Fprintf(&b, "%s: %s\n", verdict.Change.String(), verdict.Reason)
		default:
			t.Fatalf("unknown command %q", c.Cmd)
		}
		return b.String()
	})
}

func decode(t testing.TB, input string) []*models.Sysctl {
	t.Helper()
	var list []*models.Sysctl
	for line := range strings.Lines(input) {
		msg, err := models.DecodeKind(models.KindSysctl, []byte(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		list = append(list, msg.(*models.Sysctl))
	}
	return list
}
