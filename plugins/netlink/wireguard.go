package netlink

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// WireGuard reads the settings of a WireGuard device.
func (k *Kernel) WireGuard(ns kernel.NS, index int) (w kernel.WireGuard, err error) {
	err = k.withWireGuard(ns, index, "read", func(_ *namespace, c *wgctrl.Client, name string) error {
		d, err := c.Device(name)
		if err != nil {
			return err
		}
		w = readWireGuard(d)
		return nil
	})
	return w, err
}

// SetWireGuard makes the settings of a WireGuard device as w says.
func (k *Kernel) SetWireGuard(ns kernel.NS, index int, w kernel.WireGuard) error {
	return k.withWireGuard(ns, index, "set up", func(n *namespace, c *wgctrl.Client, name string) error {
		d, err := c.Device(name)
		if err != nil {
			return err
		}
		n.writes.add(1)
		return c.ConfigureDevice(name, wireGuardConfig(w, readWireGuard(d)))
	})
}

// withWireGuard calls the library in a namespace. It knows devices by their names alone.
func (k *Kernel) withWireGuard(ns kernel.NS, index int, doing string, f func(n *namespace, c *wgctrl.Client, name string) error) error {
	return k.in(ns, fmt.Sprintf("%s wireguard %d", doing, index), func(n *namespace) error {
		l, err := k.linkByIndex(n, index)
		if err != nil {
			return err
		}
		var c *wgctrl.Client
		if err := n.within(func() (err error) {
			c, err = wgctrl.New()
			return err
		}); err != nil {
			return refused(err)
		}
		defer c.Close()
		err = f(n, c, l.Name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%w: %w", kernel.ErrNotExist, err)
		case errors.Is(err, unix.EADDRINUSE): // of a link this says something else
			return fmt.Errorf("%w: %w", kernel.ErrInUse, err)
		}
		return refused(err)
	})
}

// readWireGuard leaves out the private key: nobody needs it who has the public one.
func readWireGuard(d *wgtypes.Device) kernel.WireGuard {
	w := kernel.WireGuard{ListenPort: d.ListenPort, Mark: uint32(d.FirewallMark)}
	if d.PrivateKey != (wgtypes.Key{}) {
		w.PublicKey = d.PublicKey
	}
	for _, p := range d.Peers {
		peer := kernel.WireGuardPeer{
			PublicKey: p.PublicKey, PresharedKey: p.PresharedKey,
			Keepalive: int(p.PersistentKeepaliveInterval / time.Second),
		}
		if p.Endpoint != nil {
			e := p.Endpoint.AddrPort()
			peer.Endpoint = netip.AddrPortFrom(e.Addr().Unmap(), e.Port())
		}
		for _, n := range p.AllowedIPs {
			if a, ok := netip.AddrFromSlice(n.IP); ok {
				ones, _ := n.Mask.Size()
				peer.AllowedIPs = append(peer.AllowedIPs, netip.PrefixFrom(a.Unmap(), ones))
			}
		}
		w.Peers = append(w.Peers, peer)
	}
	return w
}

// wireGuardConfig is what changes a device that is as was says. Peers are changed and not
// made anew: their sessions go on.
func wireGuardConfig(w, was kernel.WireGuard) wgtypes.Config {
	c := wgtypes.Config{ListenPort: &w.ListenPort, FirewallMark: ref(int(w.Mark))}
	if w.ListenPort == 0 && was.ListenPort != 0 {
		c.ListenPort = nil // any: that it has is one
	}
	if w.PrivateKey != nil {
		c.PrivateKey = ref(wgtypes.Key(*w.PrivateKey))
	}
	stays := map[[32]byte]bool{}
	for _, p := range w.Peers {
		stays[p.PublicKey] = true
		peer := wgtypes.PeerConfig{
			PublicKey: p.PublicKey, PresharedKey: ref(wgtypes.Key(p.PresharedKey)),
			PersistentKeepaliveInterval: ref(time.Duration(p.Keepalive) * time.Second),
			ReplaceAllowedIPs:           true,
		}
		if p.Endpoint.IsValid() {
			peer.Endpoint = net.UDPAddrFromAddrPort(p.Endpoint)
		}
		for _, n := range p.AllowedIPs {
			peer.AllowedIPs = append(peer.AllowedIPs, net.IPNet{
				IP: n.Addr().AsSlice(), Mask: net.CIDRMask(n.Bits(), n.Addr().BitLen()),
			})
		}
		c.Peers = append(c.Peers, peer)
	}
	for _, p := range was.Peers {
		if !stays[p.PublicKey] {
			c.Peers = append(c.Peers, wgtypes.PeerConfig{PublicKey: p.PublicKey, Remove: true})
		}
	}
	return c
}
