package address_test

import (
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/scheduler"
)

// TestDuplicates adds IPv6 addresses of which other hosts on the link have some.
func TestDuplicates(t *testing.T) {
	b, other := newBench(t), netlinktest.New(t)
	b.net.IPv6(t)
	other.IPv6(t)
	b.net.Sysctl(t, "ipv6/conf/default/accept_dad", "1")
	b.link("web", `{"bridge":{}}`)
	b.net.IP(t, "link add port type veth peer name end netns "+other.Path)
	b.net.IP(t, "link set port master web up")
	other.IP(t, "addr add fd00::2/64 dev end")
	other.IP(t, "link set end up")
	netlinktest.Eventually(t, "the bridge has a carrier", func() bool {
		return strings.Contains(b.net.IP(t, "link show web"), "LOWER_UP")
	})
	flags := func(address string) string {
		text := b.net.IP(t, "-o address show dev web to "+address)
		var all []string
		for _, flag := range []string{"tentative", "dadfailed", "nodad"} {
			if strings.Contains(text, " "+flag) {
				all = append(all, flag)
			}
		}
		return strings.Join(all, " ")
	}
	see := func(address, want string) {
		t.Helper()
		if got := flags(address); got != want {
			t.Errorf("%s is %q, want %q", address, got, want)
		}
	}

	// An address is in place once the kernel uses it.
	if err := b.add("address/web/fd00::1/64", `{"interface":"web","address":"fd00::1/64"}`); err != nil {
		t.Fatal(err)
	}
	see("fd00::1", "")
	if err := b.add("address/web/fd00::3/64", `{"interface":"web","address":"fd00::3/64","duplicate_detection":"none"}`); err != nil {
		t.Fatal(err)
	}
	see("fd00::3", "nodad")

	// One that another host has is an error, also at the next try.
	const taken, value = "address/web/fd00::2/64", `{"interface":"web","address":"fd00::2/64"}`
	for range 2 {
		err := b.add(taken, value)
		if err == nil || !strings.Contains(err.Error(), "another host on the link has fd00::2/64") {
			t.Fatalf("an address of another host: %v", err)
		}
		see("fd00::2", "tentative dadfailed")
	}
	for f, err := range b.kind.Retrieve(t.Context(), scope{Keys: []scheduler.Key{taken}, Known: []known{{Key: taken, Value: decode(t, value)[0]}}}) {
		if v := b.kind.Compare(f.Key, f.Value, decode(t, value)[0]); err != nil || v.Change != scheduler.Replace {
			t.Errorf("the address of another host: %v (%s), %v", v.Change, v.Reason, err)
		}
	}

	// It is added again when the other host has given it up.
	other.IP(t, "addr del fd00::2/64 dev end")
	if err := b.add(taken, value); err != nil {
		t.Fatal(err)
	}
	see("fd00::2", "")

	// On a link without carrier nothing is detected yet, and nothing is waited for.
	b.link("idle", `{"bridge":{}}`)
	if err := b.add("address/idle/fd01::1/64", `{"interface":"idle","address":"fd01::1/64"}`); err != nil {
		t.Fatal(err)
	}
}

// TestDetectionOnACable creates an address before the other end of the cable is up. It is in place once the
// kernel uses it.
func TestDetectionOnACable(t *testing.T) {
	b := newBench(t)
	b.net.IPv6(t)
	b.net.Sysctl(t, "ipv6/conf/default/accept_dad", "1")
	near, err := b.AddLink(b.Own(), kernel.LinkSpec{Name: "near", Up: true, Alias: kernel.Mark("host7", "interface/near"), Group: kernel.Group("host7"),
		Veth: &kernel.VethSpec{PeerName: "far"}})
	if err != nil {
		t.Fatal(err)
	}
	far, err := b.Link(b.Own(), "far")
	if err != nil {
		t.Fatal(err)
	}
	b.is("near", `{"veth":{"peer":"far"}}`, near.Ref())
	b.is("far", `{"veth":{"peer":"near"}}`, far.Ref())
	created := make(chan error)
	go func() {
		_, err := b.kind.Create(t.Context(), "address/near/fd00::1/64", decode(t, `{"interface":"near","address":"fd00::1/64"}`)[0])
		created <- err
	}()
	shown := func() string { return b.net.IP(t, "-o address show dev near to fd00::1") }
	netlinktest.Eventually(t, "the address is tentative", func() bool { return strings.Contains(shown(), "tentative") })
	b.net.IP(t, "link set far up")
	if err := <-created; err != nil {
		t.Error(err)
	}
	if text := shown(); !strings.Contains(text, "fd00::1") || strings.Contains(text, "tentative") {
		t.Errorf("the address that is in place: %s", text)
	}
}
