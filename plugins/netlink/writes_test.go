package netlink_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink"
)

// Every request that may change something counts, in its namespace and in all;
// reading does not.
func TestWrites(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	ns, _ := b.open(t)
	var l, tap kernel.Link
	var err error
	here := kernel.Address{Prefix: prefix("10.0.0.1/24")}
	way := kernel.Route{Dst: prefix("10.9.0.0/16"), Protocol: ours}
	steps := []struct {
		name string
		want uint64
		do   func() error
	}{
		{"AddLink", 1, func() error {
			l, err = b.AddLink(ns, kernel.LinkSpec{Name: "a", Up: true, Veth: &kernel.VethSpec{PeerName: "b"}})
			here.Index, way.Index = l.Index, l.Index
			return err
		}},
		{"AddLink with alias", 2, func() error {
			_, err := b.AddLink(ns, kernel.LinkSpec{Name: "br0", Alias: "x", Bridge: &kernel.BridgeSpec{}})
			return err
		}},
		{"AddLink tap", 2, func() error {
			tap, err = b.AddLink(ns, kernel.LinkSpec{Name: "tap0", Alias: "x", Tuntap: &kernel.TuntapSpec{}})
			return err
		}},
		{"SetLink", 1, func() error { return b.SetLink(ns, l.Index, kernel.LinkPatch{Up: ref(true)}) }},
		{"SetLink of mark and state", 1, func() error {
			return b.SetLink(ns, l.Index, kernel.LinkPatch{Alias: ref("y"), Group: ref(uint32(7)), Up: ref(true)})
		}},
		{"SetLink in two parts", 2, func() error {
			return b.SetLink(ns, l.Index, kernel.LinkPatch{Alias: ref("x"), MTU: ref(1400)})
		}},
		{"AddLink with what both ends accept", 4, func() error {
			_, err := b.AddLink(ns, kernel.LinkSpec{Name: "c", Up: true, Accepts: kernel.AcceptSpec{RA: ref(0)},
				Veth: &kernel.VethSpec{PeerName: "d", PeerAccepts: kernel.AcceptSpec{RA: ref(0)}}})
			return err
		}},
		{"SetLink of what it accepts", 1, func() error {
			return b.SetLink(ns, l.Index, kernel.LinkPatch{Accepts: kernel.AcceptSpec{RA: ref(0), Redirects4: ref(0)}})
		}},
		{"AddAddress", 1, func() error { return b.AddAddress(ns, here) }},
		{"AddRoute", 1, func() error { return b.AddRoute(ns, way) }},
		{"ReplaceRoute", 1, func() error { return b.ReplaceRoute(ns, way) }},
		{"SetSysctl", 1, func() error { return b.SetSysctl(ns, "net/ipv4/ip_forward", "1") }},
		{"Sysctl", 0, func() error { _, err := b.Sysctl(ns, "net/ipv4/ip_forward"); return err }},
		{"Links", 0, func() error { _, err := b.Links(ns); return err }},
		{"Link", 0, func() error { _, err := b.Link(ns, "a"); return err }},
		{"LinkByIndex", 0, func() error { _, err := b.LinkByIndex(ns, l.Index); return err }},
		{"Addresses", 0, func() error { _, err := b.Addresses(ns, 0); return err }},
		{"Routes", 0, func() error { _, err := b.Routes(ns); return err }},
		{"ListNamed", 0, func() error { _, err := b.ListNamed(); return err }},
		{"DeleteFlows", 0, func() error { _, err := b.DeleteFlows(ns, func(kernel.Flow) bool { return true }); return err }},
		{"DeleteRoute", 1, func() error { return b.DeleteRoute(ns, way) }},
		{"DeleteAddress", 1, func() error { return b.DeleteAddress(ns, here) }},
		{"DeleteLink", 1, func() error { return b.DeleteLink(ns, tap.Index) }},
		{"DeleteLinks", 3, func() error { return b.DeleteLinks(ns, indexed(l.Index, l.Parent)) }},
	}
	for _, s := range steps {
		all, in := b.Writes(), b.WritesIn(ns)
		if err := s.do(); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		if all, in := b.Writes()-all, b.WritesIn(ns)-in; all != s.want || in != s.want {
			t.Errorf("%s: %d requests counted, %d in the namespace, want %d", s.name, all, in, s.want)
		}
	}
	before := b.Writes()
	if _, err := b.CreateNamed("x"); err != nil || b.Writes() != before+1 {
		t.Errorf("CreateNamed: %v, %d counted", err, b.Writes()-before)
	}
	if err := b.DeleteNamed("x"); err != nil || b.Writes() != before+2 {
		t.Errorf("DeleteNamed: %v, %d counted", err, b.Writes()-before)
	}
	if b.WritesIn(b.Own()) != 0 {
		t.Error("counted in the wrong namespace")
	}
}

// The counter stands where requests are sent, and there is one such place. The frames of
// announcements are no requests.
func TestRequestsLeaveByOneDoor(t *testing.T) {
	door := regexp.MustCompile(`unix\.(Write|Sendto|Sendmsg|Sendmmsg|SendmsgN|SendmsgBuffers)\(|\.(request|batch)\(`)
	allowed := map[string]int{"accepts.go": 1, "announce.go": 1, "conn.go": 1, "flows.go": 1, "namespace.go": 2, "sysctls.go": 1}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(door.FindAll(text, -1)); n != allowed[f] {
			t.Errorf("%s sends in %d places, want %d", f, n, allowed[f])
		}
	}
}
