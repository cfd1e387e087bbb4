package iface_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// shape is what an adoption may change, as ip shows it, but for the missing carrier, which
// the kernel notices within a second or so.
func (b *bench) shape(ns, link string) string {
	l := b.ns(ns).Show(b.t, link)
	flags := strings.Replace(fmt.Sprint(l["flags"]), "NO-CARRIER ", "", 1)
	return fmt.Sprint(flags, " ", l["mtu"], " ", l["address"], " ", l["master"])
}

func TestExistingGivesBackWhatItChanged(t *testing.T) {
	b := newBench(t, "blue")
	for _, cmd := range []string{
		"link add theirs type bridge", "link add eth9 type veth peer name far9",
		"link set eth9 mtu 1450 address 02:00:00:00:00:99 master theirs",
	} {
		b.own.IP(t, cmd)
	}
	b.make("ours", `{"bridge":{}}`)
	before := b.shape("", "eth9")
	b.make("up", `{"existing":{},"host_name":"eth9","mtu":1400}`)
	b.same("up")
	if l := b.own.Show(t, "eth9"); fmt.Sprint(l["mtu"]) != "1400" || l["master"] != "theirs" {
		t.Errorf("changed more or less than was asked: %v", b.shape("", "eth9"))
	}
	if b.own.Show(t, "eth9")["ifalias"] != nil {
		t.Error("a link of others got our mark")
	}

	// More fields, then fewer: what is no longer named is given back.
	if err := b.update("up", `{"existing":{},"host_name":"eth9","mtu":1300,"mac_address":"02:00:00:00:00:01","enabled":true,"master":"ours"}`); err != nil {
		t.Fatal(err)
	}
	b.same("up")
	if l := b.own.Show(t, "eth9"); fmt.Sprint(l["mtu"], l["address"], l["master"]) != fmt.Sprint(1300, "02:00:00:00:00:01", "ours") {
		t.Errorf("after the update: %v", b.shape("", "eth9"))
	}
	if err := b.update("up", `{"existing":{},"host_name":"eth9","enabled":true}`); err != nil {
		t.Fatal(err)
	}
	b.same("up")
	if l := b.own.Show(t, "eth9"); fmt.Sprint(l["mtu"], l["address"], l["master"]) != fmt.Sprint(1450, "02:00:00:00:00:99", "theirs") {
		t.Errorf("not given back: %v", b.shape("", "eth9"))
	}
	if err := b.update("up", `{"existing":{},"host_name":"eth9","enabled":true,"mtu":1200}`); err != nil {
		t.Fatal(err)
	}

	// A restart in between does not make our own settings the prior ones.
	b.restart()
	b.make("up", `{"existing":{},"host_name":"eth9","enabled":true,"mtu":1200}`)
	if err := b.delete("up"); err != nil {
		t.Fatal(err)
	}
	if after := b.shape("", "eth9"); after != before {
		t.Errorf("was %s, is %s", before, after)
	}
}

func TestExistingLeavesWhatOthersChangedSince(t *testing.T) {
	b := newBench(t)
	b.own.IP(t, "link add eth9 type veth peer name far9")
	b.make("up", `{"existing":{},"host_name":"eth9","mtu":1400,"enabled":true}`)
	b.own.IP(t, "link set eth9 mtu 1234")
	if f := b.look("up")["interface/up"]; f.Value.GetMtu() != 1234 {
		t.Errorf("the drift does not show: %v", f.Value)
	}
	if err := b.delete("up"); err != nil {
		t.Fatal(err)
	}
	if l := b.own.Show(t, "eth9"); fmt.Sprint(l["mtu"]) != "1234" || fmt.Sprint(l["operstate"]) != "DOWN" {
		t.Errorf("after the withdrawal: %v", b.shape("", "eth9"))
	}
}

// The ledger lost, an adopted link is simply not ours.
func TestExistingWithoutLedger(t *testing.T) {
	b := newBench(t)
	b.own.IP(t, "link add eth9 type veth peer name far9")
	b.make("up", `{"existing":{},"host_name":"eth9","mtu":1400}`)
	*b.ledger = kernel.MemLedger{}
	b.restart()
	if got := b.look(); len(got) != 0 {
		t.Errorf("found %v", got)
	}
}

func TestLoopbackIsUpAndGivenBack(t *testing.T) {
	b := newBench(t, "blue")
	b.make("lo-blue", `{"namespace":{"netns":"blue"},"loopback":{},"mtu":60000}`)
	b.same("lo-blue")
	if l := b.nets["blue"].Show(t, "lo"); fmt.Sprint(l["mtu"]) != "60000" || fmt.Sprint(l["flags"]) != "[LOOPBACK UP LOWER_UP]" {
		t.Errorf("lo is %v", b.shape("blue", "lo"))
	}
	if err := b.delete("lo-blue"); err != nil {
		t.Fatal(err)
	}
	if l := b.nets["blue"].Show(t, "lo"); fmt.Sprint(l["mtu"]) != "65536" || fmt.Sprint(l["flags"]) != "[LOOPBACK]" {
		t.Errorf("lo is %v", b.shape("blue", "lo"))
	}
}
