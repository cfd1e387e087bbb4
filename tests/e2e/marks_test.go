package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

var (
	markRounds = flag.Int("marks", 3, "how many rounds TestChangedMarks plays")
	markSeed   = flag.Uint64("mark-seed", uint64(time.Now().UnixNano()), "seed of what TestChangedMarks changes")
)

// markedLink is a link with a mark of the agent.
type markedLink struct {
	ns          *netlinktest.Namespace
	place, name string
	alias       string
}

// markedLinks returns the links with a mark, sorted by place and name.
func markedLinks(t *testing.T, h *host.Host) (all []markedLink) {
	t.Helper()
	places := h.Places()
	for place, ns := range places {
		for _, l := range host.Show(t, ns, "link") {
			alias, _ := l["ifalias"].(string)
			if strings.HasPrefix(alias, "plumb:"+h.Label+":interface/") {
				all = append(all, markedLink{ns, place, fmt.Sprint(l["ifname"]), alias})
			}
		}
	}
	slices.SortFunc(all, func(a, b markedLink) int { return strings.Compare(a.place+"/"+a.name, b.place+"/"+b.name) })
	return all
}

// harm changes the mark of a link as another process may, and returns a description.
func (l markedLink) harm(t *testing.T, r *rand.Rand, others []markedLink) string {
	t.Helper()
	how := []string{"alias", []string{"blue pods", "", "plumb:elsewhere:interface/x", others[r.IntN(len(others))].alias}[r.IntN(4)]}
	if r.IntN(3) == 0 {
		how = []string{"group", "7"}
	} else if r.IntN(3) == 0 {
		how = append(how, "group", "0")
	}
	l.ns.Run(t, append([]string{"ip", "link", "set", "dev", l.name}, how...)...)
	return fmt.Sprintf("%s in %s: %s", l.name, l.place, strings.Join(how, " "))
}

// aroundRestart does something while the agent is killed, while it runs, or while it starts, depending on
// the round.
func aroundRestart(h *host.Host, round int, do func()) {
	switch round % 3 {
	case 0:
		h.Kill9()
		do()
		h.Start()
	case 1:
		do()
	case 2:
		h.Stop()
		h.Launch()
		do()
		h.AwaitReady()
	}
}

// TestChangedMarks changes, removes and copies the marks of links of containers and operators,
// of several types, before, during and after restarts of the agent. Containers lose no packet, no
// link is created again, the marks are restored, and a link with a copied mark stays unchanged.
func TestChangedMarks(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true, NoEngine: true, Fast: true}) // pings are frequent
	namespaces := map[string]*netlinktest.Namespace{}
	for _, c := range []string{"c1", "c2", "site", "made"} {
		namespaces[c] = h.Mount(c)
	}
	h.Start()
	add(t, h, "c1", blue)
	second := add(t, h, "c2", blue)
	h.MustCtl("apply", "-f", operatorsFile(t))
	h.Put("interface/lan", `{"bridge":{},"addresses":["10.72.0.1/24"]}`)
	h.Put("interface/vx", `{"vxlan":{"vni":9,"local":"192.0.2.1","remote":"192.0.2.2"},"master":"lan"}`)
	h.Put("interface/in", `{"namespace":{"netns":"made"},"macvlan":{"parent":"lan"},"addresses":["10.72.0.2/24"]}`)
	h.Put("interface/tap", `{"tap":{},"master":"lan"}`)
	h.AwaitConfigured("interface/lan", "interface/vx", "interface/in", "interface/tap")
	h.AwaitSettled()
	marks := markedLinks(t, h)
	if len(marks) < 11 {
		t.Fatalf("only %d links have a mark", len(marks))
	}
	t.Logf("seed %d", *markSeed)
	r := rand.New(rand.NewPCG(*markSeed, 49))
	h.Own.IP(t, "link add copy type bridge")
	h.Own.Run(t, "ip", "link", "set", "dev", "copy", "alias", marks[r.IntN(len(marks))].alias)
	t.Cleanup(func() { h.Own.IP(t, "link del dev copy") }) // the agent does not delete it
	before := h.Exact()
	pings := []func(){
		host.PingEvery(t, "0.01", namespaces["c1"].Path, strings.TrimSuffix(second.IPs[0].Address, "/24")),
		host.PingEvery(t, "0.01", namespaces["c2"].Path, second.IPs[0].Gateway),
	}
	for round := range *markRounds {
		var did []string
		harm := func() {
			for _, l := range marks {
				if r.IntN(2) == 0 {
					did = append(did, l.harm(t, r, marks))
				}
			}
		}
		aroundRestart(h, round, harm)
		h.Eventually("the marks are restored", func() error {
			if diff := host.Diff(before, h.Exact()); diff != "" {
				return fmt.Errorf("after %q:\n%s", did, diff)
			}
			return nil
		})
		if n := h.KernelWrites(); round%3 == 0 && n > 2*len(did) {
			t.Errorf("%d kernel writes for %d marks:\n%s", n, len(did), h.Done())
		}
	}
	for _, unharmed := range pings {
		unharmed()
	}
	if out := h.MustCtl("status", "-o", "json"); !strings.Contains(out, "copied_marks") {
		t.Errorf("status does not name the copy:\n%s", out)
	}
	if out := h.MustCtl("cni"); strings.Count(out, " added ") != 2 {
		t.Errorf("attachments:\n%s", out)
	}
}

// numbered is an object whose mark is the number of a protocol, or a handle.
type numbered struct {
	place string
	show  []string // the command that prints the object
	set   string   // the command that replaces the mark by MARK
	mark  string   // of the agent
	other string
}

func (o numbered) replace(t *testing.T, ns *netlinktest.Namespace, mark string) {
	t.Helper()
	ns.Run(t, strings.Fields(strings.ReplaceAll(o.set, "MARK", mark))...)
}

// TestChangedNumbers changes the protocol of routes, nexthops and neighbors, and the handle of a
// queueing discipline, as another process may: before, during and after restarts of the agent. It also
// puts an equal rule with another protocol in place of a rule. No object is removed, containers lose no
// packet, and when the marks are back all keys are configured as before.
func TestChangedNumbers(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true, NoEngine: true, Fast: true}) // pings are frequent
	namespaces := map[string]*netlinktest.Namespace{"own": h.Own, "c1": h.Mount("c1"), "c2": h.Mount("c2")}
	h.Start()
	add(t, h, "c1", blue)
	second := add(t, h, "c2", blue)
	gateway := second.IPs[0].Gateway
	h.Put("interface/lan", `{"bridge":{},"addresses":["10.72.0.1/24"]}`)
	h.Put("route/far", `{"destination":"10.73.0.0/16","gateway":"10.72.0.9","interface":"lan"}`)
	h.Put("rule/far", `{"priority":1000,"from":"10.74.0.0/16","table":100}`)
	h.Put("nexthop/near", `{"id":7,"interface":"lan","gateway":"10.72.0.9"}`)
	h.Put("neighbor/near", `{"interface":"lan","address":"10.72.0.9","mac_address":"02:00:00:00:00:09"}`)
	h.Put("qdisc/lan", `{"interface":"lan","tbf":{"rate":1000,"burst":64,"latency":50}}`)
	keys := []string{"interface/lan", "route/far", "rule/far", "nexthop/near", "neighbor/near", "qdisc/lan"}
	h.AwaitConfigured(keys...)
	h.AwaitSettled()
	protocol := fmt.Sprint(kernel.Protocol(h.Label))
	objects := []numbered{
		{"own", []string{"ip", "route", "show", "10.73.0.0/16"}, "ip route change 10.73.0.0/16 via 10.72.0.9 dev lan proto MARK", protocol, "static"},
		{"own", []string{"ip", "nexthop", "show", "id", "7"}, "ip nexthop replace id 7 via 10.72.0.9 dev lan proto MARK", protocol, "static"},
		{"own", []string{"ip", "neigh", "show", "10.72.0.9"}, "ip neigh replace 10.72.0.9 lladdr 02:00:00:00:00:09 dev lan proto MARK", protocol, "static"},
		{"own", []string{"tc", "qdisc", "show", "dev", "lan", "root"}, "tc qdisc replace dev lan root handle MARK tbf rate 1mbit burst 64b latency 50ms",
			fmt.Sprintf("%x:", kernel.Handle(h.Label)), "9:"},
		{"c1", []string{"ip", "route", "show", "default"}, "ip route change default via " + gateway + " dev eth0 proto MARK", protocol, "static"},
		{"c2", []string{"ip", "route", "show", "default"}, "ip route change default via " + gateway + " dev eth0 proto MARK", protocol, "static"},
	}
	t.Logf("seed %d", *markSeed)
	r := rand.New(rand.NewPCG(*markSeed, 50))
	before := h.Exact()
	pings := []func(){
		host.PingEvery(t, "0.01", namespaces["c1"].Path, strings.TrimSuffix(second.IPs[0].Address, "/24")),
		host.PingEvery(t, "0.01", namespaces["c2"].Path, gateway),
	}
	for round := range *markRounds {
		var harmed []numbered
		rule := "priority 1000 from 10.74.0.0/16 table 100 protocol "
		harm := func() {
			for _, o := range objects {
				if r.IntN(3) > 0 {
					harmed = append(harmed, o)
					o.replace(t, namespaces[o.place], o.other)
				}
			}
			h.Own.IP(t, "rule add "+rule+"static")
			h.Own.IP(t, "rule del "+rule+protocol)
		}
		aroundRestart(h, round, harm)
		h.AwaitSettled()
		for _, o := range harmed {
			if out := namespaces[o.place].Run(t, o.show...); strings.Count(out, "\n") != 1 {
				t.Errorf("round %d: %q prints %q", round, o.show, out)
			}
			o.replace(t, namespaces[o.place], o.mark)
		}
		h.Own.IP(t, "rule del "+rule+"static")
		h.AwaitConfigured(keys...)
		h.Eventually("all is as before", func() error {
			if diff := host.Diff(before, h.Exact()); diff != "" {
				return fmt.Errorf("round %d, after changes of %v:\n%s", round, harmed, diff)
			}
			return nil
		})
	}
	for _, unharmed := range pings {
		unharmed()
	}
	if gone := h.Removed(); gone != "" {
		t.Errorf("the agent removed:\n%s", gone)
	}
	if out := h.MustCtl("cni"); strings.Count(out, " added ") != 2 {
		t.Errorf("attachments:\n%s", out)
	}
}
