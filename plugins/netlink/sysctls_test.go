package netlink_test

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink"
)

// Every namespace has settings of its own.
func TestSysctls(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	ns, other := b.open(t)
	before, err := b.Sysctl(b.Own(), "net/ipv4/ip_forward")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"0": "1", "1": "0"}[before]
	if err := b.SetSysctl(ns, "net/ipv4/ip_forward", want); err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(other.Run(t, "cat", "/proc/sys/net/ipv4/ip_forward")); got != want {
		t.Errorf("set to %q, but it is %q", want, got)
	}
	if got, err := b.Sysctl(ns, "net/ipv4/ip_forward"); got != want || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	if got, err := b.Sysctl(b.Own(), "net/ipv4/ip_forward"); got != before || err != nil {
		t.Errorf("another namespace has changed: %q, %v", got, err)
	}
}

func TestSysctlsOfLinks(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	ns, _ := b.open(t)
	b.add(t, ns, kernel.LinkSpec{Name: "a.7", Bridge: &kernel.BridgeSpec{}})
	if err := b.SetSysctl(ns, "net/ipv4/conf/a.7/rp_filter", "2"); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Sysctl(ns, "net/ipv4/conf/a.7/rp_filter"); got != "2" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	if _, err := b.Sysctl(b.Own(), "net/ipv4/conf/a.7/rp_filter"); !errors.Is(err, kernel.ErrNotExist) {
		t.Errorf("where there is no such link: %v", err)
	}
}

// Empty is a value too, and errors say what they are.
func TestSysctlsRefused(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	ns, _ := b.open(t)
	for _, value := range []string{"4000-4001", ""} {
		if err := b.SetSysctl(ns, "net/ipv4/ip_local_reserved_ports", value); err != nil {
			t.Fatal(err)
		}
		if got, err := b.Sysctl(ns, "net/ipv4/ip_local_reserved_ports"); got != value || err != nil {
			t.Errorf("set to %q, read %q, %v", value, got, err)
		}
	}
	if err := b.SetSysctl(ns, "net/ipv4/ip_forward", "yes"); !errors.Is(err, unix.EINVAL) {
		t.Errorf("a bad value: %v", err)
	}
	if err := b.SetSysctl(ns, "net/ipv4/no_such", "1"); !errors.Is(err, kernel.ErrNotExist) {
		t.Errorf("no such setting: %v", err)
	}
	if _, err := b.Sysctl(1, "net/ipv4/ip_forward"); !errors.Is(err, kernel.ErrNoNamespace) {
		t.Errorf("no such namespace: %v", err)
	}
}
