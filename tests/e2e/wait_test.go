package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/tests/e2e/host"
)

// TestWaitUntilSettled: who waits is answered when all that follows by itself has
// happened, and not in the middle of it.
func TestWaitUntilSettled(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{NoEngine: true})
	h.Start()
	apply := func(what, text string, args ...string) {
		t.Helper()
		if r := h.CtlInput(text, append([]string{"apply", "-f", "-", "--wait", "--timeout", "20s"}, args...)...); r.Code != 0 {
			t.Fatalf("%s: exit %d\n%s%s", what, r.Code, r.Out, r.Err)
		}
	}
	const cable = `
key: netns/one
value: {}
---
key: netns/two
value: {}
---
key: interface/in
value: {namespace: {netns: NAMESPACE}, host_name: eth1, addresses: [10.1.0.2/24], veth: {peer: out}}
---
key: interface/out
value: {veth: {peer: in}}
---
key: route/in
value: {interface: in, destination: default, gateway: 10.1.0.1}
`
	in := func(ns string) string { return strings.ReplaceAll(cable, "NAMESPACE", ns) }
	apply("a cable", in("one"))
	for i := range 10 { // an end of a cable moves, which takes it and all on it down first
		apply(fmt.Sprint("move ", i), in([]string{"two", "one"}[i%2]))
	}

	var many strings.Builder
	many.WriteString("key: netns/full\nvalue: {}\n---\nkey: interface/f\nvalue: {namespace: {netns: full}, host_name: f, tap: {}, addresses: [10.2.0.1/16]}\n")
	for i := range 200 {
		fmt.Fprintf(&many, "---\nkey: route/f%d\nvalue: {interface: f, destination: 10.3.%d.0/24, gateway: 10.2.0.9}\n", i, i)
	}
	apply("a full namespace", many.String(), "--set", "full")
	if r := h.Ctl("delete", "netns/full", "--wait", "--timeout", "20s"); r.Code != 0 {
		t.Errorf("what is full is deleted: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	h.MustCtl("put", "netns/full", "{}", "--wait", "--timeout", "20s")

	var before []struct{ Key string }
	h.Stop()
	h.Start()
	out := h.MustCtl("wait", "--all", "--for", "settled", "--timeout", "60s", "-o", "json")
	if err := json.Unmarshal([]byte(out), &before); err != nil || len(before) < 200 {
		t.Errorf("after a restart, %d keys are known to the one who waits for all: %v", len(before), err)
	}
}
