package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

// A plan of many steps that all wait for each other's end is as long as it has steps.
func TestLargePlan(t *testing.T) {
	size := func(routes uint32) int {
		p := new(apiv1.PlanResponse)
		step := func(op, key string, after ...uint32) {
			p.Steps = append(p.Steps, &apiv1.Step{N: uint32(len(p.Steps) + 1), Op: op, Key: key, After: after})
		}
		var all []uint32
		for i := range routes {
			step("delete", fmt.Sprintf("route/r%d", i))
			all = append(all, i+1)
		}
		step("delete", "interface/a", all...)
		step("delete", "netns/big", append(all, routes+1)...)
		var out bytes.Buffer
		(&cli{}).planAnswer(p).table(&out, false)
		last := strings.Split(strings.TrimSpace(out.String()), "\n")
		if got, want := strings.Join(strings.Fields(last[len(last)-3]), " "), fmt.Sprintf("%d delete interface/a %d,%d,%d and %d more", routes+1, routes-2, routes-1, routes, routes-3); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if got, want := strings.Join(strings.Fields(last[len(last)-2]), " "), fmt.Sprintf("%d delete netns/big %d", routes+2, routes+1); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		return out.Len()
	}
	if small, large := size(500), size(5000); large > 11*small {
		t.Errorf("ten times the steps take %d bytes instead of %d", large, small)
	}
}
