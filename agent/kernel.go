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

// Kernel is what an agent works on: the ports, and what it asks besides. The kernel in memory of
// package kerneltest is such.
type Kernel interface {
	kernel.Kernel
	Tables() kernel.Tables
	Firewalls() kernel.Firewalls
	Proxies() kernel.Proxies

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
// says, and its clock: CNI and probes from within a namespace are not there, and it locks no
// label. The kernel is the caller's, and stays as it is.
func RunOn(ctx context.Context, c Config, k Kernel, log slog.Handler) error {
	return run(ctx, c, func(Config) (*ground, error) { return elsewhere(k), nil }, log)
}

// ground is a kernel, and what of its host there is.
type ground struct {
	Kernel
	// labels is where labels are locked, "" for nowhere.
	labels string
	// attaches: the namespaces of containers of this host are on it.
	attaches bool
	// within works in a namespace; again opens the kernel with handles of its own.
	within func(ns kernel.NS, work func() error) error
	again  func() (k kernel.Kernel, end func(), err error)
	end    func()
}

// hostKernel is the kernel of this host, with the programs and processes that are the other ports.
type hostKernel struct {
	*netlink.Kernel

	tables    *nft.Tables
	firewalls *iptables.Firewalls
	proxies   *forwarders.Proxies
}

func withPrograms(k *netlink.Kernel, c Config) *hostKernel {
	tables := nft.New(k, "")
	return &hostKernel{k, tables, iptables.New(k, tables),
		forwarders.New(k, forwarders.Options{Dir: filepath.Join(c.RunDir, proxyDir), FilesDir: models.ProxyDir})}
}

func (k *hostKernel) Tables() kernel.Tables       { return k.tables }
func (k *hostKernel) Firewalls() kernel.Firewalls { return k.firewalls }
func (k *hostKernel) Proxies() kernel.Proxies     { return k.proxies }

// thisHost is the kernel of this host.
func thisHost(c Config) (*ground, error) {
	open := func() (*netlink.Kernel, error) {
		return netlink.New(netlink.Options{OwnPath: c.Netns, NamedDir: c.NetnsDir})
	}
	k, err := open()
	if err != nil {
		return nil, err
	}
	whole := withPrograms(k, c)
	return &ground{
		Kernel: whole, labels: lockDir, attaches: true,
		within: func(ns kernel.NS, work func() error) error { return k.Within(ns, 0, work) },
		again: func() (kernel.Kernel, func(), error) {
			k, err := open()
			if err != nil {
				return nil, nil, err
			}
			return k, func() { k.Close() }, nil
		},
		end: func() {
			whole.proxies.Close() // they go on
			k.Close()
		},
	}, nil
}

// elsewhere is a kernel without a host.
func elsewhere(k Kernel) *ground {
	return &ground{
		Kernel: k,
		within: func(kernel.NS, func() error) error {
			return fmt.Errorf("%w: there are threads only on a host", kernel.ErrUnsupported)
		},
		again: func() (kernel.Kernel, func(), error) { return k, func() {}, nil },
		end:   func() {},
	}
}
