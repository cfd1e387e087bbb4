package netmap_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/plumb-net/plumb/plugins/api/apitest"
	"github.com/plumb-net/plumb/plugins/netmap"
	"github.com/plumb-net/plumb/scheduler"
)

// TestMaps plays testdata/maps:
//
//	draw    a status a line, as agentctl get KEY -o json has it; a word before it is its mark
//	many N  as many routes of a host, of which one is pending
//
// Printed are boxes within boxes, and lines; where they are is said by package layout.
func TestMaps(t *testing.T) {
	datadriven.RunTest(t, "testdata/maps", func(t *testing.T, d *datadriven.TestData) string {
		lines := strings.Split(d.Input, "\n")
		if d.Cmd == "many" {
			n := 0
			fmt.Sscan(d.CmdArgs[0].Key, &n)
			lines = []string{`{"key":"interface/eth0","state":"configured","desired":{"existing":{}}}`}
			for i := range n {
				state := "configured"
				if i == 7 {
					state = "pending"
				}
				lines = append(lines, fmt.Sprintf(`{"key":"route/r%d","state":%q,"desired":{"interface":"eth0","destination":"10.%d.%d.0/24"}}`, i, state, i/256, i%256))
			}
		}
		var items []netmap.Item
		for _, line := range lines {
			mark, text, marked := strings.Cut(line, " ")
			if strings.HasPrefix(line, "{") || !marked {
				mark, text = "", line
			}
			st, err := apitest.Status(text)
			if err != nil {
				t.Fatal(err)
			}
			items = append(items, netmap.Item{Status: st, Mark: netmap.Mark(mark)})
		}
		return show(netmap.Draw(items))
	})
}

func show(m netmap.Map) string {
	var out strings.Builder
	depth := map[string]int{"": -1}
	for _, b := range m.Boxes {
		depth[b.ID] = depth[b.Parent] + 1
		fmt.Fprintf(&out, "%s%s", strings.Repeat("  ", depth[b.ID]), b.Title)
		for _, text := range []string{b.Detail, b.State, string(b.Mark), b.Reason} {
			if text != "" {
				fmt.Fprintf(&out, " | %s", text)
			}
		}
		if b.ID != b.Key {
			fmt.Fprintf(&out, " (%s)", b.ID)
		}
		fmt.Fprintln(&out)
	}
	for _, l := range m.Lines {
		fmt.Fprintf(&out, "%s: %s — %s", l.Kind, l.From, l.To)
		for _, text := range []string{l.Why, string(l.Mark)} {
			if text != "" {
				fmt.Fprintf(&out, " | %s", text)
			}
		}
		if l.Satisfied {
			fmt.Fprint(&out, " | up")
		}
		if len(l.Points) < 2 {
			fmt.Fprint(&out, " | not drawn")
		}
		fmt.Fprintln(&out)
	}
	return out.String()
}

// TestNothingIsLost: whatever a status holds, its key is in the map or in a box that counts
// such keys.
func TestNothingIsLost(t *testing.T) {
	for _, kind := range []string{"interface", "route", "address", "neighbor", "fdb", "rule", "nexthop", "nftables", "sysctl", "proxy", "ippool", "ipclaim", "netns", "microservice", "container", "hostlink", "namespace", "forward", "strange"} {
		key := scheduler.Key(kind + "/x")
		m := netmap.Draw([]netmap.Item{{Status: scheduler.Status{Key: key, State: scheduler.InvalidState}}})
		found := false
		for _, b := range m.Boxes {
			found = found || b.Key == string(key) && b.State == "invalid"
		}
		if !found {
			t.Errorf("%s without a value is not drawn", kind)
		}
	}
}
