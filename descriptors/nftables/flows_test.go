package nftables_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kernel/kerneltest"
	"github.com/plumb-net/plumb/plugins/netlink/hosttest"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

var (
	flowSteps = flag.Int("flow-steps", 30, "how many changes TestClientsFollowPorts makes")
	flowSeed  = flag.Uint64("flow-seed", 0, "its seed; 0: by chance")
)

// TestFlows shows which tracked connections a table deletes when it is written and when it goes.
func TestFlows(t *testing.T) {
	datadriven.RunTest(t, "testdata/flows/rules", func(t *testing.T, d *datadriven.TestData) string {
		h := hosttest.Memory()
		k := h.Kernel.(*kerneltest.Kernel)
		h.Do(t, h.Own(), "ip link set lo up")
		h.Do(t, h.Own(), "ip addr add 192.0.2.1/24 dev lo")
		b := newBenchOn(t, h)
		table := func(rules []string) string {
			chains := map[string][]string{}
			for _, line := range rules {
				hook, rule, _ := strings.Cut(strings.TrimSpace(line), ": ")
				chains[hook] = append(chains[hook], fmt.Sprintf("%q", rule))
			}
			var list []string
			for hook, rules := range chains {
				list = append(list, fmt.Sprintf(`{"name":%q,"type":"nat","hook":%q,"rules":[%s]}`, hook, hook, strings.Join(rules, ",")))
			}
			slices.Sort(list)
			return fmt.Sprintf(`{"chains":[%s]}`, strings.Join(list, ","))
		}
		var was, is, flows []string
		for line := range strings.Lines(d.Input) {
			switch line = strings.TrimSpace(line); {
			case strings.HasPrefix(line, "- "):
				was = append(was, line[2:])
			case strings.HasPrefix(line, "+ "):
				is = append(is, line[2:])
			default:
				flows = append(flows, line)
			}
		}
		if len(was) > 0 {
			b.must("x", table(was))
		}
		for _, text := range flows {
			if err := k.Track(h.Own(), flowOf(t, text)); err != nil {
				t.Fatal(err)
			}
		}
		if len(is) > 0 {
			b.must("x", table(is))
		} else {
			b.delete("x")
		}
		left := k.Tracked(h.Own())
		var out strings.Builder
		for _, text := range flows {
			word := "deleted"
			if slices.Contains(left, flowOf(t, text)) {
				word = "kept   "
			}
			fmt.Fprintf(&out, "%s %s\n", word, text)
		}
		return out.String()
	})
}

// flowOf reads "udp FROM > TO [as FROM > TO]", where the second part is how it is translated.
func flowOf(t *testing.T, text string) kernel.Flow {
	t.Helper()
	protocol, rest, _ := strings.Cut(text, " ")
	before, after, translated := strings.Cut(rest, " as ")
	f := kernel.Flow{Protocol: map[string]uint8{"udp": unix.IPPROTO_UDP, "tcp": unix.IPPROTO_TCP, "icmp": unix.IPPROTO_ICMP}[protocol]}
	tuple := func(text string) (tu kernel.Tuple) {
		from, to, _ := strings.Cut(text, " > ")
		var errs [2]error
		tu.Source, errs[0] = netip.ParseAddrPort(from)
		tu.Destination, errs[1] = netip.ParseAddrPort(to)
		if err := errors.Join(errs[:]...); err != nil || f.Protocol == 0 {
			t.Fatalf("%s: %v", text, err)
		}
		return tu
	}
	f.Original = tuple(before)
	if translated {
		before = after
	}
	out := tuple(before)
	f.Reply = kernel.Tuple{Source: out.Destination, Destination: out.Source}
	return f
}

// party is clients and servers in a namespace, all of UDP, with one address of a family.
type party struct {
	t       *testing.T
	at      netip.Addr
	servers map[uint16]net.PacketConn // answer with their port
	clients map[uint16][]net.PacketConn

	mu     sync.Mutex
	failed []error // what servers could not read or answer
}

// published are the ports of the host that tables lead elsewhere, at which its own servers listen.
// bystander is a port that no table names.
var (
	published = []uint16{5001, 5002, 5003}
	bystander = uint16(6001)
	targets   = []uint16{7001, 7002, 7003}
)

func newParty(t *testing.T, path string, at netip.Addr) *party {
	p := &party{t: t, at: at, servers: map[uint16]net.PacketConn{}, clients: map[uint16][]net.PacketConn{}}
	listen := func(port uint16) (net.PacketConn, error) {
		c, err := net.ListenPacket("udp", netip.AddrPortFrom(at, port).String())
		if err == nil {
			t.Cleanup(func() { c.Close() })
		}
		return c, err
	}
	if err := netlinktest.Inside(path, func() (err error) {
		for _, port := range slices.Concat(published, targets, []uint16{bystander}) {
			if p.servers[port], err = listen(port); err != nil {
				return err
			}
		}
		for _, port := range append([]uint16{bystander}, published...) {
			for range 2 {
				c, err := listen(0)
				if err != nil {
					return err
				}
				p.clients[port] = append(p.clients[port], c)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for port, c := range p.servers {
		go func() {
			buf := make([]byte, 100)
			for {
				_, from, err := c.ReadFrom(buf)
				if err == nil {
					_, err = c.WriteTo(fmt.Append(nil, port), from)
				}
				if errors.Is(err, net.ErrClosed) {
					return
				}
				if err != nil {
					p.note(port, err)
				}
			}
		}()
	}
	return p
}

// ask has a client ask a port, and returns which server answers.
func (p *party) ask(c net.PacketConn, port uint16) string {
	p.t.Helper()
	to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(p.at, port))
	if _, err := c.WriteTo([]byte("who"), to); err != nil {
		p.t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	buf := make([]byte, 100)
	n, _, err := c.ReadFrom(buf)
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		return fmt.Sprintf("%v, and the servers report %v", err, p.failed)
	}
	return string(buf[:n])
}

// note keeps why a server could not read or answer.
func (p *party) note(port uint16, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = append(p.failed, fmt.Errorf("port %d: %w", port, err))
}

// TestClientsFollowPorts changes at random where ports of the host lead, while clients of UDP go on
// sending from the same sockets: each is answered by the server that the rules of the moment name,
// also after somebody else has removed the table. The connections of all other ports stay tracked.
func TestClientsFollowPorts(t *testing.T) {
	b := newBench(t)
	b.net.IP(t, "link set lo up")
	b.net.IPv6(t)
	b.net.IP(t, "addr add fd00::1/128 dev lo nodad")
	// The kernel makes the local route of an IPv6 address after the command has returned, and drops
	// what is sent to the address until then.
	netlinktest.Eventually(t, "fd00::1 is local", func() bool {
		return strings.Contains(b.net.IP(t, "-6 route show table local"), "local fd00::1 ")
	})
	seed := *flowSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("go test ./descriptors/nftables -run TestClientsFollowPorts -flow-steps %d -flow-seed %d", *flowSteps, seed)
	r := rand.New(rand.NewPCG(seed, 0))
	four, six := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("fd00::1")
	parties := []*party{newParty(t, b.net.Path, four), newParty(t, b.net.Path, six)}
	leads := map[uint16]uint16{}
	ask := func(step int, what string) {
		t.Helper()
		for _, p := range parties {
			for port, clients := range p.clients {
				want := leads[port]
				if want == 0 {
					want = port
				}
				for _, c := range clients {
					if got := p.ask(c, port); got != fmt.Sprint(want) {
						t.Fatalf("step %d, %s: port %d of %s is answered by %s, want %d", step, what, port, p.at, got, want)
					}
				}
			}
		}
	}
	tracked := func() (flows []kernel.Flow) {
		if _, err := b.DeleteFlows(b.Own(), func(f kernel.Flow) bool { flows = append(flows, f); return false }); err != nil {
			t.Fatal(err)
		}
		return flows
	}
	ask(0, "no table")
	for step := range *flowSteps {
		var was = map[uint16]uint16{}
		for port, to := range leads {
			was[port] = to
		}
		stranger := r.IntN(4) == 0 && len(leads) > 0
		if stranger {
			b.net.Run(t, "nft", "delete table inet plumb-x")
			if _, err := b.DeleteFlows(b.Own(), func(kernel.Flow) bool { return true }); err != nil {
				t.Fatal(err)
			}
			clear(leads)
			ask(step, "somebody else has removed the table")
			leads, was = was, map[uint16]uint16{}
		} else {
			port := published[r.IntN(len(published))]
			if leads[port] = targets[r.IntN(len(targets))]; r.IntN(3) == 0 {
				delete(leads, port)
			}
		}
		before := tracked()
		if len(leads) == 0 {
			b.delete("x")
		} else {
			b.must("x", leading(leads, four, six))
		}
		now := tracked()
		for _, f := range before {
			if port := f.Original.Destination.Port(); was[port] == leads[port] && !slices.Contains(now, f) {
				t.Errorf("step %d: a connection of port %d was deleted, which leads where it led: %v", step, port, f)
			}
		}
		ask(step, fmt.Sprintf("ports lead to %v", leads))
	}
}

// TestClientsFollowRules changes rules with sets, intervals, maps and jumps at random, while clients of
// UDP go on sending from the same sockets. The kernel is the oracle: each client is answered as a new
// client is. The connections that a new client would have too stay tracked.
func TestClientsFollowRules(t *testing.T) {
	b := newBench(t)
	b.net.IP(t, "link set lo up")
	seed := *flowSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("go test ./descriptors/nftables -run TestClientsFollowRules -flow-steps %d -flow-seed %d", *flowSteps, seed)
	r := rand.New(rand.NewPCG(seed, 0))
	p := newParty(t, b.net.Path, netip.MustParseAddr("127.0.0.1"))
	fresh := func() map[uint16]string {
		answers := map[uint16]string{}
		for _, port := range published {
			if err := netlinktest.Inside(b.net.Path, func() error {
				c, err := net.ListenPacket("udp", "127.0.0.1:0")
				if err == nil {
					answers[port] = p.ask(c, port)
					err = c.Close()
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		return answers
	}
	tracked := func() (flows []kernel.Flow) {
		if _, err := b.DeleteFlows(b.Own(), func(f kernel.Flow) bool { flows = append(flows, f); return false }); err != nil {
			t.Fatal(err)
		}
		return flows
	}
	table := rulesTable(r)
	b.must("x", table) // translates, so the kernel tracks from now on
	old := fresh()
	for step := range *flowSteps {
		for port, clients := range p.clients {
			for _, c := range clients {
				p.ask(c, port)
			}
		}
		rules, sets := cut(rulesTable(r))
		if r.IntN(2) == 0 {
			rules, _ = cut(table) // only elements change
		}
		if table = rules + sets; step < len(returns) {
			table = jumping(returns[step], targets[step%2+1])
		}
		before := tracked()
		b.must("x", table)
		now := tracked()
		answers := fresh()
		for _, f := range before {
			if port := f.Original.Destination.Port(); old[port] == answers[port] && !slices.Contains(now, f) {
				t.Errorf("step %d: a connection of port %d was deleted, which leads where it led: %v\n%s", step, port, f, table)
			}
		}
		for port, clients := range p.clients {
			for _, c := range clients {
				if got, want := p.ask(c, port), answers[port]; want != "" && got != want {
					t.Errorf("step %d: port %d is answered by %s, a new client by %s\n%s", step, port, got, want, table)
				}
			}
		}
		if t.Failed() {
			return
		}
		old = answers
	}
}

// returns are rules of a chain before the rule that translates. The packet returns to the caller,
// which translates as well: random rules seldom do that.
var returns = []string{`"udp dport 5001 return",`, `"udp dport 5001 return",`, "", `"udp dport 5001 counter goto end",`,
	`"udp dport 5001 counter goto end",`, "", `"udp dport vmap { 5001 : return }",`, `"udp dport vmap { 5001 : return }",`}

// jumping is a table of a chain that another jumps to. The first rules of the one and the target of
// the other are given.
func jumping(first string, target uint16) string {
	return fmt.Sprintf(`{"family":"inet","table":"plumb-x","chains":[{"name":"end","rules":["counter return"]},`+
		`{"name":"sub","rules":[%s"udp dport 5001 dnat ip to 127.0.0.1:%d"]},`+
		`{"name":"own","type":"nat","hook":"output","priority":"-100","rules":["udp dport 5001 jump sub","udp dport 5001 dnat ip to 127.0.0.1:%d"]}],"sets":[]}`,
		first, targets[0], target)
}

// cut returns the rules and the sets of a table.
func cut(table string) (rules, sets string) {
	at := strings.Index(table, `"sets":`)
	return table[:at], table[at:]
}

// rulesTable is a table of random rules, of which all conditions can be evaluated.
func rulesTable(r *rand.Rand) string {
	port := func() uint16 { return published[r.IntN(len(published))] }
	server := func() uint16 { return targets[r.IntN(len(targets))] }
	pairs := func(format string) string {
		var list []string
		for _, port := range published {
			if r.IntN(2) == 0 {
				list = append(list, fmt.Sprintf(format, port, server()))
			}
		}
		return strings.Join(append(list, fmt.Sprintf(format, 5999, server())), ", ")
	}
	quoted := func(list string) string { return `"` + strings.ReplaceAll(list, ", ", `","`) + `"` }
	ports := func() string {
		return fmt.Sprintf("{ %s }", strings.Join(slices.Compact(slices.Sorted(slices.Values([]string{fmt.Sprint(port()), fmt.Sprint(port())}))), ", "))
	}
	condition := func() string {
		switch r.IntN(9) {
		case 0:
			return fmt.Sprintf("udp dport %d", port())
		case 1:
			return "udp dport " + ports()
		case 2:
			return "udp dport 5002-5003"
		case 3:
			return "udp dport @some"
		case 4:
			return fmt.Sprintf("udp dport != %d udp dport 5000-5998", port())
		case 5:
			return "ip daddr . udp dport @pairs"
		case 6:
			return fmt.Sprintf("ip saddr 127.0.0.0/8 ip daddr != { 10.0.0.0/8, 192.0.2.1 } meta l4proto udp th dport %d", port())
		case 7:
			return "fib daddr type local udp dport != @some udp dport 5000-5100"
		}
		return fmt.Sprintf("ip saddr 10.0.0.0/8 udp dport %d", port())
	}
	verdicts := func() string { return []string{"return", "accept", "continue", "jump sub", "goto sub"}[r.IntN(5)] }
	rule := func(sub bool) string {
		switch n := r.IntN(9); {
		case n == 0:
			return "dnat ip addr . port to udp dport map { " + pairs("%d : 127.0.0.1 . %d") + " }"
		case n == 1:
			return "dnat ip addr . port to udp dport map @leads"
		case n == 2:
			return condition() + " redirect to :" + fmt.Sprint(server())
		case n == 3:
			return condition() + " counter " + []string{"return", "accept"}[r.IntN(2)]
		case n == 4 && !sub:
			return condition() + []string{" jump sub", " goto sub"}[r.IntN(2)]
		case n == 5 && !sub:
			return fmt.Sprintf("udp dport vmap { 5001 : %s, 5003 : %s }", verdicts(), verdicts())
		}
		return fmt.Sprintf("%s counter dnat ip to 127.0.0.1:%d", condition(), server())
	}
	rules := func(sub bool) string {
		var list []string
		for range 1 + r.IntN(3) {
			list = append(list, `"`+rule(sub)+`"`)
		}
		return strings.Join(list, ",")
	}
	return fmt.Sprintf(`{"family":"inet","table":"plumb-x","chains":[{"name":"sub","rules":[%s]},{"name":"own","type":"nat","hook":"output","priority":"-100","rules":[%s]}],`+
		`"sets":[{"name":"some","type":"inet_service","flags":["interval"],"elements":["%d","5900-5999"]},{"name":"pairs","type":"ipv4_addr . inet_service","elements":["127.0.0.1 . %d"]}],`+
		`"maps":[{"name":"leads","type":"inet_service","data":"ipv4_addr . inet_service","elements":[%s]}]}`,
		rules(true), rules(false), port(), port(), quoted(pairs("%d : 127.0.0.1 . %d")))
}

// leading is a table by which ports lead to others.
func leading(leads map[uint16]uint16, four, six netip.Addr) string {
	var rules []string
	for _, port := range published {
		if to := leads[port]; to != 0 {
			rules = append(rules, fmt.Sprintf(`"meta nfproto ipv4 fib daddr type local udp dport %d dnat ip to %s:%d"`, port, four, to),
				fmt.Sprintf(`"meta nfproto ipv6 ip6 daddr != ::1 fib daddr type local udp dport %d dnat ip6 to [%s]:%d"`, port, six, to))
		}
	}
	text := strings.Join(rules, ",")
	return fmt.Sprintf(`{"family":"inet","table":"plumb-x","chains":[{"name":"in","type":"nat","hook":"prerouting","priority":"dstnat","rules":[%s]},{"name":"own","type":"nat","hook":"output","priority":"-100","rules":[%s]}]}`, text, text)
}
