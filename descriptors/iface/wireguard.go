package iface

import (
	"crypto/ecdh"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// wireguard is a tunnel end with all its peers. It is made without settings, which are
// given to it before it gets its mark.
type wireguard struct{ plain }

// needs: the files with its keys.
func (wireguard) needs(_ scheduler.Key, v *models.Interface) []scheduler.Need {
	w := v.GetWireguard()
	list := []scheduler.Need{scheduler.On(keyFile(w.GetPrivateKeyFile()), "the file with its private key")}
	for _, p := range w.GetPeers() {
		if file := p.GetPresharedKeyFile(); file != "" {
			list = append(list, scheduler.On(keyFile(file), "the file with the preshared key of "+p.GetPublicKey()))
		}
	}
	return list
}

func (wireguard) spec(w *wish, s *kernel.LinkSpec) error {
	s.Plain = w.value.LinkType()
	return nil
}

// differs: of keys the files are compared. [iface.readWireGuard] names the file of the
// value only if it holds the key that the device has.
func (wireguard) differs(actual, desired *models.Interface) (d kind.Differences) {
	was, is := actual.GetWireguard(), desired.GetWireguard()
	d.May(was.GetPrivateKeyFile() != is.GetPrivateKeyFile(), "wireguard.private_key_file",
		orAnother(was.GetPrivateKeyFile()), is.GetPrivateKeyFile())
	d.May(is.GetListenPort() != 0 && was.GetListenPort() != is.GetListenPort(), "wireguard.listen_port", was.GetListenPort(), is.GetListenPort())
	d.May(was.GetFwmark() != is.GetFwmark(), "wireguard.fwmark", was.GetFwmark(), is.GetFwmark())
	peers := peersOf(is)
	for _, a := range was.GetPeers() {
		b, stays := peers[a.GetPublicKey()]
		delete(peers, a.GetPublicKey())
		at := "wireguard.peers " + a.GetPublicKey()
		if !stays {
			d.May(true, at, "there", "gone")
			continue
		}
		d.May(a.GetPresharedKeyFile() != b.GetPresharedKeyFile(), at+" preshared_key_file",
			orAnother(a.GetPresharedKeyFile()), orNone(b.GetPresharedKeyFile()))
		d.May(b.GetEndpoint() != "" && endpoint(a) != endpoint(b), at+" endpoint", orNone(a.GetEndpoint()), b.GetEndpoint())
		d.May(!slices.Equal(allowed(a), allowed(b)), at+" allowed_ips", allowed(a), allowed(b))
		d.May(a.GetPersistentKeepalive() != b.GetPersistentKeepalive(), at+" persistent_keepalive",
			a.GetPersistentKeepalive(), b.GetPersistentKeepalive())
	}
	for _, b := range is.GetPeers() {
		if _, missing := peers[b.GetPublicKey()]; missing {
			d.May(true, "wireguard.peers "+b.GetPublicKey(), "gone", "there")
		}
	}
	return d
}

func orAnother(file string) string {
	if file == anotherKey {
		return "another key"
	}
	return orNone(file)
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func peersOf(v *models.WireGuard) map[string]*models.WireGuardPeer {
	peers := map[string]*models.WireGuardPeer{}
	for _, p := range v.GetPeers() {
		peers[p.GetPublicKey()] = p
	}
	return peers
}

func endpoint(p *models.WireGuardPeer) netip.AddrPort {
	e, _ := netip.ParseAddrPort(p.GetEndpoint())
	return e
}

// allowed are the networks of a peer in one order.
func allowed(p *models.WireGuardPeer) []netip.Prefix {
	list := make([]netip.Prefix, 0, len(p.GetAllowedIps()))
	for _, text := range p.GetAllowedIps() {
		n, _ := netip.ParsePrefix(text)
		list = append(list, n)
	}
	slices.SortFunc(list, netip.Prefix.Compare)
	return list
}

// anotherKey stands for a key that is not that of the file of the value.
const anotherKey = "?"

// readWireGuard reads the settings of a device. A file that cannot be read now is believed:
// what works stays. An endpoint is what was asked for as long as the peer has one at all,
// since the kernel follows a peer that moves. What cannot be read is not there, so that
// whoever sets it up is told why.
func (d *iface) readWireGuard(l kernel.Link, hint *models.WireGuard) *models.WireGuard {
	w, err := d.Kernel.WireGuard(l.NS, l.Index)
	if err != nil {
		return &models.WireGuard{}
	}
	v := &models.WireGuard{ListenPort: uint32(w.ListenPort), Fwmark: w.Mark}
	if w.PublicKey != ([32]byte{}) {
		v.PrivateKeyFile = d.holding(hint.GetPrivateKeyFile(), func(key models.WireGuardKey) bool {
			public, err := publicKey(key)
			return err == nil && public == w.PublicKey
		})
	}
	asked := peersOf(hint)
	for _, p := range w.Peers {
		key := models.WireGuardKey(p.PublicKey).String()
		peer := &models.WireGuardPeer{PublicKey: key, PersistentKeepalive: uint32(p.Keepalive)}
		if p.PresharedKey != ([32]byte{}) {
			peer.PresharedKeyFile = d.holding(asked[key].GetPresharedKeyFile(), func(k models.WireGuardKey) bool { return k == p.PresharedKey })
		}
		if p.Endpoint.IsValid() {
			peer.Endpoint = asked[key].GetEndpoint()
			if peer.Endpoint == "" {
				peer.Endpoint = p.Endpoint.String()
			}
		}
		for _, n := range p.AllowedIPs {
			peer.AllowedIps = append(peer.AllowedIps, n.String())
		}
		v.Peers = append(v.Peers, peer)
	}
	slices.SortFunc(v.Peers, func(a, b *models.WireGuardPeer) int { return order(hint, a) - order(hint, b) })
	return v
}

// order is the place of a peer in a list, those that are not in it last.
func order(v *models.WireGuard, p *models.WireGuardPeer) int {
	i := slices.IndexFunc(v.GetPeers(), func(x *models.WireGuardPeer) bool { return x.GetPublicKey() == p.GetPublicKey() })
	if i < 0 {
		return len(v.GetPeers())
	}
	return i
}

// holding is the file if it holds the key that is there.
func (d *iface) holding(file string, is func(models.WireGuardKey) bool) string {
	if file == "" {
		return anotherKey
	}
	if key, err := d.KeyFile(file); err == nil && !is(key) {
		return anotherKey
	}
	return file
}

// publicKey is the key that others know a private one by (RFC 7748).
func publicKey(private models.WireGuardKey) (public [32]byte, err error) {
	k, err := ecdh.X25519().NewPrivateKey(private[:])
	if err != nil {
		return public, err
	}
	return [32]byte(k.PublicKey().Bytes()), nil
}

// setWireGuard gives a device its settings if they are not as asked.
func (d *iface) setWireGuard(w *wish, l kernel.Link) error {
	v, before := w.value.GetWireguard(), w.lastWireGuard()
	actual := &models.Interface{Link: &models.Interface_Wireguard{Wireguard: d.readWireGuard(l, before)}}
	if typeOf(w.value).differs(actual, w.value).Verdict().Change == scheduler.Same {
		return nil
	}
	s := kernel.WireGuard{ListenPort: int(v.GetListenPort()), Mark: v.GetFwmark()}
	private, err := d.KeyFile(v.GetPrivateKeyFile())
	if err != nil {
		return noKey(v.GetPrivateKeyFile(), "wireguard.private_key_file", err)
	}
	s.PrivateKey = (*[32]byte)(&private)
	there, asked := peersOf(actual.GetWireguard()), peersOf(before)
	for i, p := range v.GetPeers() {
		public, err := models.ParseWireGuardKey(p.GetPublicKey())
		if err != nil {
			return scheduler.Invalid(fmt.Sprintf("wireguard.peers[%d].public_key", i), "%v", err)
		}
		peer := kernel.WireGuardPeer{PublicKey: public, AllowedIPs: allowed(p), Keepalive: int(p.GetPersistentKeepalive())}
		if file := p.GetPresharedKeyFile(); file != "" {
			if peer.PresharedKey, err = d.KeyFile(file); err != nil {
				return noKey(file, fmt.Sprintf("wireguard.peers[%d].preshared_key_file", i), err)
			}
		}
		if there[p.GetPublicKey()].GetEndpoint() == "" || endpoint(asked[p.GetPublicKey()]) != endpoint(p) {
			peer.Endpoint = endpoint(p)
		}
		s.Peers = append(s.Peers, peer)
	}
	err = d.Kernel.SetWireGuard(l.NS, l.Index, s)
	if errors.Is(err, kernel.ErrInUse) {
		return scheduler.Conflict("", fmt.Errorf("%w: UDP port %d is in use in %s; choose another", err, v.GetListenPort(), w.value.GetNamespace().Text()))
	}
	return err
}

func keyFile(file string) scheduler.Key { return scheduler.Key(models.KeyFileKey(file)) }

// noKey is the error for a file that has changed since it was found to hold a key.
func noKey(file, field string, err error) error {
	return scheduler.Blocked(keyFile(file), fmt.Errorf("%s: %w", field, err))
}

// NamesKeyFile reports whether a value names a file with a key of WireGuard.
func NamesKeyFile(v *models.Interface, file string) bool {
	w := v.GetWireguard()
	return w != nil && (w.GetPrivateKeyFile() == file ||
		slices.ContainsFunc(w.GetPeers(), func(p *models.WireGuardPeer) bool { return p.GetPresharedKeyFile() == file }))
}

// lastWireGuard is what the device was last given, as far as the ledger says.
func (w *wish) lastWireGuard() *models.WireGuard {
	if w.recorded == nil {
		return nil
	}
	return kind.InterfaceOf(*w.recorded).GetWireguard()
}
