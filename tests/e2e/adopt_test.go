package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

// scripted is a host as shell scripts leave it, and what others have on it beside that.
var scripted = []string{
	"link add eth0 type ifb", "link set eth0 up", // plays a link whose type says little
	"address add 192.0.2.5/24 dev eth0",
	"address add 192.0.2.99/24 dev eth0 valid_lft 3600 preferred_lft 3600", // of a DHCP client
	"link add br0 type bridge stp_state 1 ageing_time 10000",
	"link set br0 address 02:00:00:00:00:b0 up",
	"address add 10.1.0.1/24 dev br0", "address add fd01::1/64 dev br0",
	"address add 10.1.9.1/32 dev br0 label br0:x scope link",
	"link add web0 type veth peer name web1", "link set web0 master br0 up", "link set web1 up",
	"link set web0 type bridge_slave isolated on",
	"link add vx type vxlan id 61 dstport 4789 local 192.0.2.5 nolearning", "link set vx master br0", "link set br0 mtu 1400",
	"link add link eth0 name mv type macvlan mode bridge", "link set mv up", "address add 10.2.0.1/24 dev mv",
	"tuntap add tap7 mode tap user 4242",
	"route add default via 10.1.0.254 metric 50",
	"route add 10.9.0.0/16 proto static metric 9 nexthop via 10.1.0.2 weight 3 nexthop via 192.0.2.1",
	"route add fd09::/64 via fd01::9",
	"route add blackhole 10.0.0.0/8",
	"route add 10.3.0.0/16 via 10.2.0.9 table 1001 dev mv",
	"rule add from 10.1.0.0/24 lookup 1001 priority 100",
	"-6 rule add iif br0 lookup 1001 priority 101",
	"neigh add 10.1.0.7 lladdr 02:00:00:00:00:07 dev br0 nud permanent",
	"address add 10.1.8.1 peer 10.1.8.2/32 dev br0", "address add 10.1.7.1/24 metric 70 dev br0", "address add fd07::1/64 noprefixroute dev br0",
	// what is not to be adopted
	"address add fd06::1/64 preferred_lft 0 dev br0",
	"route add 10.22.0.0/16 tos 0x10 via 10.1.0.2", "route add 10.23.0.0/16 via 10.1.0.2 mtu lock 1300",
	"route add 10.24.0.0/16 via 10.1.0.2 realm 7", "route add fd24::/64 via fd01::9 pref high", "route add fd25::/64 via fd01::9 expires 3600",
	"route add 10.20.0.0/16 via 10.1.0.2 proto bird", "route add 10.21.0.0/16 via 10.1.0.2 proto dhcp",
	"link add docker0 type bridge", "link add veth1a2b3c type veth peer name cont", "link set veth1a2b3c master docker0",
	"link add alien type ifb", "link set alien alias plumb:other:interface/alien",
}

func playScripts(t *testing.T, h *host.Host) {
	t.Helper()
	blue := h.Mount("blue")
	for _, line := range scripted {
		h.Own.IP(t, line)
	}
	for _, line := range []string{"web0 root handle 1: tbf rate 100mbit burst 64k latency 20ms", "br0 root handle 1: htb", "docker0 root handle 1: htb"} {
		h.Own.Run(t, strings.Fields("tc qdisc add dev "+line)...)
	}
	h.Own.IP(t, "link set web1 netns "+filepath.Join(h.NetnsDir(), "blue"))
	blue.IP(t, "link set lo up")
	blue.IP(t, "link set web1 up")
	blue.IP(t, "address add 10.1.0.2/24 dev web1")
	blue.IP(t, "route add default via 10.1.0.1")
	theirs := h.Mount("theirs")
	theirs.IP(t, "link set lo alias plumb:other:netns/theirs")
	theirs.IP(t, "link add br0 type bridge")
	gone := netlinktest.New(t)
	h.Own.IP(t, "link set cont netns "+gone.Path)
}

// TestAdoptMany: a host with more than one transaction of an etcd takes is taken over in
// several, as the error says that it can be.
func TestAdoptMany(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{NoEngine: true, Etcd: etcdtest.Start(t).URL()})
	h.Own.IP(t, "link add br0 type bridge")
	h.Own.IP(t, "link set br0 up")
	h.Own.IP(t, "address add 10.1.0.1/24 dev br0")
	for i := range 150 {
		h.Own.IP(t, fmt.Sprintf("route add 10.9.%d.0/24 via 10.1.0.2", i))
	}
	before := h.Exact()
	h.Start()
	h.AwaitSettled()
	if r := h.Ctl("adopt", "--write", "--wait"); r.Code != 2 || !strings.Contains(r.Err, "in several transactions with --chunked") {
		t.Errorf("all at once: exit code %d, %s", r.Code, r.Err)
	}
	if r := h.Ctl("adopt", "--write", "--chunked", "--wait"); r.Code != 0 {
		t.Fatalf("in several: %s%s", r.Out, r.Err)
	}
	if n := h.KernelWrites(); n != 0 {
		t.Errorf("%d writes to the kernel", n)
	}
	if diff := host.Diff(before, h.Exact()); diff != "" {
		t.Errorf("the host is not as before:\n%s", diff)
	}
	if r := h.Ctl("adopt"); r.Out != "intent: {}\n" {
		t.Errorf("there is more to adopt: %s", r.Out)
	}
	h.Stop()
	r := h.Cleanup()
	if !regexp.MustCompile(`(?s)gave back route/.*\n0 objects removed, 151 given back, nothing is left\n$`).MatchString(r.Out) || strings.Contains(r.Out, "removed route/") {
		t.Errorf("cleanup says: %s", r.Out)
	}
	if diff := host.Diff(before, h.Exact()); diff != "" {
		t.Errorf("after a cleanup: the host is not as before:\n%s", diff)
	}
}

// TestAdopt: what scripts have made is printed as intent, taken over without a write and
// without a trace in the kernel, repaired from then on, and given back.
func TestAdopt(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{NoEngine: true, Etcd: etcdtest.Start(t).URL()})
	playScripts(t, h)
	before := h.Exact()
	h.Start()
	h.AwaitSettled()

	printed := h.Ctl("adopt")
	golden(t, "adopt", printed.Out)
	golden(t, "adopt-left-out", printed.Err)
	file := filepath.Join(t.TempDir(), "host.yaml")
	if err := os.WriteFile(file, []byte(printed.Out), 0o600); err != nil {
		t.Fatal(err)
	}
	h.MustCtl("validate", "-f", file)
	keys := strings.Fields(h.MustCtl("adopt", "-o", "name"))
	if r := h.Ctl("adopt", "route", "-o", "name"); !strings.Contains(r.Out, "interface/br0\n") || strings.Contains(r.Out, "interface/tap7\n") {
		t.Errorf("with routes come the interfaces that they name, and no others: %s%s", r.Out, r.Err)
	}
	for args, want := range map[string]bool{"route": false, "route --all-namespaces": true, "route/blue-default": true} {
		out := h.MustCtl(append([]string{"adopt", "-o", "name"}, strings.Fields(args)...)...)
		if has := strings.Contains(out, "route/blue-default\n"); has != want {
			t.Errorf("adopt %s prints the route of another namespace: %v", args, has)
		}
	}

	h.Stop()
	h.Args = []string{"--policy", "interface/eth0 existing=none"}
	h.Start()
	if r := h.Ctl("adopt", "-o", "name"); strings.Contains(r.Out, "eth0") || strings.Contains(r.Out, "interface/mv") || !strings.Contains(r.Err, "existing=none") {
		t.Errorf("what the policy refuses is proposed: %s%s", r.Out, r.Err)
	}
	h.Stop()
	h.Args = nil
	h.Start()

	if r := h.Ctl("adopt", "--write", "--wait"); r.Code != 0 {
		t.Fatalf("adopt --write: %s%s\n%s", r.Out, r.Err, h.MustCtl("get", "-o", "wide"))
	}
	h.AwaitConfigured(keys...)
	unchanged := func(when string, was string) {
		t.Helper()
		if n := h.KernelWrites(); n != 0 {
			t.Errorf("%s: %d writes to the kernel", when, n)
		}
		if diff := host.Diff(was, h.Exact()); diff != "" {
			t.Errorf("%s: the host is not as before:\n%s", when, diff)
		}
	}
	unchanged("taken over", before)
	if r := h.Ctl("diff"); r.Code != 0 || r.Out != "" {
		t.Errorf("diff: %s%s", r.Out, r.Err)
	}
	if r := h.Ctl("adopt"); r.Out != "intent: {}\n" {
		t.Errorf("there is more to adopt: %s", r.Out)
	}
	h.Stop()
	h.Start()
	h.AwaitConfigured(keys...)
	h.AwaitSettled()
	unchanged("after a restart", before)
	h.MustCtl("resync")
	h.MustCtl("resync")
	if got := h.States("address/eth0/192.0.2.99/24"); got != "address/eth0/192.0.2.99/24 observed\n" {
		t.Errorf("an address of others: %s", got)
	}

	// It is repaired like what Plumb made.
	for _, c := range []struct{ break_, back, key string }{
		{"address del 10.1.0.1/24 dev br0", "10.1.0.1/24", "address show dev br0"},
		{"link set br0 mtu 1300", "mtu 1400", "link show br0"},
		{"link set vx nomaster", "master br0", "link show vx"},
		{"route del default via 10.1.0.254", "via 10.1.0.254", "route show default"},
		{"rule del priority 100", "from 10.1.0.0/24", "rule show priority 100"},
		{"link del mv", "mv@eth0", "link show mv"},
	} {
		h.Own.IP(t, c.break_)
		h.Eventually(c.break_+" is repaired", func() error {
			if out := h.Own.Run(t, "sh", "-c", "ip "+c.key+" || true"); !strings.Contains(out, c.back) {
				return fmt.Errorf("ip %s: %s", c.key, out)
			}
			return nil
		})
	}
	h.AwaitConfigured(keys...)

	// What was found stays, what was made anew goes.
	h.MustCtl(append([]string{"delete"}, keys...)...)
	h.MustCtl("release", "held-1") // it is all that there is
	h.MustCtl(append([]string{"wait", "--for", "gone", "--timeout", "30s"}, keys...)...)
	for _, c := range []struct {
		show, want string
		there      bool
	}{
		{"link show br0", "mtu 1400", true}, {"link show web0", "master br0", true}, {"address show dev br0", "fd01::1/64", true},
		{"route show 10.9.0.0/16", "10.1.0.2", true}, {"link", "mv@", false}, {"address show dev br0", "10.1.0.1/24", false},
		{"route show 10.20.0.0/16", "bird", true}, {"address show dev eth0", "192.0.2.99/24", true},
	} {
		if out := h.Own.IP(t, c.show); strings.Contains(out, c.want) != c.there {
			t.Errorf("given back: ip %s: %s", c.show, out)
		}
	}
	if marks := h.Marked(); len(marks) > 0 {
		t.Errorf("marks are left: %v", marks)
	}
}

// TestHistoryTellsGivenBackFromDeleted: what was taken over stays when a store without its keys is
// accepted, and the record says so. What was made anew is deleted.
func TestHistoryTellsGivenBackFromDeleted(t *testing.T) {
	t.Parallel()
	store := etcdtest.Start(t)
	h := host.New(t, host.Options{NoEngine: true, Etcd: store.URL()})
	for _, line := range []string{
		"link add br0 type bridge", "link set br0 address 02:00:00:00:00:b0 up", "address add 10.1.0.1/24 dev br0",
		"route add 10.8.0.0/16 via 10.1.0.2", "route add 10.9.0.0/16 via 10.1.0.2", "rule add from 10.1.0.0/24 lookup 1001 priority 100",
		"neigh add 10.1.0.7 lladdr 02:00:00:00:00:07 dev br0 nud permanent",
	} {
		h.Own.IP(t, line)
	}
	h.Own.Run(t, "tc", "qdisc", "add", "dev", "br0", "root", "tbf", "rate", "100mbit", "burst", "64k", "latency", "20ms")
	h.Start()
	h.AwaitSettled()
	h.MustCtl("adopt", "--write", "--wait")
	h.Own.IP(t, "route del 10.8.0.0/16")
	h.Eventually("the route is made anew", func() error {
		if out := h.Own.IP(t, "route show 10.8.0.0/16"); out == "" {
			return errors.New("it is not there")
		}
		return nil
	})
	h.AwaitSettled()
	store.Wipe()
	h.Eventually("the store is not the known one", func() error {
		if out := h.Ctl("status").Out; !strings.Contains(out, "resync --accept") {
			return errors.New(out)
		}
		return nil
	})
	h.MustCtl("resync", "--accept")
	seq := regexp.MustCompile(`(?m)^(\d+) .* 1 delete, 6 give back `).FindStringSubmatch(h.MustCtl("history"))
	if seq == nil {
		t.Fatalf("history says: %s", h.MustCtl("history"))
	}
	steps := h.MustCtl("history", seq[1])
	for key, op := range map[string]string{
		"interface/br0": "give back", "address/br0/10.1.0.1/24": "give back", "route/10.9.0.0_16": "give back", "rule/100": "give back",
		"neighbor/br0-10.1.0.7": "give back", "qdisc/br0": "give back", "route/10.8.0.0_16": "delete",
	} {
		if !regexp.MustCompile(`(?m)^` + op + ` +` + regexp.QuoteMeta(key) + ` `).MatchString(steps) {
			t.Errorf("no %s of %s in: %s", op, key, steps)
		}
	}
	for show, want := range map[string]string{
		"address show dev br0": "10.1.0.1/24", "route show 10.9.0.0/16": "10.1.0.2", "route show 10.8.0.0/16": "", "rule show priority 100": "10.1.0.0/24",
		"neigh show dev br0": "02:00:00:00:00:07", "link show br0": "tbf",
	} {
		if out := h.Own.IP(t, show); !strings.Contains(out, want) || want == "" && out != "" {
			t.Errorf("ip %s: %s", show, out)
		}
	}
}

// TestAdoptInShadow: a shadow sees that what adopt prints is what is there, and notices when
// it is not any more.
func TestAdoptInShadow(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{NoEngine: true, Etcd: etcdtest.Start(t).URL(), Args: []string{"--shadow"}})
	playScripts(t, h)
	before := h.Exact()
	h.Start()
	h.MustCtl("adopt", "--write")
	h.Eventually("the intent has arrived", func() error { // and is read below: else nothing would be taken over
		if names := h.MustCtl("get", "rule", "-o", "name"); !strings.Contains(names, "rule/101\n") {
			return fmt.Errorf("there is only %q", names)
		}
		return nil
	})
	h.Within(20*time.Second, "nothing differs", func() error {
		h.MustCtl("resync")
		if r := h.Ctl("drift"); r.Code != 0 || r.Out != "" {
			return fmt.Errorf("%s%s", r.Out, r.Err)
		}
		if got := h.MustCtl("get", "interface", "route", "rule", "neighbor", "-o", "template={{range .}}{{if not .actual}}{{.key}} {{end}}{{end}}"); got != "" {
			return fmt.Errorf("not seen: %s", got)
		}
		return nil
	})
	if n := h.KernelWrites(); n != 0 {
		t.Errorf("a shadow wrote %d times to the kernel", n)
	}
	if diff := host.Diff(before, h.Exact()); diff != "" {
		t.Errorf("the host is not as before:\n%s", diff)
	}
	h.Own.IP(t, "link set br0 mtu 1280")
	if r := h.Ctl("drift", "-o", "name"); r.Code != 1 || r.Out != "interface/br0\n" {
		t.Errorf("drift: %s%s", r.Out, r.Err)
	}
}
