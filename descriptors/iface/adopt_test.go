package iface_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/scheduler"
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

// A link has one holder, also where two selectors mean one namespace: who was first keeps it,
// the other one waits, and what is given back is what was there before both. So also when both
// come at once.
func TestExistingHasOneHolder(t *testing.T) {
	b := newBench(t, "blue")
	b.nets["web"] = b.nets["blue"]
	blue := b.nets["blue"]
	blue.IP(t, "link add eth0 type bridge")
	const (
		one  = `{"namespace":{"netns":"blue"},"host_name":"eth0","existing":{},"mtu":1400,"alternative_names":["up"]}`
		two  = `{"namespace":{"netns":"web"},"host_name":"eth0","existing":{},"mtu":1300}`
		name = `{"namespace":{"netns":"web"},"host_name":"up","bridge":{}}`
		ours = `{"namespace":{"netns":"blue"},"host_name":"br","bridge":{}}`
		also = `{"namespace":{"netns":"web"},"host_name":"br","existing":{},"mtu":1300}`
	)
	waits := func(err error, on scheduler.Key) {
		t.Helper()
		var class *scheduler.OpError
		if !errors.As(err, &class) || class.On != on {
			t.Errorf("%v, want it to wait for %s", err, on)
		}
	}
	mtu := func(want int) {
		t.Helper()
		if l := blue.Show(t, "eth0"); fmt.Sprint(l["mtu"]) != fmt.Sprint(want) {
			t.Errorf("eth0 has the mtu %v, want %d", l["mtu"], want)
		}
	}
	_, err := b.try("none", `{"namespace":{"netns":"blue"},"host_name":"eth9","existing":{}}`)
	if !kernel.IsGone(err) {
		t.Errorf("a link that is not there: %v", err)
	}
	b.make("one", one)
	for range 2 {
		_, err = b.try("two", two)
		waits(err, "interface/one")
		_, err = b.try("name", name)
		waits(err, "interface/one")
		mtu(1400)
		if err := b.update("one", one); err != nil {
			t.Fatal(err)
		}
		b.restart()
		b.want("one", one)
		for k, f := range b.look() {
			b.self.put(k, f.Value, f.Meta)
		}
	}
	if err := b.delete("one"); err != nil {
		t.Fatal(err)
	}
	mtu(1500)
	b.make("two", two)
	mtu(1300)
	if err := b.delete("two"); err != nil {
		t.Fatal(err)
	}
	mtu(1500)

	ops := []*op{{}, {}}
	ops[0].Key, ops[0].Value = b.want("one", one)
	ops[1].Key, ops[1].Value = b.want("two", two)
	b.kind.CreateBatch(t.Context(), ops)
	if ops[0].Err != nil {
		t.Error(ops[0].Err)
	}
	waits(ops[1].Err, "interface/one")
	b.self.put(ops[0].Key, ops[0].Value, ops[0].Meta)
	if err := b.delete("one"); err != nil {
		t.Fatal(err)
	}
	mtu(1500)

	b.make("ours", ours)
	_, err = b.try("also", also)
	waits(err, "interface/ours")
}

// What the ledger does not take leaves the link to others.
func TestExistingWithoutDisk(t *testing.T) {
	b := newBench(t)
	b.own.IP(t, "link add eth0 type bridge")
	b.fail.set("interface/recorded")
	if _, err := b.try("one", `{"host_name":"eth0","existing":{},"mtu":1400}`); !errors.Is(err, errCrash) {
		t.Errorf("one: %v", err)
	}
	b.fail.set("")
	b.make("two", `{"host_name":"eth0","existing":{},"mtu":1300}`)
}
