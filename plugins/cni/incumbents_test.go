package cni_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni"
	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/scheduler"
)

var collisions = flag.Int("collisions", 1000, "how many collisions are provoked")

// TestIncumbentsStay has random calls and operators want what others have: addresses,
// the gateway's, the bridge, the pool, names in the container, ports of the host. The
// oracle knows who was first: no attachment ever changes while nobody calls its DEL, and
// what is refused leaves nothing.
func TestIncumbentsStay(t *testing.T) {
	refused, by := 0, map[string]int{}
	seed := uint64(0)
	for ; refused < *collisions; seed++ {
		in(t, func(t *testing.T, n *node) {
			c := &campaign{node: n, t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 11)), have: map[cni.Key]attached{}, by: by}
			n.inodes, n.named = []string{"3", "4", "5", "6", "7"}, true
			n.restart()
			for range 40 {
				c.step()
				c.check()
			}
			refused += c.refused
			c.end()
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d refused in %d histories: %v", refused, seed, by)
	for _, reason := range []string{"address", "gateway", "name", "overlaps", "bridge", "port"} {
		if by[reason] == 0 {
			t.Errorf("nobody was ever refused for %s", reason)
		}
	}
}

type campaign struct {
	*node
	t       *testing.T
	seed    uint64
	r       *rand.Rand
	log     []string
	have    map[cni.Key]attached
	wanted  []scheduler.Change // of the operator, besides the namespaces
	refused int
	by      map[string]int
}

// attached is an attachment as its ADD was answered.
type attached struct {
	path, ips string
	ports     []string
}

func (c *campaign) pick(list ...string) string { return list[c.r.IntN(len(list))] }

func (c *campaign) fail(format string, args ...any) {
	c.t.Fatalf("seed %d: %s after\n%s\n%s", c.seed, fmt.Sprintf(format, args...), strings.Join(c.log, "\n"), c.show())
}

func (c *campaign) step() {
	switch c.r.IntN(10) {
	case 0:
		c.log = append(c.log, "restart")
		c.restart()
		c.operator(c.wanted...)
	case 1, 2:
		c.operate()
	case 3:
		if len(c.have) > 0 {
			keys := slices.SortedFunc(maps.Keys(c.have), func(a, b cni.Key) int { return strings.Compare(a.String(), b.String()) })
			k := keys[c.r.IntN(len(keys))]
			c.log = append(c.log, "DEL "+k.String())
			if a := c.callFor(c.t.Context(), "DEL", k.ContainerID, k.IfName, "", fmt.Sprintf(`{"cniVersion":"1.1.0","name":%q}`, k.Network)); a.Error != nil {
				c.fail("DEL: %v", a.Error)
			}
			delete(c.have, k)
		}
	default:
		c.add()
	}
	synctest.Wait()
}

// operate is an operator who wants, or wants no more, what attachments may have.
func (c *campaign) operate() {
	path := "/run/netns/" + c.pick("3", "4", "5")
	var change scheduler.Change
	switch c.r.IntN(4) {
	case 0:
		change = scheduler.Set("interface/0", &models.Interface{HostName: c.pick("eth0", "eth1"), Namespace: &models.Namespace{In: &models.Namespace_Path{Path: path}},
			Link: &models.Interface_Bridge{Bridge: &models.Bridge{}}})
	case 1:
		change = scheduler.Set("interface/1", &models.Interface{HostName: c.pick("br-one", "br-two"), Link: &models.Interface_Bridge{Bridge: &models.Bridge{}}})
	case 2:
		change = scheduler.Set("ipclaim/0", &models.IPClaim{Pool: "cni:" + c.pick("red", "blue"), Address: c.address()})
	default:
		change = scheduler.Withdraw(scheduler.Key(c.pick("interface/0", "interface/1", "ipclaim/0")))
	}
	c.log = append(c.log, fmt.Sprint("operator ", change.Key, " ", change.Value))
	c.wanted = append(slices.DeleteFunc(c.wanted, func(o scheduler.Change) bool { return o.Key == change.Key }), change)
	c.operator(change)
}

func (c *campaign) address() string { return fmt.Sprintf("10.62.%d.%d", c.r.IntN(2), 1+c.r.IntN(6)) }

func (c *campaign) add() {
	network := c.pick("red", "blue", "green")
	ips, ports := "", ""
	if c.r.IntN(2) == 0 {
		ips = fmt.Sprintf(`"ips":[%q],`, c.address())
	}
	port := c.pick("", "", "8080", "8081")
	if port != "" {
		ports = fmt.Sprintf(`"portMappings":[{"hostPort":%s,"containerPort":80,"protocol":"tcp"}],`, port)
	}
	config := fmt.Sprintf(`{"cniVersion":"1.1.0","name":%q,"pool":%q,"bridge":%q,"runtimeConfig":{%s}}`,
		network, c.pick("10.62.0.0/29", "10.62.1.0/29"), c.pick("br-one", "br-two"), strings.TrimSuffix(ips+ports, ","))
	k := cni.Key{Network: network, ContainerID: c.pick("c1", "c2", "c3", "c4"), IfName: c.pick("eth0", "eth1")}
	path := "/run/netns/" + c.pick("3", "4", "5", "6", "7")
	c.log = append(c.log, fmt.Sprintf("ADD %s %s %s", k, path, config))
	before := c.show()
	a := c.callFor(c.t.Context(), "ADD", k.ContainerID, k.IfName, path, config)
	synctest.Wait()
	if a.Error == nil {
		if _, again := c.have[k]; again {
			c.fail("attached twice")
		}
		c.have[k] = attached{path: path, ips: ipsOf(*a.Result), ports: []string{port}}
		return
	}
	c.refused++
	c.log = append(c.log, "  "+a.Error.Error())
	if a.Error.Code != spec.TryLater && a.Error.Code != spec.Exists && a.Error.Code != spec.BadConfig {
		c.fail("refused with %v", a.Error)
	}
	if after := c.show(); after != before {
		c.fail("what was refused left\n%s\nof\n%s", after, before)
	}
	for _, reason := range []string{"address", "gateway", "name", "overlaps", "bridge", "port"} {
		if strings.Contains(a.Error.Details+a.Error.Msg, reason) {
			c.by[reason]++
		}
	}
}

func ipsOf(r spec.Result) string {
	var list []string
	for _, ip := range r.IPs {
		list = append(list, ip.Address)
	}
	return strings.Join(list, " ")
}

// check: every attachment is as its ADD was answered, and nobody has what another has.
func (c *campaign) check() {
	addresses, names := map[string]cni.Key{}, map[string]cni.Key{}
	for k, at := range c.have {
		if a := c.callFor(c.t.Context(), "CHECK", k.ContainerID, k.IfName, at.path, fmt.Sprintf(`{"cniVersion":"1.1.0","name":%q}`, k.Network)); a.Error != nil {
			c.fail("%s: %v", k, a.Error)
		}
		if other, twice := names[at.path+k.IfName]; twice {
			c.fail("%s and %s are one interface", k, other)
		}
		names[at.path+k.IfName] = k
		for ip := range strings.FieldsSeq(at.ips) {
			if other, twice := addresses[ip]; twice {
				c.fail("%s and %s have %s", k, other, ip)
			}
			addresses[ip] = k
		}
	}
	for _, now := range c.Attachments() {
		at, ours := c.have[now.Key]
		if !ours {
			c.fail("%s is there", now.Key)
		}
		var held []string
		for _, key := range now.Wants {
			if claim, ok := strings.CutPrefix(key, "ipclaim/"); ok && !strings.Contains(claim, ":gateway") {
				p, _ := c.host.book.Prefix(claim)
				held = append(held, p.String())
			}
		}
		if strings.Join(held, " ") != at.ips {
			c.fail("%s has %v, and was given %s", now.Key, held, at.ips)
		}
	}
}

// end withdraws all, and looks that nothing is left.
func (c *campaign) end() {
	for k := range c.have {
		c.callFor(c.t.Context(), "DEL", k.ContainerID, k.IfName, "", fmt.Sprintf(`{"cniVersion":"1.1.0","name":%q}`, k.Network))
	}
	c.operator(scheduler.Withdraw("interface/0"), scheduler.Withdraw("interface/1"), scheduler.Withdraw("ipclaim/0"))
	synctest.Wait()
	if left := c.show(); left != "" {
		c.fail("left\n%s", left)
	}
}
