package e2e

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/tests/e2e/host"
)

// TestClockJumps sets the clock of the machine a year ahead and a year back while the agent runs and
// while it is stopped. Nothing is written to the kernel, containers are attached and detached, GC
// keeps what is valid, changes are applied, and an unconfirmed change is reverted within its time.
// tests/kernels runs it in a virtual machine.
func TestClockJumps(t *testing.T) {
	if os.Getenv("PLUMB_KERNEL") == "" {
		return // it would set the clock of this machine
	}
	h := host.New(t, host.Options{NoEngine: true, Fast: true})
	c1 := h.Mount("c1")
	h.Mount("c2")
	h.Start()
	latest := strings.Replace(blue, "1.0.0", "1.1.0", 1)
	gateway := add(t, h, "c1", latest).IPs[0].Gateway
	before := h.Exact()
	const year = 365 * 24 * time.Hour
	set := func(by time.Duration) {
		t.Helper()
		now := unix.NsecToTimespec(time.Now().Add(by).UnixNano())
		if err := unix.ClockSettime(unix.CLOCK_REALTIME, &now); err != nil {
			t.Fatal(err)
		}
	}
	works := func(when string) {
		t.Helper()
		h.AwaitSettled()
		if diff := host.Diff(before, h.Exact()); diff != "" {
			t.Errorf("%s: changed:\n%s", when, diff)
		}
		if err := ping(c1, gateway); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		add(t, h, "c2", latest)
		valid := strings.Replace(latest, "{", `{"cni.dev/valid-attachments":[{"containerID":"c1","ifname":"eth0"},{"containerID":"c2","ifname":"eth0"}],`, 1)
		if r := call(h, "GC", "", valid); r.Code != 0 {
			t.Errorf("%s: GC: %s%s", when, r.Out, r.Err)
		}
		if r := call(h, "DEL", "c2", latest); r.Code != 0 {
			t.Errorf("%s: DEL: %s%s", when, r.Out, r.Err)
		}
		h.MustCtl("put", "interface/kept", `{"bridge":{}}`, "--wait")
		h.MustCtl("delete", "interface/kept", "--wait")
		if diff := host.Diff(before, h.Exact()); diff != "" {
			t.Errorf("%s: left:\n%s", when, diff)
		}
	}
	works("at first")
	for _, jump := range []struct {
		when string
		by   time.Duration
	}{{"a year ahead", year}, {"back again", -year}, {"a year back", -year}, {"ahead again", year}} {
		set(jump.by)
		works(jump.when)
		h.Stop()
		set(-jump.by)
		h.Start()
		works(jump.when + ", set right while the agent was stopped")
		set(jump.by)
	}
	if r := h.CtlInput("key: interface/trial\nvalue: {bridge: {}}\n", "apply", "-f", "-", "--wait", "--confirm", "5s"); r.Code != 0 {
		t.Fatalf("apply: %s%s", r.Out, r.Err)
	}
	set(-year)
	h.Eventually("the change is reverted", func() error { return same(before, h.Exact()) })
	set(year)
}
