package iface_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/scheduler"
)

// TestMACKeptOverRepair: links that somebody deleted, and those of a namespace that ended, return
// with the MACs that they had, at both ends of a cable; a MAC that the value names prevails.
func TestMACKeptOverRepair(t *testing.T) {
	w := newWorld(t)
	w.apply(true, story[:4]...)
	blue := &netlinktest.Namespace{Path: w.dir + "/blue"}
	macs := func() (all [3]any) {
		return [3]any{w.own.Show(t, "br0")["address"], w.own.Show(t, "port")["address"], blue.Show(t, "eth0")["address"]}
	}
	look := func() {
		t.Helper()
		if r, err := w.s.Apply(t.Context(), scheduler.Txn{LookAll: true}); err != nil || !r.OK() {
			t.Fatalf("%v\n%s", err, w)
		}
		w.await(scheduler.Configured, story[:4]...)
	}
	w.await(scheduler.Configured, story[:4]...)
	before := macs()
	for _, link := range []string{"port", "br0"} {
		index := w.own.Show(t, link)["ifindex"]
		w.own.IP(t, "link del dev "+link)
		look()
		if now := macs(); now != before {
			t.Errorf("%s was deleted: MACs were %v, are %v", link, before, now)
		}
		if w.own.Show(t, link)["ifindex"] == index {
			t.Errorf("%s was not created again", link)
		}
	}
	w.own.Run(t, "ip", "link", "del", "dev", "port")
	w.apply(false, `interface/web {"namespace":{"netns":"blue"},"host_name":"eth0","mac_address":"02:00:00:00:00:77","veth":{"peer":"port"}}`)
	w.await(scheduler.Configured, story[:3]...)
	w.await(scheduler.Configured, "interface/web")
	if now := macs(); now[2] != "02:00:00:00:00:77" {
		t.Errorf("the MAC that the value names is not set: %v", now)
	}
}

// TestBridgeWithoutPortsReturns: the kernel takes the MAC of a bridge away with its last port, and does not
// create a link with the MAC 00:00:00:00:00:00.
func TestBridgeWithoutPortsReturns(t *testing.T) {
	w := newWorld(t)
	w.apply(true, story[:4]...)
	w.await(scheduler.Configured, story[:4]...)
	w.own.IP(t, "link add name extra type veth peer name extra2")
	w.own.IP(t, "link set extra address 00:00:00:00:00:01 master br0")
	bridge := slices.DeleteFunc(slices.Clone(story[:4]), func(line string) bool { return !strings.HasPrefix(line, "interface/br0 ") })
	w.apply(true, bridge...)
	w.own.IP(t, "link del extra")
	if mac := w.own.Show(t, "br0")["address"]; mac != "00:00:00:00:00:00" {
		t.Fatalf("the bridge has the MAC %v", mac)
	}
	for _, step := range []string{"", "link del dev br0"} {
		if step != "" {
			w.own.IP(t, step)
		}
		if r, err := w.s.Apply(t.Context(), scheduler.Txn{LookAll: true}); err != nil || !r.OK() {
			t.Fatalf("%v\n%s", err, w)
		}
		w.await(scheduler.Configured, bridge...)
	}
}
