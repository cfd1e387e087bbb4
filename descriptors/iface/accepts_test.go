package iface_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/plumb-net/plumb/descriptors/iface"
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink/hosttest"
	"github.com/plumb-net/plumb/scheduler"
)

// polled has the kind read the settings of links when the test says.
func (b *bench) polled() chan time.Time {
	ticks := make(chan time.Time)
	b.kind = iface.New(iface.Deps{
		Kernel: b.Kernel, Owner: kernel.NewOwner(b.label, "boot", b.ledger, b.fail.hit), Names: b.names,
		Places: b, Interfaces: b.self, KeyFile: testKey, Poll: ticks,
	})
	return ticks
}

// TestAcceptsArePolled: the kernel tells nobody that a setting was changed, so the links of the
// agent's namespace are read now and then. A setting that a value of the kind sysctl holds in the
// ledger is left to that, whichever way it names the link.
func TestAcceptsArePolled(t *testing.T) {
	hosttest.OnEachKernel(t, func(t *testing.T, h *hosttest.Host) {
		b := newBenchOn(t, h)
		ticks := b.polled()
		b.make("br0", `{"bridge":{}}`)
		b.make("br1", `{"bridge":{},"accept_ra":true}`)
		told := b.follow()
		poll := func() { ticks <- time.Now(); ticks <- time.Now() } // the first is done when the second is taken
		set := func(place, value string) {
			t.Helper()
			if err := b.SetSysctl(b.Own(), place, value); err != nil {
				t.Fatal(err)
			}
		}
		is := func(want string) {
			t.Helper()
			poll() // what an earlier one still reports is of the past
			told.take()
			poll()
			if got := fmt.Sprint(told.take()); got != want {
				t.Errorf("told %s, want %s", got, want)
			}
		}
		is("[]")
		set("net/ipv6/conf/br0/accept_ra", "1")
		is("[interface/br0]")
		l, err := b.Link(b.Own(), "br0")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range []kernel.Entry{
			{ID: "sysctl/ra", NS: b.Own(), Mark: fmt.Sprintf("%s net/ipv6/conf/br0/accept_ra", kernel.LinkRef{NS: b.Own()}), Boot: "boot"},
			{ID: "sysctl/ra", NS: b.Own(), Index: l.Index, Mark: fmt.Sprintf("%s net/ipv6/conf/%s/accept_ra", l.Ref(), models.IfName), Boot: "boot"},
		} {
			if err := b.ledger.Add(e); err != nil {
				t.Fatal(err)
			}
			is("[]")
			b.sound("br0", `{"bridge":{}}`)
			b.ledger.Remove("sysctl/ra")
			is("[interface/br0]")
		}
		set("net/ipv6/conf/br0/accept_ra", "0")
		is("[]")

		// The kernel has redirects be accepted by all links when it no longer forwards.
		set("net/ipv4/ip_forward", "0")
		set("net/ipv4/conf/all/accept_redirects", "1")
		is("[interface/br0]")
		v, ref, _ := b.self.Get("interface/br0")
		if _, err := b.kind.Update(context.Background(), "interface/br0", v, v, ref); err != nil {
			t.Fatal(err)
		}
		if all, err := b.Sysctl(b.Own(), "net/ipv4/conf/all/accept_redirects"); err != nil || all != "0" {
			t.Errorf("redirects are accepted by all: %q, %v", all, err)
		}
		is("[]")
	})
}

// sound finds a link as its value says.
func (b *bench) sound(name, text string) {
	b.t.Helper()
	k := scheduler.Key(models.InterfaceKey(name))
	for f, err := range b.kind.Retrieve(context.Background(), scope{Keys: []scheduler.Key{k}}) {
		if err != nil || b.kind.Compare(k, f.Value, b.value(text)).Change != scheduler.Same {
			b.t.Errorf("%s is %v, %v", name, f.Value, err)
		}
	}
}

// TestMixedAccepts: settings of which others changed some differ from what is desired, in every
// reading until they are repaired.
func TestMixedAccepts(t *testing.T) {
	hosttest.OnEachKernel(t, func(t *testing.T, h *hosttest.Host) {
		b := newBenchOn(t, h)
		for name, text := range map[string]string{
			"on": `{"bridge":{},"accept_ra":true,"accept_redirects":true}`, "off": `{"bridge":{}}`,
		} {
			ref := b.make(name, text)
			k, v := b.want(name, text)
			for _, place := range []string{"net/ipv6/conf/%s/accept_ra", "net/ipv6/conf/%s/accept_redirects"} {
				if err := b.SetSysctl(b.Own(), fmt.Sprintf(place, name), "1"); err != nil {
					t.Fatal(err)
				}
			}
			if name == "on" {
				if err := b.SetSysctl(b.Own(), "net/ipv4/conf/on/accept_redirects", "0"); err != nil {
					t.Fatal(err)
				}
			}
			for range 3 {
				f := b.look(name)[k]
				if f.Value.GetAcceptRa() == v.GetAcceptRa() || f.Value.GetAcceptRedirects() == v.GetAcceptRedirects() {
					t.Errorf("%s is read as %v", name, f.Value)
				}
				b.self.put(k, f.Value, ref)
			}
			if err := b.update(name, text); err != nil {
				t.Fatal(err)
			}
			b.same(name)
		}
	})
}
