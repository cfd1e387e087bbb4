package agent

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/iptables"
	"github.com/plumb-net/plumb/plugins/netlink"
	nft "github.com/plumb-net/plumb/plugins/nftables"
	forwarders "github.com/plumb-net/plumb/plugins/proxy"
)

// Kernel is what an agent works on: the port, and what it asks besides. [netlink.Kernel] and
// the kernel in memory of package kerneltest are such.
type Kernel interface {
	kernel.Kernel
	// Running reports whether packets pass a link.
	Running(at kernel.LinkRef) (bool, error)
	// Writes counts what may have changed something.
	Writes() uint64
	// Opened yields a value after a namespace was opened, one for many. CloseUnused closes
	// those that nobody uses, and returns how many of them it should come back to.
	Opened() <-chan struct{}
	CloseUnused(used func(kernel.NS) bool) (left int)
}

// RunOn is Run on another kernel than that of this host, such as one in memory. The agent has
// nothing of this host then but its directories, its container runtimes as the configuration
// says, and its clock: nftables, proxies, CNI and probes from within a namespace are not there,
// and it locks no label. The kernel is the caller's, and stays as it is.
func RunOn(ctx context.Context, c Config, k Kernel, log slog.Handler) error {
	return run(ctx, c, func(Config) (*ground, error) { return elsewhere(k), nil }, log)
}

// ground is a kernel, and the other systems of its host.
type ground struct {
	Kernel
	tables    kernel.Tables
	firewalls kernel.Firewalls
	proxies   proxies
	// labels is where labels are locked, "" for nowhere.
	labels string
	// attaches: the namespaces of containers of this host are on it.
	attaches bool
	// within works in a namespace; again opens the kernel with handles of its own.
	within func(ns kernel.NS, work func() error) error
	again  func() (k Kernel, end func(), err error)
	end    func()
}

type proxies interface {
	kernel.Proxies
	Figures(ctx context.Context) map[string]kernel.ProxyFigures
}

// thisHost is the kernel of this host.
func thisHost(c Config) (*ground, error) {
	open := func() (*netlink.Kernel, error) {
		return netlink.New(netlink.Options{OwnPath: c.Netns, NamedDir: c.NetnsDir})
	}
	k, err := open()
	if err != nil {
		return nil, err
	}
	tables := nft.New(k, "")
	forwarding := forwarders.New(k, forwarders.Options{Dir: filepath.Join(c.RunDir, proxyDir), FilesDir: models.ProxyDir})
	return &ground{
		Kernel: k, tables: tables, firewalls: iptables.New(k, tables), proxies: forwarding, labels: lockDir, attaches: true,
		within: func(ns kernel.NS, work func() error) error { return k.Within(ns, 0, work) },
		again: func() (Kernel, func(), error) {
			k, err := open()
			if err != nil {
				return nil, nil, err
			}
			return k, func() { k.Close() }, nil
		},
		end: func() {
			forwarding.Close() // they go on
			k.Close()
		},
	}, nil
}

// elsewhere is a kernel without a host.
func elsewhere(k Kernel) *ground {
	return &ground{
		Kernel: k, tables: absent{}, firewalls: absent{}, proxies: absent{},
		within: func(kernel.NS, func() error) error { return errAbsent },
		again:  func() (Kernel, func(), error) { return k, func() {}, nil },
		end:    func() {},
	}
}

// absent is what there is not beside a kernel that is not this host's: of what could be in it
// nothing is, and nothing can be made.
type absent struct{}

var errAbsent = fmt.Errorf("%w: only the kernel of a host has it", kernel.ErrUnsupported)

func (absent) Table(context.Context, kernel.NS, string, string) (kernel.Table, error) {
	return kernel.Table{}, kernel.ErrNotExist
}
func (absent) CreateTable(context.Context, kernel.NS, kernel.Table) error  { return errAbsent }
func (absent) ReplaceTable(context.Context, kernel.NS, kernel.Table) error { return errAbsent }
func (absent) ReplaceElements(context.Context, kernel.NS, kernel.Table, []string) error {
	return errAbsent
}
func (absent) DeleteTable(context.Context, kernel.NS, string, string) error {
	return kernel.ErrNotExist
}
func (absent) Generation(kernel.NS) (uint32, error) { return 0, nil }

func (absent) Firewalls(context.Context, kernel.NS) ([]kernel.Firewall, error) { return nil, nil }
func (absent) InsertRule(context.Context, kernel.NS, kernel.Firewall, string, int, kernel.FirewallRule) error {
	return errAbsent
}
func (absent) DeleteRule(context.Context, kernel.NS, kernel.Firewall, string, kernel.FirewallRule) error {
	return kernel.ErrNotExist
}
func (absent) Signature(context.Context, kernel.NS) (string, error) { return "", nil }

func (absent) StartProxy(context.Context, kernel.Proxy, func(kernel.ProxyProcess) error) (kernel.ProxyProcess, error) {
	return kernel.ProxyProcess{}, errAbsent
}
func (absent) ReadProxy(context.Context, kernel.ProxyProcess) (kernel.ProxyState, error) {
	return kernel.ProxyState{}, kernel.ErrNotExist
}
func (absent) SetProxy(context.Context, kernel.ProxyProcess, kernel.ProxyRules, uint32) error {
	return errAbsent
}
func (absent) StopProxy(context.Context, kernel.ProxyProcess) error   { return nil }
func (absent) MarkedProxies() ([]kernel.ProxyProcess, error)          { return nil, nil }
func (absent) ProxyFile(kernel.ProxyProcess) (uint32, error)          { return 0, kernel.ErrNotExist }
func (absent) WatchProxies(ctx context.Context, _ func(mark string))  { <-ctx.Done() }
func (absent) Figures(context.Context) map[string]kernel.ProxyFigures { return nil }
