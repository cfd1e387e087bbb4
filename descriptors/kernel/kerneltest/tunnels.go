package kerneltest

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// The kinds of tunnels: those of GRE, and those with outer packets of IPv6.
var (
	tunnelKinds = []string{"gre", "gretap", "ip6gre", "ip6gretap", "ipip", "sit", "ip6tnl"}
	greKinds    = tunnelKinds[:4]
	ipv6Kinds   = []string{"ip6gre", "ip6gretap", "ip6tnl"}
)

// fallbacks are the tunnels that each namespace has as soon as there was one of their type: they
// take what is for no other. They have their type's name with a 0, but for that of ipip.
var fallbacks = []struct {
	name, kind string
	mtu        int
}{
	{"gre0", "gre", 1476}, {"gretap0", "gretap", 1462}, {"erspan0", "erspan", 1450},
	{"tunl0", "ipip", 1480}, {"sit0", "sit", 1480}, {"ip6tnl0", "ip6tnl", 1452}, {"ip6gre0", "ip6gre", 1448},
}

func isFallback(l kernel.Link) bool { return fallbackMTU(l) != 0 }

// fallbackMTU is 0 of what is none of those.
func fallbackMTU(l kernel.Link) int {
	for _, f := range fallbacks {
		if f.name == l.Name && f.kind == l.Type {
			return f.mtu
		}
	}
	return 0
}

// load is what the first tunnel of a type does: it brings those that are in every namespace.
func (k *Kernel) load(spec kernel.LinkSpec) {
	if !k.opts.Fallbacks || spec.Tunnel == nil {
		return
	}
	for _, kind := range modules[spec.Tunnel.Kind] {
		if slices.Contains(k.loaded, kind) {
			continue
		}
		k.loaded = append(k.loaded, kind)
		for _, ns := range slices.Sorted(maps.Keys(k.all)) {
			k.addFallback(k.all[ns], kind)
		}
	}
}

// modules are the types of tunnels that come with the first one of a type.
var modules = map[string][]string{
	"gre": {"gre", "gretap", "erspan"}, "gretap": {"gre", "gretap", "erspan"}, "ipip": {"ipip"}, "sit": {"sit"}, "ip6tnl": {"ip6tnl"},
	"ip6gre": {"ip6tnl", "ip6gre"}, "ip6gretap": {"ip6tnl", "ip6gre"},
}

func (k *Kernel) addFallback(n *namespace, kind string) {
	for _, f := range fallbacks {
		if f.kind != kind || n.names[f.name] != nil {
			continue
		}
		l := &link{ns: n, fallback: true, Link: kernel.Link{Name: f.name, Type: kind, MTU: f.mtu}}
		if kind == "gretap" || kind == "erspan" {
			l.MAC = noMAC
		}
		if kind != "erspan" {
			l.Tunnel = &kernel.TunnelSpec{Kind: kind, Else: kind == "ip6tnl"}
			if slices.Contains(ipv6Kinds, kind) {
				l.Tunnel.EncapLimit = new(uint32)
			}
		}
		k.insert(l)
		k.tellLink(l, false)
	}
}

// typedTunnel gives a link what it has as a tunnel of IP.
func (k *Kernel) typedTunnel(l *link, s kernel.TunnelSpec) error {
	if err := checkTunnel(&s); err != nil {
		return err
	}
	for _, other := range l.ns.links {
		if other.Tunnel != nil && (twins(*other.Tunnel, s) || s.External && other.Tunnel.External && modules[s.Kind][0] == modules[other.Type][0] &&
			(other.Type == s.Kind || slices.Contains(ipv6Kinds, s.Kind))) {
			return refused(syscall.EEXIST)
		}
	}
	l.Type, l.Tunnel = s.Kind, &s
	if !strings.HasSuffix(s.Kind, "tap") {
		l.MAC = ""
	}
	l.MTU = 1500 - overhead(&s)
	if room := l.ns.roomFor(&s); room != 0 {
		l.MTU = room
	}
	return nil
}

func checkTunnel(s *kernel.TunnelSpec) error {
	if !slices.Contains(tunnelKinds, s.Kind) {
		return fmt.Errorf("no kind of tunnel %q: %w", s.Kind, syscall.EINVAL)
	}
	if s.More || s.Else {
		s.More, s.Else = false, false // nobody can ask for it
	}
	ipv6, gre := slices.Contains(ipv6Kinds, s.Kind), slices.Contains(greKinds, s.Kind)
	for _, end := range []netip.Addr{s.Local, s.Remote} {
		if end.IsValid() && end.Is6() != ipv6 {
			return fmt.Errorf("%s is no address for %s: %w", end, s.Kind, syscall.EINVAL)
		}
	}
	if ipv6 {
		s.PMTUDiscovery = false
	} else {
		s.EncapLimit = nil
	}
	if !gre {
		s.Key, s.Checksum, s.External = nil, false, false
	}
	if s.Kind == "gre" && s.Remote.IsMulticast() && !s.Local.IsValid() {
		return syscall.EINVAL
	}
	return nil
}

// twins reports whether packets for one tunnel are for the other one as well.
func twins(a, b kernel.TunnelSpec) bool {
	key := func(s kernel.TunnelSpec) (given bool, key uint32) {
		if s.Key == nil {
			return false, 0
		}
		return s.Kind != "ip6gre" && s.Kind != "ip6gretap", *s.Key
	}
	givenA, keyA := key(a)
	givenB, keyB := key(b)
	return a.Kind == b.Kind && a.Local == b.Local && a.Remote == b.Remote && a.Parent == b.Parent && givenA == givenB && keyA == keyB &&
		(a.Kind != "gre" || a.External == b.External)
}

// overhead is how much of a packet the headers of a tunnel take.
func overhead(s *kernel.TunnelSpec) int {
	n := 20
	if slices.Contains(ipv6Kinds, s.Kind) {
		n = 40
	}
	if s.EncapLimit != nil {
		n += 8
	}
	if slices.Contains(greKinds, s.Kind) {
		n += 4
	}
	if s.Key != nil {
		n += 4
	}
	if s.Checksum {
		n += 4
	}
	if strings.HasSuffix(s.Kind, "tap") {
		n += 14
	}
	return n
}

// roomFor is the MTU that a tunnel has by the link on which its packets leave, 0 if there is none.
func (n *namespace) roomFor(s *kernel.TunnelSpec) int {
	below := n.links[s.Parent]
	if below == nil || slices.Contains(ipv6Kinds, s.Kind) {
		below = n.linkTo(s.Remote, s.Parent)
	}
	if below == nil {
		return 0
	}
	mtu := min(below.MTU, maxMTU) - overhead(s)
	if slices.Contains(ipv6Kinds, s.Kind) {
		return max(mtu, minMTU6)
	}
	return max(mtu, minMTU)
}

// linkTo is the link by which packets for an address leave, by a given one if that is not 0; nil
// if no route leads there.
func (n *namespace) linkTo(a netip.Addr, index int) *link {
	if !a.IsValid() {
		return nil
	}
	if n.isLocal(a) {
		return n.names[loopback]
	}
	for bits := a.BitLen(); bits >= 0; bits-- {
		dst, _ := a.Prefix(bits)
		for _, r := range n.routes.to(dst) {
			if r.Table == tableMain && r.Type == "unicast" && r.Index != 0 && (index == 0 || r.Index == index) {
				return n.links[r.Index]
			}
		}
	}
	return nil
}

// changeTunnel makes the settings of a tunnel others.
func (k *Kernel) changeTunnel(l *link, s kernel.TunnelSpec) error {
	if l.Tunnel == nil || l.Tunnel.Kind != s.Kind {
		return refused(syscall.EOPNOTSUPP)
	}
	if l.fallback {
		return syscall.EINVAL
	}
	if err := checkTunnel(&s); err != nil {
		return err
	}
	was := l.Tunnel
	s.External = was.External
	taken := slices.ContainsFunc(l.ns.sorted(), func(other *link) bool { return other != l && other.Tunnel != nil && twins(*other.Tunnel, s) })
	other := was.Remote.IsValid() != s.Remote.IsValid() || was.Remote.IsMulticast() != s.Remote.IsMulticast()
	ipv4 := !slices.Contains(ipv6Kinds, s.Kind)
	switch {
	case taken && s.Kind != "ipip" && s.Kind != "sit":
		return refused(syscall.EEXIST)
	case other && ipv4 && s.Kind != "gretap": // it is to one end, to many or to any
		return syscall.EINVAL
	case taken:
		return refused(syscall.EEXIST)
	}
	l.Tunnel = &s
	room := l.ns.roomFor(&s)
	switch {
	case room != 0 && (!ipv4 || was.Parent != s.Parent):
		k.setMTU(l, room)
	case ipv4:
		k.setMTU(l, max(l.MTU-overhead(&s)+overhead(was), minMTU))
	}
	return nil
}

// tunnelAddresses are those that Linux makes of the ends of a tunnel that has no hardware address.
func (k *Kernel) tunnelAddresses(l *link) (list []kernel.Address) {
	s := l.Tunnel
	switch {
	case s.External, slices.Contains(ipv6Kinds, s.Kind): // of chance
		return []kernel.Address{{Prefix: linkLocal(k.newMAC()), Scope: scopeLink, Protocol: protoLinkLocal}}
	case s.Local.IsValid() && s.Kind != "sit":
		end := s.Local.As4()
		return []kernel.Address{{Prefix: netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80, 8: 2, 10: 0x5e, 11: 0xfe, 12: end[0], 13: end[1], 14: end[2], 15: end[3]}), 64),
			Scope: scopeLink, Protocol: protoLinkLocal}}
	case s.Kind == "ipip":
		return nil
	}
	ends := []netip.Addr{s.Local}
	if !s.Local.IsValid() {
		ends = l.ns.ends(s.Remote.IsValid())
	}
	for _, end := range ends {
		a := kernel.Address{Scope: scopeLink}
		b := end.As4()
		bytes := [16]byte{0: 0xfe, 1: 0x80, 12: b[0], 13: b[1], 14: b[2], 15: b[3]}
		a.Prefix = netip.PrefixFrom(netip.AddrFrom16(bytes), 64)
		if s.Kind == "sit" && !s.Remote.IsValid() {
			bytes[0], bytes[1] = 0, 0
			a.Prefix, a.Scope = netip.PrefixFrom(netip.AddrFrom16(bytes), 96), 0
		}
		list = append(list, a)
	}
	return list
}

// ends are the IPv4 addresses of a namespace that can be those of a tunnel which has none of its
// own: of one to a single end, those that others can reach.
func (n *namespace) ends(single bool) (list []netip.Addr) {
	for _, l := range n.sorted() {
		for _, a := range l.addresses {
			if l.Up && a.Prefix.Addr().Is4() && a.Scope != scopeLink && (a.Scope < scopeHost || !single) {
				list = append(list, a.Prefix.Addr())
			}
		}
	}
	return list
}

// hopLimit is that of a tunnel in IPv6 of which ip(8) is told none.
const hopLimit = 64

// tunnel reads a setting of a tunnel of IP.
func (c *request) tunnel(t *kernel.TunnelSpec, w string) bool {
	gre := slices.Contains(greKinds, t.Kind)
	switch {
	case w == "local":
		t.Local = c.addr()
	case w == "remote":
		t.Remote = c.addr()
	case w == "dev":
		t.Parent = c.device()
	case w == "ttl", w == "hoplimit":
		t.TTL = uint8(c.number())
	case w == "pmtudisc":
		t.PMTUDiscovery = true
	case w == "nopmtudisc":
		t.PMTUDiscovery = false
	case w == "encaplimit" && slices.Contains(ipv6Kinds, t.Kind):
		t.EncapLimit = nil
		if limit := c.next(); limit != "none" {
			n, err := strconv.ParseUint(limit, 0, 8)
			t.EncapLimit = new(uint32(n))
			return err == nil
		}
	case w == "key" && gre:
		t.Key = new(uint32(c.number()))
	case w == "nokey" && gre:
		t.Key = nil
	case w == "csum" && gre:
		t.Checksum = true
	case w == "nocsum" && gre:
		t.Checksum = false
	case w == "external" && gre:
		t.External = true
	default:
		return false
	}
	return true
}

// tunnelText are the settings of a tunnel of IP.
func (t *text) tunnelText(l kernel.Link) (words []string) {
	s := l.Tunnel
	if s.External {
		words = append(words, "external")
	}
	words = append(words, addressOption("local", s.Local), addressOption("remote", s.Remote), t.dev(l.NS, s.Parent))
	if s.Key != nil {
		words = append(words, fmt.Sprintf("key %d", *s.Key))
	}
	if s.Checksum {
		words = append(words, "csum")
	}
	if slices.Contains(ipv6Kinds, s.Kind) {
		limit := "none"
		if s.EncapLimit != nil {
			limit = fmt.Sprint(*s.EncapLimit)
		}
		return append(words, fmt.Sprintf("hoplimit %d", s.TTL), "encaplimit "+limit)
	}
	words = append(words, option("ttl", s.TTL))
	if !s.PMTUDiscovery {
		words = append(words, "nopmtudisc")
	}
	return words
}

// The port of Geneve, and what its headers take of a packet.
const (
	genevePort                       = 6081
	geneveOverhead4, geneveOverhead6 = 50, 70
	externalGeneveMTU                = 65465
)

// typedGeneve gives a link what it has as a Geneve device.
func (k *Kernel) typedGeneve(l *link, s kernel.GeneveSpec) error {
	s.Port = cmp.Or(s.Port, genevePort)
	if s.External {
		s.VNI, s.Remote = 0, netip.Addr{}
	}
	switch {
	case s.VNI >= 1<<24:
		return syscall.ERANGE
	case s.Remote.IsMulticast():
		return syscall.EINVAL
	}
	errno := syscall.Errno(0)
	for _, other := range l.ns.links {
		o := other.Geneve
		switch {
		case o == nil || o.Port != s.Port:
		case o.VNI == s.VNI && o.Remote == s.Remote:
			return syscall.EBUSY
		case o.External || s.External:
			errno = syscall.EPERM
		}
	}
	if errno != 0 {
		return errno
	}
	l.Type, l.Geneve = "geneve", &s
	below := l.ns.linkTo(s.Remote, 0)
	switch {
	case s.External:
		l.MTU = externalGeneveMTU
	case below != nil && s.Remote.Is4():
		l.MTU = min(below.MTU, maxMTU) - geneveOverhead4
	case below != nil:
		l.MTU = min(below.MTU, maxMTU) - geneveOverhead6
	}
	return nil
}

// changeGeneve gives a Geneve device another end, of the same family, or time to live.
func (k *Kernel) changeGeneve(l *link, s kernel.GeneveSpec) error {
	is := l.Geneve
	if is == nil || is.External || s.VNI != is.VNI || s.Remote.BitLen() != is.Remote.BitLen() {
		return refused(syscall.EOPNOTSUPP)
	}
	if s.Remote.IsMulticast() {
		return syscall.EINVAL
	}
	l.Geneve = &kernel.GeneveSpec{VNI: is.VNI, Remote: s.Remote, Port: is.Port, TTL: s.TTL}
	return nil
}

// geneve reads a setting of a Geneve device.
func (c *request) geneve(g *kernel.GeneveSpec, w string) bool {
	switch w {
	case "id":
		g.VNI = uint32(c.number())
	case "remote":
		g.Remote = c.addr()
	case "dstport":
		g.Port = c.number()
	case "ttl":
		g.TTL = uint8(c.number())
	case "external":
		g.External = true
	default:
		return false
	}
	return true
}

// geneveText are the settings of a Geneve device.
func geneveText(g *kernel.GeneveSpec) []string {
	to := fmt.Sprintf("id %d", g.VNI)
	if g.External {
		to = "external"
	}
	return []string{to, addressOption("remote", g.Remote), fmt.Sprintf("dstport %d", g.Port), option("ttl", g.TTL)}
}
