package kerneltest

import (
	"cmp"
	"crypto/ecdh"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// WireGuard reads the settings of a WireGuard device, without its private key.
func (k *Kernel) WireGuard(ns kernel.NS, index int) (w kernel.WireGuard, err error) {
	err = k.in(ns, "WireGuard", fmt.Sprintf("read wireguard %d", index), func(n *namespace) error {
		is, err := n.wireGuard(index)
		if err != nil {
			return err
		}
		w = *is
		w.PrivateKey, w.Peers = nil, slices.Clone(w.Peers)
		for i, p := range w.Peers {
			w.Peers[i].AllowedIPs = slices.Clone(p.AllowedIPs)
		}
		return nil
	})
	return w, err
}

func (n *namespace) wireGuard(index int) (*kernel.WireGuard, error) {
	l, err := n.link(index)
	if err == nil && l.wireGuard == nil {
		err = fmt.Errorf("%w: %w", kernel.ErrNotExist, fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	return l.wireGuard, nil
}

// SetWireGuard makes the settings of a WireGuard device those of w. Peers that stay keep their
// place and, where w says none, their endpoint.
func (k *Kernel) SetWireGuard(ns kernel.NS, index int, w kernel.WireGuard) error {
	return k.write(ns, "SetWireGuard", fmt.Sprintf("set up wireguard %d", index), func(n *namespace) error {
		is, err := n.wireGuard(index)
		if err != nil {
			return err
		}
		l := n.links[index]
		if port := cmp.Or(w.ListenPort, is.ListenPort); port != is.ListenPort {
			if l.Up && l.portTaken(port) {
				return fmt.Errorf("%w: %w", kernel.ErrInUse, syscall.EADDRINUSE)
			}
			is.ListenPort = port
		}
		is.Mark = w.Mark
		if w.PrivateKey != nil {
			if err := setPrivateKey(is, *w.PrivateKey); err != nil {
				return err
			}
		}
		is.Peers = slices.DeleteFunc(is.Peers, func(p kernel.WireGuardPeer) bool { return peerAt(w.Peers, p.PublicKey) < 0 })
		for _, p := range w.Peers {
			setPeer(is, p)
		}
		return nil
	})
}

func setPrivateKey(is *kernel.WireGuard, key [32]byte) error {
	is.PublicKey = [32]byte{}
	if key == is.PublicKey {
		return nil
	}
	private, err := ecdh.X25519().NewPrivateKey(key[:])
	if err != nil {
		return err
	}
	is.PublicKey = [32]byte(private.PublicKey().Bytes())
	return nil
}

func peerAt(peers []kernel.WireGuardPeer, key [32]byte) int {
	return slices.IndexFunc(peers, func(p kernel.WireGuardPeer) bool { return p.PublicKey == key })
}

// setPeer adds a peer, or changes it: what it is allowed to send from is of no other then. A
// device is no peer of itself.
func setPeer(is *kernel.WireGuard, p kernel.WireGuardPeer) {
	at := peerAt(is.Peers, p.PublicKey)
	if p.PublicKey == is.PublicKey {
		if at >= 0 {
			is.Peers = slices.Delete(is.Peers, at, at+1)
		}
		return
	}
	if at < 0 {
		is.Peers, at = append(is.Peers, kernel.WireGuardPeer{}), len(is.Peers)
	}
	if !p.Endpoint.IsValid() {
		p.Endpoint = is.Peers[at].Endpoint
	}
	allowed := p.AllowedIPs
	p.AllowedIPs = nil
	is.Peers[at] = p
	for _, ips := range allowed {
		ips = ips.Masked()
		for i := range is.Peers {
			is.Peers[i].AllowedIPs = slices.DeleteFunc(slices.Clone(is.Peers[i].AllowedIPs), func(other netip.Prefix) bool { return other == ips })
		}
		is.Peers[at].AllowedIPs = append(is.Peers[at].AllowedIPs, ips)
	}
}

// firstPort is the first of those that the kernel chooses.
const firstPort = 32768

// listen takes the port of a WireGuard device that goes up, or one that is free.
func (l *link) listen() error {
	w := l.wireGuard
	if w.ListenPort != 0 && l.portTaken(w.ListenPort) {
		return syscall.EADDRINUSE
	}
	for port := firstPort; w.ListenPort == 0; port++ {
		if !l.portTaken(port) {
			w.ListenPort = port
		}
	}
	return nil
}

func (l *link) portTaken(port int) bool {
	return slices.ContainsFunc(l.ns.sorted(), func(other *link) bool {
		return other != l && other.Up && other.wireGuard != nil && other.wireGuard.ListenPort == port
	})
}

// wireGuard does what "wg set" says. Keys are those of a shell that prints them, where wg(8)
// wants a file: private-key <(echo KEY).
func (c *request) wireGuard() error {
	index := c.device()
	if c.err != nil {
		return c.err
	}
	w, err := c.k.WireGuard(c.ns, index)
	if err != nil {
		return err
	}
	at := -1 // the peer that is spoken of
	err = c.each(func(word string) bool {
		switch {
		case word == "listen-port":
			w.ListenPort = c.number()
		case word == "fwmark":
			w.Mark = uint32(c.number())
		case word == "private-key":
			w.PrivateKey = new(c.secret())
		case word == "peer":
			at = c.peerOf(&w, c.key(c.next()))
		case at < 0:
			return false
		case word == "remove":
			w.Peers = slices.Delete(w.Peers, at, at+1)
			at = -1
		default:
			return c.peerSetting(&w.Peers[at], word)
		}
		return true
	})
	if err != nil {
		return err
	}
	return c.k.SetWireGuard(c.ns, index, w)
}

// peerOf is where the peer with a key is, which may be new.
func (c *request) peerOf(w *kernel.WireGuard, key [32]byte) int {
	if at := slices.IndexFunc(w.Peers, func(p kernel.WireGuardPeer) bool { return p.PublicKey == key }); at >= 0 {
		return at
	}
	w.Peers = append(w.Peers, kernel.WireGuardPeer{PublicKey: key})
	return len(w.Peers) - 1
}

func (c *request) peerSetting(p *kernel.WireGuardPeer, word string) bool {
	switch word {
	case "preshared-key":
		p.PresharedKey = c.secret()
	case "endpoint":
		at := c.next()
		to, err := netip.ParseAddrPort(at)
		if err != nil {
			c.fail("%q is no address with a port", at)
		}
		p.Endpoint = to
	case "persistent-keepalive":
		p.Keepalive = c.number()
	case "allowed-ips":
		p.AllowedIPs = nil
		for a := range strings.SplitSeq(c.next(), ",") {
			prefix, err := netip.ParsePrefix(a)
			if err != nil {
				c.fail("%q is no address with a length", a)
			}
			p.AllowedIPs = append(p.AllowedIPs, prefix)
		}
	default:
		return false
	}
	return true
}

// secret is a key in the words <(echo KEY), or none in /dev/null.
func (c *request) secret() [32]byte {
	switch w := c.next(); w {
	case "<(echo":
	case "/dev/null":
		return [32]byte{}
	default:
		c.fail("%q is not understood here; want <(echo KEY)", w)
	}
	return c.key(strings.TrimSuffix(c.next(), ")"))
}

func (c *request) key(text string) (key [32]byte) {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(b) != len(key) {
		c.fail("%q is no key", text)
		return key
	}
	return [32]byte(b)
}

// wireGuards are what the devices of WireGuard are told by wg(8), without their secrets.
func (t *text) wireGuards(ns kernel.NS) error {
	links, err := t.k.Links(ns)
	for _, l := range links {
		if l.Type != "wireguard" {
			continue
		}
		w, err := t.k.WireGuard(ns, l.Index)
		if errors.Is(err, kernel.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		words := []string{"set", l.Name, option("listen-port", w.ListenPort), option("fwmark", w.Mark)}
		for _, p := range w.Peers {
			words = append(words, "peer "+keyText(p.PublicKey))
			if p.Endpoint.IsValid() {
				words = append(words, "endpoint "+p.Endpoint.String())
			}
			words = append(words, option("persistent-keepalive", p.Keepalive))
			var ips []string
			for _, a := range p.AllowedIPs {
				ips = append(ips, a.String())
			}
			words = append(words, option("allowed-ips", strings.Join(ips, ",")))
		}
		if w.PublicKey != [32]byte{} {
			words = append(words, "# public key "+keyText(w.PublicKey))
		}
		if name := t.of[ns]; name != "" {
			t.b.WriteString("ip netns exec " + name + " ")
		}
		t.line(t.k.Own(), "wg", words...)
	}
	return err
}

func keyText(key [32]byte) string { return base64.StdEncoding.EncodeToString(key[:]) }
