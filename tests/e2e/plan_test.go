package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/tests/e2e/host"
)

// site is a cable into a namespace of ours, with an address.
const site = `
key: netns/blue
value: {}
---
key: interface/web
value: {namespace: {netns: blue}, host_name: eth1, addresses: [ADDRESS], veth: {peer: web-x}}
---
key: interface/web-x
value: {veth: {peer: web}}
---
key: route/web
value: {interface: web, destination: default, gateway: 10.1.0.1}
`

// TestAKeptPlan: a plan on disk is executed step by step as it stands, also after
// a restart of the agent; it is refused, and nothing is written, if anything that
// it was made on has moved.
func TestAKeptPlan(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{NoEngine: true})
	h.Start()
	plan := func(address string) string {
		t.Helper()
		r := h.CtlInput(strings.ReplaceAll(site, "ADDRESS", address), "plan", "-f", "-", "-o", "json")
		if r.Code != 1 {
			t.Fatalf("plan: exit %d\n%s%s", r.Code, r.Out, r.Err)
		}
		return r.Out
	}
	execute := func(plan string) host.Result {
		t.Helper()
		return h.CtlInput(plan, "apply", "--plan", "-", "--wait", "--timeout", "20s")
	}

	first := plan("10.1.0.2/24")
	if r := execute(first); r.Code != 0 {
		t.Fatalf("apply: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	var planned struct {
		Steps []struct{ Op, Key string }
	}
	if err := json.Unmarshal([]byte(first), &planned); err != nil {
		t.Fatal(err)
	}
	var steps []string
	for _, s := range planned.Steps {
		steps = append(steps, s.Op+" "+s.Key)
	}
	var records []struct {
		Done []struct{ Op, Key string }
	}
	if err := json.Unmarshal([]byte(h.MustCtl("history", "-o", "json")), &records); err != nil {
		t.Fatal(err)
	}
	var done []string
	for _, r := range records {
		for _, d := range r.Done {
			done = append(done, d.Op+" "+d.Key)
		}
	}
	if got, want := strings.Join(done, "\n"), strings.Join(steps, "\n"); got != want {
		t.Errorf("done was\n%s\nplanned was\n%s", got, want)
	}

	second, third := plan("10.1.0.3/24"), plan("10.1.0.4/24")
	h.Stop()
	h.Start()
	h.AwaitSettled()
	if r := execute(second); r.Code != 0 {
		t.Errorf("apply after a restart: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	before := wishes(h)
	if r := execute(third); r.Code != 2 || !strings.Contains(r.Err, "the state moved since the plan was made") || !strings.Contains(r.Err, "interface/web") {
		t.Errorf("a plan whose ground moved: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	if after := wishes(h); after != before {
		t.Errorf("a refused plan has written:\n%s\nwas\n%s", after, before)
	}
}

// wishes is what the store holds of wishes, with revisions.
func wishes(h *host.Host) string {
	var out []string
	for line := range strings.Lines(h.MustCtl("kv", "list")) {
		if strings.HasPrefix(line, "config/") {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}
