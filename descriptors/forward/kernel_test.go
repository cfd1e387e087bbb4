package forward_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	kind "github.com/plumb-net/plumb/descriptors/forward"
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/iptables"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/plugins/nftables"
	"github.com/plumb-net/plumb/scheduler"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = scheduler.Key("forward/apps")

// bench is the kind on a live kernel, in a namespace with a bridge br-apps that has two
// ports, and a firewall as Docker makes it.
type bench struct {
	*netlink.Kernel
	t      *testing.T
	net    *netlinktest.Namespace
	a, b   *netlinktest.Namespace
	ledger *kernel.MemLedger
	poll   chan time.Time
	kind   scheduler.Descriptor[*models.Forward, string]
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, net: netlinktest.New(t), a: netlinktest.New(t), b: netlinktest.New(t), ledger: &kernel.MemLedger{}, poll: make(chan time.Time)}
	k, err := netlink.New(netlink.Options{OwnPath: b.net.Path, NamedDir: netlinktest.Dir(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	b.Kernel = k
	b.net.Run(t, "ip", "link", "add", "br-apps", "up", "type", "bridge")
	for i, at := range []*netlinktest.Namespace{b.a, b.b} {
		name := fmt.Sprint("port", i)
		b.net.Run(t, "ip", "link", "add", name, "up", "master", "br-apps", "type", "veth", "peer", "name", "eth0", "netns", at.Path)
		at.Run(t, "ip", "address", "add", fmt.Sprintf("10.62.0.%d/24", i+2), "dev", "eth0")
		at.Run(t, "ip", "link", "set", "eth0", "up")
	}
	b.restart()
	return b
}

func (b *bench) restart() {
	owner := kernel.NewOwner("host7", "boot", b.ledger, nil)
	b.kind = kind.New(kind.Deps{Kernel: b.Kernel, Firewalls: iptables.New(b.Kernel, nftables.New(b.Kernel, "")), Owner: owner, Interfaces: b, Poll: b.poll})
}

func (b *bench) Get(scheduler.Key) (*models.Interface, kernel.LinkRef, bool) {
	l, err := b.Link(b.Own(), "br-apps")
	return &models.Interface{HostName: "br-apps"}, l.Ref(), err == nil
}

// docker makes a firewall as Docker does, by a program of iptables.
func (b *bench) docker(program string) {
	for _, command := range dockerCommands(program) {
		b.net.Run(b.t, strings.Fields(command)...)
	}
}

func dockerCommands(program string) (list []string) {
	for _, rule := range []string{
		"-P FORWARD DROP", "-N DOCKER-USER", "-N DOCKER", "-A FORWARD -j DOCKER-USER",
		"-A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT", "-A FORWARD -o docker0 -j DOCKER",
		"-A FORWARD -i docker0 ! -o docker0 -j ACCEPT", "-A FORWARD -i docker0 -o docker0 -j ACCEPT",
		"-A DOCKER-USER -s 10.62.0.66/32 -j DROP", "-A DOCKER-USER -j RETURN",
	} {
		if strings.HasPrefix(program, "ip6") {
			rule = strings.Replace(rule, "10.62.0.66/32", "fd62::66/128", 1)
		}
		list = append(list, program+" "+rule)
	}
	return list
}

func (b *bench) rules(program string) string { return b.net.Run(b.t, program, "-S") }

// passes reports whether packets pass from one port of the bridge to the other.
func (b *bench) passes() bool {
	_, err := b.a.Try("busybox", "ping", "-c", "1", "-W", "1", "10.62.0.3")
	return err == nil
}

func (b *bench) create() {
	b.t.Helper()
	if _, err := b.kind.Create(context.Background(), key, &models.Forward{Interface: "apps"}); err != nil {
		b.t.Fatal(err)
	}
}

// read is what the kind says of the key: "" if it is not there.
func (b *bench) read(all bool) (says string) {
	b.t.Helper()
	for f, err := range b.kind.Retrieve(context.Background(), scheduler.Scope[*models.Forward, string]{All: all, Keys: []scheduler.Key{key}}) {
		if err != nil {
			b.t.Fatal(err)
		}
		says += fmt.Sprintf("%s of %q", f.Key, f.Value.GetInterface())
	}
	return says
}

const whole, torn = `forward/apps of "apps"`, `forward/apps of ""`

// With Docker's firewall ports of a bridge do not reach each other; with the value they do,
// in either kind of iptables. What others have in the chain stays in force, and when ours go
// all is as it was.
func TestDockerLetsPass(t *testing.T) {
	for _, program := range []string{"iptables-nft", "iptables-legacy"} {
		t.Run(program, func(t *testing.T) {
			b := newBench(t)
			b.net.Sysctl(t, "bridge/bridge-nf-call-iptables", "1")
			b.docker(program)
			before := b.rules(program)
			if b.passes() {
				t.Fatal("the firewall lets pass what it should not")
			}
			b.create()
			if !b.passes() {
				t.Errorf("it does not let pass\n%s", b.rules(program))
			}
			chain := b.net.Run(t, program, "-S", "DOCKER-USER")
			if at := strings.Index(chain, "10.62.0.66"); at < 0 || at > strings.Index(chain, "br-apps") || !strings.HasSuffix(strings.TrimSpace(chain), "-j RETURN") {
				t.Errorf("ours are not between what others stop and the end:\n%s", chain)
			}
			if got := b.read(true); got != whole {
				t.Error(got)
			}
			b.create() // again
			if got := strings.Count(b.rules(program), "br-apps"); got != 2 {
				t.Errorf("%d rules", got)
			}
			if err := b.kind.Delete(context.Background(), key, nil, ""); err != nil {
				t.Fatal(err)
			}
			if after := b.rules(program); after != before {
				t.Errorf("left\n%s\nof\n%s", after, before)
			}
			if got := b.read(true); got != "" || len(b.ledger.Entries("")) > 0 {
				t.Error(got, b.ledger.Entries(""))
			}
		})
	}
}

// What somebody does to the rules is found and mended.
func TestRepair(t *testing.T) {
	for name, c := range map[string]struct {
		change []string
		says   string
	}{
		"one is gone":            {[]string{"-D DOCKER-USER -i br-apps -m comment --comment plumb:host7:forward/apps -j ACCEPT"}, torn},
		"all are gone":           {[]string{"-F DOCKER-USER"}, ""},
		"behind the end":         {[]string{"-I DOCKER-USER 1 -j RETURN"}, torn},
		"twice":                  {[]string{"-I DOCKER-USER 1 -i br-apps -m comment --comment plumb:host7:forward/apps -j ACCEPT"}, torn},
		"another link":           {[]string{"-I DOCKER-USER 1 -i eth0 -m comment --comment plumb:host7:forward/apps -j ACCEPT"}, torn},
		"Docker has gone":        {[]string{"-F FORWARD", "-F DOCKER-USER", "-X DOCKER-USER"}, ""},
		"the chain is not asked": {[]string{"-D FORWARD -j DOCKER-USER"}, torn},
	} {
		t.Run(name, func(t *testing.T) {
			const program = "iptables-nft"
			b := newBench(t)
			b.docker(program)
			b.create()
			ctx, cancel := context.WithCancel(t.Context())
			ended, told := make(chan error, 1), make(chan scheduler.Key, 10)
			go func() { ended <- b.kind.Watch(ctx, func(keys ...scheduler.Key) { told <- keys[0] }) }()
			b.poll <- time.Now()
			<-told // the first look
			for _, rule := range c.change {
				b.net.Run(t, append([]string{program}, strings.Fields(rule)...)...)
			}
			b.poll <- time.Now()
			if k := <-told; k != key {
				t.Error(k)
			}
			b.poll <- time.Now()
			b.poll <- time.Now() // that was done
			if len(told) > 0 {
				t.Error("nothing happened, and it was told")
			}
			if got := b.read(false); got != c.says {
				t.Errorf("it says %q", got)
			}
			b.create()
			if got := b.read(false); got != whole || strings.Count(b.rules(program), "br-apps") != 2 {
				t.Errorf("%s\n%s", got, b.rules(program))
			}
			cancel()
			<-ended
		})
	}
}

// A host without a firewall needs no rules, and gets none; when one comes they are made. One
// that is there and no Docker's has them in FORWARD.
func TestFirewallComes(t *testing.T) {
	const program = "iptables-nft"
	b := newBench(t)
	b.create()
	if out := b.net.Run(t, "nft", "list", "ruleset"); out != "" {
		t.Errorf("it has made\n%s", out)
	}
	if got := b.read(true); got != whole {
		t.Error(got)
	}
	b.net.Run(t, program, "-A", "FORWARD", "-j", "REJECT")
	if got := b.read(true); got != "" {
		t.Error(got)
	}
	b.create()
	if got := b.read(true); got != whole || !strings.HasSuffix(strings.TrimSpace(b.rules(program)), "-j REJECT --reject-with icmp-port-unreachable") {
		t.Errorf("%s\n%s", got, b.rules(program))
	}
	b.docker("ip6tables-nft")
	if got := b.read(true); got != torn {
		t.Error(got)
	}
}

// Without the ledger the marks tell what is ours, and it can be removed.
func TestLedgerLost(t *testing.T) {
	const program = "iptables-nft"
	b := newBench(t)
	b.docker(program)
	before := b.rules(program)
	b.create()
	b.ledger = &kernel.MemLedger{}
	b.restart()
	if got := b.read(true); got != torn {
		t.Error(got)
	}
	if err := b.kind.Delete(context.Background(), key, nil, ""); err != nil || b.rules(program) != before {
		t.Error(err, b.rules(program))
	}
}
