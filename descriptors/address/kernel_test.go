package address_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kernel/kerneltest"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink/hosttest"
	"github.com/plumb-net/plumb/scheduler"
)

func TestOnOurOwnLinkWeSayItAll(t *testing.T) {
	b := newBench(t)
	b.link("web", `{"bridge":{},"addresses_exclusive":true}`)
	b.derived("web", "10.0.0.1/24", "10.0.0.2/24", "fd00::1/64")
	if b.ledger.Writes() != 0 {
		t.Errorf("%d writes of the ledger on the hot path", b.ledger.Writes())
	}
	if err := b.add("address/vip", `{"interface":"web","address":"192.0.2.1/32","label":"web:vip","scope":"link"}`); err != nil {
		t.Fatal(err)
	}
	b.claims["c"] = netip.MustParsePrefix("10.9.0.1/16")
	if err := b.add("address/web/claim:c", `{"interface":"web","claim":"c"}`); err != nil {
		t.Fatal(err)
	}
	if err := b.add("address/short", `{"interface":"web","address":"10.8.0.1/24","valid_lifetime":600}`); err != nil {
		t.Fatal(err)
	}
	const want = "address/short address/vip address/web/10.0.0.1/24 address/web/10.0.0.2/24 address/web/claim:c address/web/fd00::1/64"
	if got := b.look(); got != want {
		t.Errorf("found %s\nwant  %s", got, want)
	}
	// Found is equal to what was asked.
	for k, kn := range b.in {
		s := scope{Keys: []scheduler.Key{k}, Known: []known{kn}}
		for f, err := range b.kind.Retrieve(t.Context(), s) {
			if err != nil || !b.kind.Equal(k, f.Value, kn.Value) {
				t.Errorf("%s: %v %s", k, err, b.kind.Compare(k, f.Value, kn.Value).Reason)
			}
		}
	}
	// Others' additions are drift, known by the key that they would have.
	b.net.IP(t, "addr add 10.0.0.77/24 dev web")
	if got := b.look("address/web/10.0.0.77/24"); got != "address/web/10.0.0.77/24" {
		t.Errorf("the addition was not found: %q", got)
	}
	// After a restart of the agent with nothing but the mark of the link.
	b.names = &kernel.Names{}
	b.restart()
	if got := b.look(); got != strings.Replace(want, "10.0.0.2/24 ", "10.0.0.2/24 address/web/10.0.0.77/24 ", 1) {
		t.Errorf("after a restart: %s", got)
	}
	// Before the sources have synced, what operators wrote by itself is told from
	// what is derived.
	b.restart()
	var found []string
	for f, err := range b.kind.Retrieve(t.Context(), scope{All: true}) {
		if err != nil {
			t.Error(err)
		}
		found = append(found, string(f.Key))
	}
	for _, k := range []string{"address/vip", "address/short", "address/web/claim:c"} {
		if !slices.Contains(found, k) {
			t.Errorf("%s was not recognised; found %v", k, found)
		}
	}
	// A claim that holds another address now is built anew, and stands on its claim
	// until then.
	b.claims["c"] = netip.MustParsePrefix("10.9.0.1/24")
	for f, err := range b.kind.Retrieve(t.Context(), scope{All: true}) {
		if err != nil || f.Key != "address/web/claim:c" {
			continue
		}
		want := b.in[f.Key].Value
		if verdict := b.kind.Compare(f.Key, f.Value, want); verdict.Change != scheduler.Replace || f.Value.GetClaim() != "c" {
			t.Errorf("%v: %v", f.Value, verdict)
		}
	}
	for k := range b.in {
		b.delete(string(k))
	}
	if got := b.shown("web"); got != "10.0.0.77/24" {
		t.Errorf("left %s", got)
	}
}

// TestAddressesWithAPeer: an address with a peer that others put on our link goes like any other,
// and no other one of the same network with it. The kernel takes its network from the peer.
func TestAddressesWithAPeer(t *testing.T) {
	hosttest.OnEachKernel(t, func(t *testing.T, h *hosttest.Host) {
		b := newBenchOn(t, h)
		b.link("web", `{"bridge":{},"addresses_exclusive":true}`)
		b.derived("web", "10.0.0.1/24", "fd00::1/64")
		before := b.commands("web")
		b.Do(t, b.Own(), "ip addr add 10.5.0.1 peer 10.5.0.2/32 dev web")
		b.Do(t, b.Own(), "ip addr add 10.6.0.1 peer 10.7.0.2/24 dev web")
		b.Do(t, b.Own(), "ip addr add 10.7.0.1/24 dev web") // a secondary one of that
		b.Do(t, b.Own(), "ip addr add fd05::1 peer fd05::2/128 dev web")
		remove := func(keys ...scheduler.Key) {
			t.Helper()
			for f, err := range b.kind.Retrieve(t.Context(), scope{Keys: keys}) {
				if err != nil {
					t.Fatal(err)
				}
				b.believe(f.Key, f.Value, f.Meta)
				keys = slices.DeleteFunc(keys, func(k scheduler.Key) bool { return k == f.Key })
				b.delete(string(f.Key))
			}
			if len(keys) > 0 {
				t.Errorf("%v were not found", keys)
			}
		}
		remove("address/web/10.6.0.1/24")
		if out := b.commands("web"); !strings.Contains(out, "add 10.7.0.1/24") || strings.Contains(out, "10.6.0.1") {
			t.Errorf("left %s", out)
		}
		remove("address/web/10.5.0.1/32", "address/web/10.7.0.1/24", "address/web/fd05::1/128")
		if after := b.commands("web"); after != before {
			t.Errorf("left %s, was %s", after, before)
		}
	})
}

// commands are those that make the addresses of a link, but for the kernel's own.
func (b *bench) commands(link string) string {
	b.t.Helper()
	text, err := kerneltest.Text(b)
	if err != nil {
		b.t.Fatal(err)
	}
	var list []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "ip addr add") && strings.Contains(line, " dev "+link) {
			list = append(list, line)
		}
	}
	return strings.Join(list, "")
}

// TestWhoAddedToOurLink: an address on a link of ours that we did not make says who did,
// as far as the kernel does; what the kernel gave itself, and what is not on a link of
// ours, is nobody's doing.
func TestWhoAddedToOurLink(t *testing.T) {
	b := newBench(t)
	web := b.link("web", `{"bridge":{},"addresses_exclusive":true}`)
	b.link("eth9", `{"existing":{}}`)
	b.derived("web", "10.0.0.1/24")
	b.net.IP(t, "addr add 10.0.0.77/24 dev web")
	b.net.IP(t, "addr add 10.0.0.78/24 dev eth9")
	for prefix, protocol := range map[string]uint8{"10.0.0.79/24": 18, "10.0.0.80/24": kernel.Protocol("host9")} {
		a := kernel.Address{Index: web.Index, Prefix: netip.MustParsePrefix(prefix), Protocol: protocol}
		if err := b.AddAddress(web.NS, a); err != nil {
			t.Fatal(err)
		}
	}
	var lines []string
	for f, err := range b.kind.Retrieve(t.Context(), scope{All: true}) {
		if err != nil {
			t.Error(err)
		}
		lines = append(lines, fmt.Sprintf("%s foreign=%v %s", f.Key, f.Foreign, f.Owner))
	}
	slices.Sort(lines)
	want := fmt.Sprintf(`address/eth9/10.0.0.78/24 foreign=true 
address/web/10.0.0.1/24 foreign=false 
address/web/10.0.0.77/24 foreign=false somebody else
address/web/10.0.0.79/24 foreign=false protocol 18
address/web/10.0.0.80/24 foreign=false the agent of another label (protocol %d)`, kernel.Protocol("host9"))
	lines = slices.DeleteFunc(lines, func(l string) bool { return strings.Contains(l, "fe80:") })
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("found\n%s\nwant\n%s", got, want)
	}
}

func TestCreateTwiceAndDeleteTwice(t *testing.T) {
	b := newBench(t)
	b.link("web", `{"bridge":{},"addresses_exclusive":true}`)
	b.derived("web", "10.0.0.1/24", "10.0.0.1/24", "fd00::1/64", "fd00::1/64")
	kn := b.in["address/web/10.0.0.1/24"]
	for range 2 {
		if err := b.kind.Delete(t.Context(), kn.Key, kn.Value, kn.Meta); err != nil {
			t.Fatal(err)
		}
	}
	b.net.IP(t, "link del dev web")
	b.delete("address/web/fd00::1/64")
}

// What differs on our own link is replaced.
func TestOwnLinkOtherSettings(t *testing.T) {
	b := newBench(t)
	b.link("web", `{"bridge":{},"addresses_exclusive":true}`)
	b.net.IP(t, "addr add fd00::1/128 dev web")
	b.net.IP(t, "addr add 10.0.0.1/24 scope link dev web")
	b.derived("web", "fd00::1/64", "10.0.0.1/24")
	if got := b.look(); got != "address/web/10.0.0.1/24 address/web/fd00::1/64" {
		t.Errorf("found %s", got)
	}
}

func TestOnOthersLinksOnlyOursIsOurs(t *testing.T) {
	b := newBench(t)
	b.link("eth9", `{"existing":{}}`)
	b.net.IP(t, "addr add 10.0.0.1/24 dev eth9")
	b.net.IP(t, "addr add 10.0.0.2/24 dev eth9")
	b.derived("eth9", "10.0.0.3/24", "10.0.0.2/24") // the second is there already
	if got, want := b.look(), "address/eth9/10.0.0.1/24* address/eth9/10.0.0.2/24 address/eth9/10.0.0.3/24"; !strings.HasPrefix(got, want) {
		t.Errorf("found %s, want %s", got, want)
	}
	if again := b.look(); !strings.HasPrefix(again, "address/eth9/10.0.0.1/24* address/eth9/10.0.0.2/24 ") {
		t.Errorf("found %s", again)
	}
	if err := b.add("address/x", `{"interface":"eth9","address":"10.0.0.1/24","label":"eth9:x"}`); !conflict(err) {
		t.Errorf("other settings: %v, want a conflict", err)
	}
	b.restart()
	b.delete("address/eth9/10.0.0.3/24", "address/eth9/10.0.0.2/24")
	if got := b.shown("eth9"); got != "10.0.0.1/24 10.0.0.2/24(2)" {
		t.Errorf("left %s", got)
	}
	if got := b.look(); !strings.HasPrefix(got, "address/eth9/10.0.0.1/24* address/eth9/10.0.0.2/24*") {
		t.Errorf("found %s", got)
	}
	if left := b.owner().Entries("address/"); len(left) != 0 {
		t.Errorf("the ledger still names %v", left)
	}
}

func TestLinkOnlyLeavesAddressesToOthers(t *testing.T) {
	b := newBench(t)
	b.link("web", `{"bridge":{},"link_only":true}`)
	b.net.IP(t, "addr add 10.0.0.1/24 dev web")
	if got := b.look(); !strings.HasPrefix(got, "address/web/10.0.0.1/24*") {
		t.Errorf("found %s", got)
	}
}

// TestWithoutAListAddressesOfOthersStay puts an address of others on a link that Plumb made for a
// value without addresses. It stays until the value lists addresses or says that they are exclusive.
// What Plumb made itself goes with its key.
func TestWithoutAListAddressesOfOthersStay(t *testing.T) {
	b := newBench(t)
	ref := b.link("web", `{"bridge":{},"addresses":["10.0.2.1/24"]}`)
	b.derived("web", "10.0.2.1/24")
	b.is("web", `{"bridge":{}}`, ref) // the list is removed
	b.net.IP(t, "addr add 10.0.0.77/24 dev web")
	if err := b.add("address/own", `{"interface":"web","address":"10.0.1.1/24"}`); err != nil {
		t.Fatal(err)
	}
	want := "address/own address/web/10.0.0.77/24* address/web/10.0.2.1/24"
	if got := b.look(); got != want {
		t.Errorf("found %s, want %s", got, want)
	}
	b.restart()
	if got := b.look(); got != want {
		t.Errorf("after a restart: %s, want %s", got, want)
	}
	b.delete("address/web/10.0.2.1/24")
	b.delete("address/own")
	if got := b.shown("web"); got != "10.0.0.77/24" {
		t.Errorf("left %s", got)
	}
	b.is("web", `{"bridge":{},"addresses_exclusive":true}`, ref)
	if got := b.look(); got != "address/web/10.0.0.77/24" {
		t.Errorf("exclusive: %s", got)
	}
	stranger := netip.MustParsePrefix("10.0.0.77/24")
	b.believe("address/web/10.0.0.77/24", &models.Address{Interface: "web", Address: stranger.String()}, kernel.AddressRef{LinkRef: ref, Prefix: stranger})
	b.delete("address/web/10.0.0.77/24")
	if got := b.shown("web"); got != "" {
		t.Errorf("exclusive: left %s", got)
	}
}

// TestRouteToTheNetworkOfABroadcastAddress creates an address that is the broadcast address of another
// link. The kernel creates no route to its network, and refuses one. The creation fails, and its
// repetition succeeds once the other address is gone, although a third link has a route to the same
// network.
func TestRouteToTheNetworkOfABroadcastAddress(t *testing.T) {
	b := newBench(t)
	b.link("web", `{"bridge":{}}`)
	b.link("db", `{"bridge":{}}`)
	b.link("lan", `{"bridge":{}}`)
	b.derived("db", "10.0.0.1/30")
	b.derived("lan", "10.0.0.5/24")
	const value = `{"interface":"web","address":"10.0.0.3/24"}`
	if err := b.add("address/x", value); err == nil || !strings.Contains(err.Error(), "10.0.0.3 the broadcast address of another network") {
		t.Errorf("created without a route: %v", err)
	}
	b.delete("address/db/10.0.0.1/30")
	if err := b.add("address/x", value); err != nil {
		t.Error(err)
	}
	if got := b.net.IP(t, "route show 10.0.0.0/24"); !strings.Contains(got, "dev web proto kernel scope link src 10.0.0.3") || !strings.Contains(got, "dev lan") {
		t.Errorf("routes:\n%s", got)
	}
}

// TestReplacedByOthers: others remove an address of ours and add the same one, which is found under the key that an
// interface would derive. After our key has taken it back it is not found under that key, which nobody wants:
// it would be deleted.
func TestReplacedByOthers(t *testing.T) {
	b := newBench(t)
	link := b.link("web", `{"bridge":{}}`)
	const key, others = "address/x", "address/web/10.0.0.3/24"
	value := `{"interface":"web","address":"10.0.0.3/24","label":"web:x"}`
	if err := b.add(key, value); err != nil {
		t.Fatal(err)
	}
	b.net.IP(t, "addr del 10.0.0.3/24 dev web")
	if found := b.look(key); found != "" {
		t.Errorf("found %s", found)
	}
	b.net.IP(t, "addr add 10.0.0.3/24 dev web")
	if found := b.look(others); found != others+"*" {
		t.Errorf("found %s", found)
	}
	b.believe(others, decode(t, `{"interface":"web","address":"10.0.0.3/24"}`)[0], kernel.AddressRef{LinkRef: link, Prefix: netip.MustParsePrefix("10.0.0.3/24")})
	if err := b.add(key, value); err != nil {
		t.Fatal(err)
	}
	b.restart() // as the event of the replacement does
	if found := b.look(others); found != "" {
		t.Errorf("found %s", found)
	}
	if found := b.look(key); found != key {
		t.Errorf("found %s", found)
	}
}

// TestRemovedDuringRepair removes an address after the kernel has refused to add it, because it was there: before its
// link is read, or before its route is added. The address is added again, with its route.
func TestRemovedDuringRepair(t *testing.T) {
	for _, moment := range []string{"Addresses", "AddAddressRoute"} {
		b := newBench(t)
		b.link("web", `{"bridge":{}}`)
		const key, value = "address/web/10.0.0.3/24", `{"interface":"web","address":"10.0.0.3/24"}`
		b.derived("web", "10.0.0.3/24")
		b.net.IP(t, "route del 10.0.0.0/24 dev web")
		b.kernelOf.Kernel = &removing{b.Kernel, moment, func() { b.net.IP(t, "addr del 10.0.0.3/24 dev web") }}
		if err := b.add(key, value); err != nil {
			t.Errorf("%s: %v", moment, err)
		}
		if got := b.net.IP(t, "route show 10.0.0.0/24"); !strings.Contains(got, "dev web") {
			t.Errorf("%s: routes %q, addresses\n%s", moment, got, b.shown("web"))
		}
	}
}

// TestRemovedDuringCreation removes an address after the kernel has added it and before its route is read. The creation
// succeeds, as it would if the address was removed a moment later.
func TestRemovedDuringCreation(t *testing.T) {
	b := newBench(t)
	b.link("web", `{"bridge":{}}`)
	b.kernelOf.Kernel = &removing{b.Kernel, "AddressRoutes", func() { b.net.IP(t, "addr del 10.0.0.3/24 dev web") }}
	if err := b.add("address/web/10.0.0.3/24", `{"interface":"web","address":"10.0.0.3/24"}`); err != nil {
		t.Error(err)
	}
}

// removing does something once before it reads addresses or adds a route.
type removing struct {
	kernel.Kernel
	moment string
	remove func()
}

func (r *removing) once(at string) {
	if r.moment == at {
		r.moment = ""
		r.remove()
	}
}

func (r *removing) Addresses(ns kernel.NS, index int) ([]kernel.Address, error) {
	r.once("Addresses")
	return r.Kernel.Addresses(ns, index)
}

func (r *removing) AddressRoutes(ns kernel.NS, index int) ([]kernel.Route, error) {
	r.once("AddressRoutes")
	return r.Kernel.AddressRoutes(ns, index)
}

func (r *removing) AddAddressRoute(ns kernel.NS, route kernel.Route) error {
	r.once("AddAddressRoute")
	return r.Kernel.AddAddressRoute(ns, route)
}

// TestAddressesOfALoopback: the network of an IPv4 address of a loopback is local, and needs no route.
func TestAddressesOfALoopback(t *testing.T) {
	b := newBench(t)
	b.net.IP(t, "link set lo up")
	lo, err := b.Link(b.Own(), "lo")
	if err != nil {
		t.Fatal(err)
	}
	b.is("lo", `{"loopback":{}}`, lo.Ref())
	b.names.Put(lo.Ref(), "lo")
	b.derived("lo", "10.0.0.1/24", "10.0.1.1/32", "fd00::1/64", "fd01::1/128")
	before := b.Writes()
	for _, kn := range b.in {
		for f, err := range b.kind.Retrieve(t.Context(), scope{Keys: []scheduler.Key{kn.Key}, Known: []known{kn}}) {
			if err != nil {
				t.Fatal(err)
			}
			if v := b.kind.Compare(kn.Key, f.Value, kn.Value); v.Change != scheduler.Same {
				t.Errorf("%s: %s", kn.Key, v.Reason)
			}
		}
	}
	if got := b.net.IP(t, "route show table main"); got != "" || b.Writes() != before {
		t.Errorf("routes:\n%s", got)
	}
}

// TestSameAddressWithAnotherPeer adds the address of a value a second time, with another peer. The
// kernel keeps both. The second is reported, found, and removed by the repair.
func TestSameAddressWithAnotherPeer(t *testing.T) {
	for _, theirs := range []string{"10.0.0.1/24", "10.0.0.1 peer 10.0.9.1/24"} {
		t.Run(theirs, func(t *testing.T) {
			b := newBench(t)
			b.link("web", `{"bridge":{}}`)
			const value = `{"interface":"web","address":"10.0.0.1/24","peer":"10.0.1.1"}`
			if err := b.add("address/own", value); err != nil {
				t.Fatal(err)
			}
			w := newWatch(t, b)
			b.net.IP(t, "addr add "+theirs+" dev web")
			w.await("address/own")
			kn := b.in["address/own"]
			var last *models.Address // which the scheduler takes of several
			for f, err := range b.kind.Retrieve(t.Context(), scope{All: true, Known: []known{kn}}) {
				if err != nil {
					t.Fatal(err)
				}
				last = f.Value
			}
			if v := b.kind.Compare(kn.Key, last, kn.Value); v.Change != scheduler.Replace {
				t.Errorf("found %v: %v", last, v)
			}
			b.delete("address/own")
			if got := b.shown("web"); got != "" {
				t.Errorf("left %s", got)
			}
			b.net.IP(t, "addr add "+theirs+" dev web")
			if err := b.add("address/own", value); err != nil {
				t.Fatal(err)
			}
			if got := b.net.IP(t, "-4 -o addr show dev web"); strings.Count(got, "inet ") != 1 || !strings.Contains(got, "peer 10.0.1.1/24") {
				t.Errorf("after another creation: %s", got)
			}
		})
	}
}

// The kernel drops secondary addresses with their primary; they are put back.
func TestSecondaryAddressesSurvive(t *testing.T) {
	for _, promote := range []string{"0", "1"} {
		t.Run("promote "+promote, func(t *testing.T) {
			b := newBench(t)
			b.net.Sysctl(t, "ipv4/conf/all/promote_secondaries", promote)
			b.link("eth9", `{"existing":{}}`)
			b.derived("eth9", "10.0.0.1/24")
			b.net.IP(t, "addr add 10.0.0.2/24 dev eth9 label eth9:x")
			b.net.IP(t, "addr add 10.0.0.3/24 dev eth9")
			b.net.IP(t, "addr add 10.0.1.1/24 dev eth9")
			b.derived("eth9", "10.0.0.4/24")
			b.delete("address/eth9/10.0.0.1/24")
			got := strings.Fields(b.shown("eth9"))
			for i := range got {
				got[i] = strings.TrimSuffix(got[i], "(2)")
			}
			for _, want := range []string{"10.0.0.2/24", "10.0.0.3/24", "10.0.1.1/24", "10.0.0.4/24"} {
				if !strings.Contains(strings.Join(got, " "), want) {
					t.Errorf("%s is gone; left %v", want, got)
				}
			}
			if !strings.Contains(b.net.IP(t, "addr show dev eth9"), "eth9:x") {
				t.Error("the label is lost")
			}
		})
	}
}

// All of a network go together: none is put back in between.
func TestDeleteBatchOfANetwork(t *testing.T) {
	b := newBench(t)
	b.link("web", `{"bridge":{},"addresses_exclusive":true}`)
	b.derived("web", "10.0.0.1/24", "10.0.0.2/24", "10.0.0.3/24")
	before := b.Writes()
	b.delete("address/web/10.0.0.1/24", "address/web/10.0.0.2/24", "address/web/10.0.0.3/24")
	if n := b.Writes() - before; n != 3 {
		t.Errorf("%d writes, want 3", n)
	}
	if got := b.shown("web"); got != "" {
		t.Errorf("left %s", got)
	}
}

func TestHintWhenIPv6IsOff(t *testing.T) {
	b := newBench(t)
	b.link("web", `{"bridge":{},"addresses_exclusive":true}`)
	b.net.Sysctl(t, "ipv6/conf/web/disable_ipv6", "1")
	err := b.add("address/web/fd00::1/64", `{"interface":"web","address":"fd00::1/64"}`)
	if err == nil || !strings.Contains(err.Error(), "disable_ipv6") {
		t.Error(err)
	}
}

// After a restart an address may be read again before its interface has been: the
// link is known by its mark, as when all are read.
func TestReadBeforeTheInterface(t *testing.T) {
	b := newBench(t)
	ref := b.link("web", `{"bridge":{},"addresses_exclusive":true}`)
	b.derived("web", "10.0.0.1/24")
	if err := b.owner().Record(kernel.Entry{ID: "interface/web", NS: ref.NS, Mark: kernel.Mark("host7", "interface/web")}); err != nil {
		t.Fatal(err)
	}
	b.links.put("interface/web", &inPlace{v: b.links.all["interface/web"].v})
	if got := b.look("address/web/10.0.0.1/24"); got != "address/web/10.0.0.1/24" {
		t.Errorf("found %s", got)
	}
}

// What the link took with it is forgotten when its key is read, and not only when all
// are; a link that is there but is not in question tells nothing.
func TestForgottenWithItsLink(t *testing.T) {
	b := newBench(t)
	b.link("web", `{"bridge":{},"addresses_exclusive":true}`)
	b.link("db", `{"bridge":{},"addresses_exclusive":true}`)
	for key, value := range map[string]string{"address/vip": `{"interface":"web","address":"10.9.0.1/24"}`, "address/other": `{"interface":"db","address":"10.9.1.1/24"}`} {
		if err := b.add(key, value); err != nil {
			t.Fatal(err)
		}
	}
	ids := func() (list []string) {
		for _, e := range b.ledger.Entries("") {
			if strings.HasPrefix(e.ID, "address/") {
				list = append(list, e.ID)
			}
		}
		return list
	}
	b.net.IP(t, "link delete web")
	for f, err := range b.kind.Retrieve(t.Context(), scope{Keys: []scheduler.Key{"address/vip"}}) {
		t.Errorf("found %s, %v", f.Key, err)
	}
	if got := ids(); !slices.Equal(got, []string{"address/other"}) {
		t.Errorf("recorded are %v", got)
	}
}
