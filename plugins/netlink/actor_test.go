package netlink_test

import (
	"bufio"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink"
)

// actorsRoute is the variable by which the process of TestWhoHasAnotherSocket is told what
// to delete.
const actorsRoute = "PLUMB_TEST_ACTOR"

func ofRoute(to string, deleted bool) func(kernel.Event) bool {
	return func(ev kernel.Event) bool {
		return ev.Route != nil && ev.Route.Dst == netip.MustParsePrefix(to) && ev.Deleted == deleted
	}
}

// Who deletes an object is named as long as he is there, by what the kernel tells of it.
func TestWhoDidIt(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	w := watch(t, b)
	ns, n := b.open(t)
	if err := b.WatchTables(ns); err != nil {
		t.Fatal(err)
	}
	l := b.add(t, ns, kernel.LinkSpec{Name: "br0", Up: true, Bridge: &kernel.BridgeSpec{}})
	to := netip.MustParsePrefix("10.9.0.0/16")
	for _, a := range []string{"10.0.0.1/24", "10.0.1.1/24"} {
		if err := b.AddAddress(ns, kernel.Address{Index: l.Index, Prefix: netip.MustParsePrefix(a)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.AddRoute(ns, kernel.Route{Dst: to, Table: 254, Protocol: 99, Type: "unicast", Index: l.Index, Gateway: netip.MustParseAddr("10.0.0.2")}); err != nil {
		t.Fatal(err)
	}
	// What we did ourselves nobody is named for.
	if ev := w.until(t, "our route", ofRoute("10.9.0.0/16", false)); ev.Actor != (kernel.Actor{}) || b.Who(ns, ev.Actor) != "" {
		t.Errorf("we are %+v", ev.Actor)
	}

	ip := n.Actor(t)
	ip.Do(t, "route del 10.9.0.0/16")
	ev := w.until(t, "the route is gone", ofRoute("10.9.0.0/16", true))
	if got := b.Who(ns, ev.Actor); got != ip.Name() || int(ev.Actor.Port) != ip.Pid {
		t.Errorf("%+v is %q, want %q", ev.Actor, got, ip.Name())
	}
	ip.Do(t, "addr del 10.0.0.1/24 dev br0")
	gone := func(a string) func(kernel.Event) bool {
		return func(ev kernel.Event) bool { return ev.Deleted && ev.Address != nil && ev.Address.Prefix.String() == a }
	}
	ev = w.until(t, "the address is gone", gone("10.0.0.1/24"))
	if got := b.Who(ns, ev.Actor); got != ip.Name() {
		t.Errorf("%+v is %q, want %q", ev.Actor, got, ip.Name())
	}

	// Somebody who has ended has a number, which by then may be anybody's.
	n.IP(t, "addr del 10.0.1.1/24 dev br0")
	ev = w.until(t, "the second address is gone", gone("10.0.1.1/24"))
	if got, want := b.Who(ns, ev.Actor), fmt.Sprintf("a process that has ended (netlink port %d)", ev.Actor.Port); got != want {
		t.Errorf("%+v is %q, want %q", ev.Actor, got, want)
	}
	n.IP(t, "route add 10.8.0.0/16 dev br0 proto dhcp")
	ev = w.until(t, "a route of others", ofRoute("10.8.0.0/16", false))
	if got, want := b.Who(ns, ev.Actor), fmt.Sprintf("a process that has ended (netlink port %d), with a route of protocol dhcp", ev.Actor.Port); got != want {
		t.Errorf("%+v is %q, want %q", ev.Actor, got, want)
	}
	ev.Actor.Port, ev.Actor.Heard = uint32(ip.Pid), time.Now().Add(-time.Hour)
	if got := b.Who(b.Own(), ev.Actor); strings.Contains(got, "ip (") {
		t.Errorf("of something before it began it is told that it was %s", got)
	}

	// nftables says itself who it was, also of one who has ended.
	n.Run(t, "nft", "add table inet x")
	ev = w.until(t, "a table", isTables)
	if got := b.Who(ns, ev.Actor); !strings.HasPrefix(got, "nft (process ") || ev.Actor.Process == 0 {
		t.Errorf("%+v is %q", ev.Actor, got)
	}

	// Of links the kernel tells if whoever asked wants to be told himself (NLM_F_ECHO).
	echo := n.Actor(t, "-echo")
	echo.Tell("link del br0")
	ev = w.until(t, "the link is gone", func(ev kernel.Event) bool { return ev.Deleted && ev.Link != nil && ev.Link.Name == "br0" })
	if got := b.Who(ns, ev.Actor); got != "" && got != echo.Name() { // before Linux 6.2 never
		t.Errorf("%+v is %q, want %q", ev.Actor, got, echo.Name())
	}
}

// A process is found also by another socket than its first, which has any number.
func TestWhoHasAnotherSocket(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	w := watch(t, b)
	ns, n := b.open(t)
	n.IP(t, "link set lo up")
	n.IP(t, "route add 10.9.0.0/16 dev lo")
	cmd := exec.Command("nsenter", "--net="+n.Path, "--", os.Args[0])
	cmd.Env = append(os.Environ(), actorsRoute+"=10.9.0.0")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); _ = cmd.Wait() }()
	if said, err := bufio.NewReader(out).ReadString('\n'); said != "done\n" {
		t.Fatalf("%q, %v", said, err)
	}
	ev := w.until(t, "the route is gone", ofRoute("10.9.0.0/16", true))
	got := b.Who(ns, ev.Actor)
	if want := fmt.Sprintf("(process %d)", cmd.Process.Pid); !strings.HasSuffix(got, want) || int(ev.Actor.Port) == cmd.Process.Pid {
		t.Errorf("%+v is %q, want … %s", ev.Actor, got, want)
	}
}

// deleteRoute deletes a route of 16 bits by the second socket that it opens, and stays.
func deleteRoute(to string) {
	var fd int
	for range 2 {
		var err error
		if fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE); err != nil {
			panic(err)
		}
		if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			panic(err)
		}
	}
	a := netip.MustParseAddr(to).As4()
	m := []byte{36, 0, 0, 0, unix.RTM_DELROUTE, 0, unix.NLM_F_REQUEST | unix.NLM_F_ACK, 0, 1, 0, 0, 0, 0, 0, 0, 0, // nlmsghdr
		unix.AF_INET, 16, 0, 0, unix.RT_TABLE_MAIN, 0, unix.RT_SCOPE_NOWHERE, 0, 0, 0, 0, 0, // rtmsg
		8, 0, unix.RTA_DST, 0, a[0], a[1], a[2], a[3]}
	if err := unix.Sendto(fd, m, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		panic(err)
	}
	answer := make([]byte, 1024)
	if _, _, err := unix.Recvfrom(fd, answer, 0); err != nil {
		panic(err)
	}
	fmt.Println("done")
	_, _ = os.Stdin.Read(answer)
}

// BenchmarkForeignRoutes: what 50,000 changes of others cost, of which none is ours.
func BenchmarkForeignRoutes(b *testing.B) {
	const routes = 50000
	k := newKernel(b, netlink.Options{})
	_, n := k.open(b)
	n.IP(b, "link set lo up")
	var batch strings.Builder
	for i := range routes {
		fmt.Fprintf(&batch, "route add 10.%d.%d.%d/32 dev lo\n", i>>16, i>>8&255, i&255)
	}
	path := b.TempDir() + "/routes"
	if err := os.WriteFile(path, []byte(batch.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, all, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	came := 0
	go func() {
		ended <- k.Watch(ctx, func(ev kernel.Event) {
			if ev.Ready {
				close(ready)
			}
			if ev.Route == nil || ev.Deleted || ev.Route.Dst.Bits() != 32 || ev.Route.Table != unix.RT_TABLE_MAIN {
				return
			}
			if came++; came%routes == 0 {
				all <- struct{}{}
			}
		})
	}()
	defer func() { cancel(); <-ended }()
	<-ready
	var used int64
	for b.Loop() {
		var before, after unix.Rusage
		_ = unix.Getrusage(unix.RUSAGE_SELF, &before)
		n.IP(b, "-batch "+path)
		<-all
		_ = unix.Getrusage(unix.RUSAGE_SELF, &after)
		used += after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
		b.StopTimer()
		n.IP(b, "route flush dev lo scope link")
		b.StartTimer()
	}
	b.ReportMetric(float64(used)/float64(b.N)/routes, "cpu-ns/event")
}
