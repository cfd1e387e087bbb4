package network

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// The modes of a network. In mode intent the intent has the interfaces of containers; in the others
// their configuration has them.
const (
	ModeBridge  = "bridge"
	ModeRouted  = "routed"
	ModeMacvlan = "macvlan"
	ModeIpvlan  = "ipvlan"
	ModeVlan    = "vlan"
	ModeIntent  = "intent"
)

// Network is what the attachments of one network share.
type Network struct {
	Name    string // of its values: "cni:blue"
	Mode    string
	Bridge  string // host name of the bridge that the network creates in mode bridge, else ""
	Forward bool   // it passes the firewall of the host
	Masked  bool   // what leaves the network has an address of the host
	Subnets []Subnet
	Shared  []Want // what the network itself wants

	// Link describes the links of attachments. Its Master is "" unless they use an interface of the intent.
	Link spec.Link

	mtu    uint32
	ways   ways
	guards guards
	// Of a network whose addresses another plugin gives:
	given  []netip.Prefix // the address of each subnet
	routes []spec.Route
}

// Subnet is where the addresses of one family come from.
type Subnet struct {
	Pool   string // name of the ippool
	Prefix netip.Prefix
	// Foreign: the network extends beyond this host, by a bridge or a parent that is connected to others.
	// Its gateway is another machine.
	Foreign bool

	gateway netip.Addr // zero: there is none
	router  string     // the gateway's address as an interface of the host names it
}

// New is the network of a configuration, with the ippools of operators that it names, or
// with what the plugin has given that it names for addresses.
func New(conf spec.Config, pools map[string]*models.IPPool, ipam *spec.Result) (Network, *spec.Error) {
	n := Network{Name: SharedName(conf.Name), Mode: cmp.Or(conf.Mode, ModeBridge), Bridge: conf.Bridge, Link: conf.Link, Masked: conf.Masquerade, Forward: conf.Forward, mtu: conf.MTU, ways: waysOf(conf), guards: guardsOf(conf)}
	if n.Mode == ModeIntent { // and nobody has wanted anything
		n.Mode = ModeBridge
	}
	switch {
	case conf.Delegate() != "":
		if wrong := n.delegated(conf.Delegate(), ipam); wrong != nil {
			return n, wrong
		}
	case len(conf.Pool) == 0 && !conf.Layer2():
		return n, spec.Invalid("pool is missing: a network such as 10.62.0.0/24, or the name of an ippool; \"ipam\": {} is a network without addresses")
	}
	for i, text := range conf.Pool {
		if wrong := n.addPool(i, text, pools[text]); wrong != nil {
			return n, wrong
		}
	}
	if n.Mode == ModeBridge && n.Link.Master == "" {
		n.addBridge(conf.Name)
	}
	if n.Masked {
		n.addMasquerade(conf.Name)
	}
	return n, check(n.Shared)
}

// addPool adds what an ippool gives: one of the network's own, or an operator's.
func (n *Network) addPool(i int, text string, v *models.IPPool) *spec.Error {
	s := Subnet{Pool: text, Foreign: n.Link.Master != ""}
	if p, err := netip.ParsePrefix(text); err == nil {
		s.Pool, s.Prefix, s.gateway = Numbered(n.Name, i), p.Masked(), p.Masked().Addr()
		if p.Bits() < p.Addr().BitLen()-1 {
			s.gateway = s.gateway.Next()
		}
		if wrong := usable(text, s); wrong != nil {
			return wrong
		}
		v = &models.IPPool{Network: s.Prefix.String(), Gateway: s.gateway.String()}
		if n.Mode == ModeRouted {
			v.ClaimLength = uint32(p.Addr().BitLen())
		}
		n.Shared = append(n.Shared, Want{models.IPPoolKey(s.Pool), v})
	} else if v != nil {
		s.Prefix, _ = netip.ParsePrefix(v.GetNetwork())
		s.gateway, _ = netip.ParseAddr(v.GetGateway())
		if wrong := usable(models.IPPoolKey(text), s); wrong != nil {
			return wrong
		}
		if alone := uint32(s.Prefix.Addr().BitLen()); n.Mode == ModeRouted && v.GetClaimLength() != alone {
			return spec.Invalid("ippool/%s: in mode routed it needs claim_length: %d, since there is no network on the link", text, alone)
		}
	} else if err := models.CheckName(text); err != nil {
		return spec.Invalid("pool: %q is neither a network such as 10.62.0.0/24 nor the name of an ippool: %v", text, err)
	} else {
		return &spec.Error{Code: spec.TryLater, Msg: "the ippool is not there", Details: models.IPPoolKey(text)}
	}
	for _, o := range n.Subnets {
		if o.Prefix.Addr().BitLen() == s.Prefix.Addr().BitLen() {
			return spec.Invalid("pool: %s and %s are of one family", o.Prefix, s.Prefix)
		}
	}
	if s.gateway.IsValid() && !s.Foreign { // an ippool gives its gateway to no other claim
		claim := Numbered(n.Name+":gateway", i)
		n.Shared = append(n.Shared, Want{models.IPClaimKey(claim), &models.IPClaim{Pool: s.Pool, Address: s.gateway.String()}})
		s.router = models.ClaimPrefix + claim
	}
	n.Subnets = append(n.Subnets, s)
	return nil
}

// Same reports whether attachments of the one can be attachments of the other.
func (n Network) Same(o Network) bool {
	return n.Mode == o.Mode && n.Bridge == o.Bridge && n.Link.Master == o.Link.Master && n.mtu == o.mtu && n.Masked == o.Masked && n.Forward == o.Forward && slices.Equal(n.Subnets, o.Subnets)
}

// foreignPool reports whether another plugin gives the addresses of a network that extends beyond this host. It has
// to keep such networks apart.
func (s Subnet) foreignPool() bool { return s.Foreign && s.Pool == "" }

// Overlaps reports whether two networks have addresses in common, of which the host
// could reach but one. An ippool may be shared where the host itself has no address of it,
// and by networks on which each address stands alone: it gives none twice.
func (n Network) Overlaps(o Network) (mine, theirs netip.Prefix, both bool) {
	for _, a := range n.Subnets {
		for _, b := range o.Subnets {
			shared := a.Pool == b.Pool && a.Pool != "" && a.router == "" && b.router == ""
			apart := n.given != nil && o.given != nil && n.Mode == ModeRouted && o.Mode == ModeRouted
			if Overlap(a.Prefix, b.Prefix) && !shared && !apart && !a.foreignPool() && !b.foreignPool() {
				return a.Prefix, b.Prefix, true
			}
		}
	}
	return mine, theirs, false
}
