package iface_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestTakeOver: a link of others that is as the value says is taken over without a mark,
// changed, and given back as it was found; without adopt it becomes ours.
func TestTakeOver(t *testing.T) {
	b := newBench(t)
	b.own.IP(t, "link add br0 mtu 1400 type bridge stp_state 1")
	b.own.IP(t, "link set br0 up")
	before := b.shape("", "br0")
	if _, err := b.try("br0", `{"adopt":true,"bridge":{}}`); err == nil || !strings.Contains(err.Error(), "is not ours") {
		t.Errorf("a link that is not as the value says: %v", err)
	}
	b.make("br0", `{"adopt":true,"mtu":1400,"bridge":{"stp":true}}`)
	b.same("br0")
	b.restart()
	b.make("br0", `{"adopt":true,"mtu":1400,"bridge":{"stp":true}}`)
	if err := b.update("br0", `{"adopt":true,"mtu":1300,"bridge":{"stp":true}}`); err != nil {
		t.Fatal(err)
	}
	b.same("br0")
	if l := b.own.Show(t, "br0"); fmt.Sprint(l["mtu"]) != "1300" || l["ifalias"] != nil {
		t.Errorf("changed: mtu %v, alias %v", l["mtu"], l["ifalias"])
	}
	if err := b.delete("br0"); err != nil {
		t.Fatal(err)
	}
	if after := b.shape("", "br0"); after != before {
		t.Errorf("given back as %s, was %s", after, before)
	}

	b.make("br0", `{"adopt":true,"mtu":1400,"bridge":{"stp":true}}`)
	if err := b.update("br0", `{"mtu":1400,"bridge":{"stp":true}}`); err != nil {
		t.Fatal(err)
	}
	b.same("br0")
	if alias := b.own.Show(t, "br0")["ifalias"]; alias == nil {
		t.Error("without adopt it is ours, and has no mark")
	}
	if err := b.delete("br0"); err != nil {
		t.Fatal(err)
	}
	if out := b.own.IP(t, "link"); strings.Contains(out, "br0") {
		t.Error("it was ours, and is not deleted")
	}

	b.own.IP(t, "link add br0 type bridge")
	b.own.IP(t, "link set br0 up alias plumb:elsewhere:interface/br0")
	if _, err := b.try("br0", `{"adopt":true,"bridge":{}}`); err == nil {
		t.Error("a link of another agent was taken over")
	}
}
