package cni

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// The modes of a network.
const (
	modeBridge = "bridge"
	modeRouted = "routed"
	modeIntent = "intent"
)

// network is what the attachments of one network share.
type network struct {
	name    string // of its values: "cni:blue"
	mode    string
	bridge  string // host name, in mode bridge
	mtu     uint32
	forward bool // it passes the firewall of the host
	masked  bool // what leaves the network has an address of the host
	subnets []subnet
	shared  []Want
	ways    ways
	// Of a network whose addresses another plugin gives:
	given  []netip.Prefix // the address of each subnet
	routes []spec.Route
}

// subnet is where the addresses of one family come from.
type subnet struct {
	pool    string // name of the ippool
	network netip.Prefix
	gateway netip.Addr // zero: there is none
	router  string     // the gateway's address as an interface of the host names it
	// foreign: the network is that of others, by a bridge of which this one is a part.
	foreign bool
}

// networkOf is the network of a call, with the ippools of operators that it names, or
// with what the plugin has given that it names for addresses.
func networkOf(conf spec.Config, pools map[string]*models.IPPool, ipam *spec.Result) (network, *spec.Error) {
	n := network{name: sharedName(conf.Name), mode: cmp.Or(conf.Mode, modeBridge), mtu: conf.MTU, bridge: conf.Bridge, masked: conf.Masquerade, forward: conf.Forward, ways: waysOf(conf)}
	if n.mode == modeIntent { // and nobody has wanted anything
		n.mode = modeBridge
	}
	switch {
	case conf.Delegate() != "":
		if wrong := n.delegated(conf.Delegate(), ipam); wrong != nil {
			return n, wrong
		}
	case len(conf.Pool) == 0:
		return n, invalid("pool is missing: a network such as 10.62.0.0/24, or the name of an ippool")
	}
	for i, text := range conf.Pool {
		if wrong := n.addPool(i, text, pools[text]); wrong != nil {
			return n, wrong
		}
	}
	if n.mode == modeBridge {
		n.addBridge(conf.Name)
	}
	if n.masked {
		n.addMasquerade(conf.Name)
	}
	return n, check(n.shared)
}

// sharedName begins the names of a network's values.
func sharedName(network string) string { return ownPrefix + network }

// addPool adds what an ippool gives: one of the network's own, or an operator's.
func (n *network) addPool(i int, text string, v *models.IPPool) *spec.Error {
	s := subnet{pool: text}
	if p, err := netip.ParsePrefix(text); err == nil {
		s.pool, s.network, s.gateway = numbered(n.name, i), p.Masked(), p.Masked().Addr()
		if p.Bits() < p.Addr().BitLen()-1 {
			s.gateway = s.gateway.Next()
		}
		if wrong := usable(text, s); wrong != nil {
			return wrong
		}
		v = &models.IPPool{Network: s.network.String(), Gateway: s.gateway.String()}
		if n.mode == modeRouted {
			v.ClaimLength = uint32(p.Addr().BitLen())
		}
		n.shared = append(n.shared, Want{models.IPPoolKey(s.pool), v})
	} else if v != nil {
		s.network, _ = netip.ParsePrefix(v.GetNetwork())
		s.gateway, _ = netip.ParseAddr(v.GetGateway())
		if wrong := usable(models.IPPoolKey(text), s); wrong != nil {
			return wrong
		}
		if alone := uint32(s.network.Addr().BitLen()); n.mode == modeRouted && v.GetClaimLength() != alone {
			return invalid("ippool/%s: in mode routed it needs claim_length: %d, since there is no network on the link", text, alone)
		}
	} else if err := models.CheckName(text); err != nil {
		return invalid("pool: %q is neither a network such as 10.62.0.0/24 nor the name of an ippool: %v", text, err)
	} else {
		return &spec.Error{Code: spec.TryLater, Msg: "the ippool is not there", Details: models.IPPoolKey(text)}
	}
	for _, o := range n.subnets {
		if o.network.Addr().BitLen() == s.network.Addr().BitLen() {
			return invalid("pool: %s and %s are of one family", o.network, s.network)
		}
	}
	if s.gateway.IsValid() {
		claim := numbered(n.name+":gateway", i)
		n.shared = append(n.shared, Want{models.IPClaimKey(claim), &models.IPClaim{Pool: s.pool, Address: s.gateway.String()}})
		s.router = models.ClaimPrefix + claim
	}
	n.subnets = append(n.subnets, s)
	return nil
}

// same reports whether attachments of the one can be attachments of the other.
func (n network) same(o network) bool {
	return n.mode == o.mode && n.bridge == o.bridge && n.mtu == o.mtu && n.masked == o.masked && n.forward == o.forward && slices.Equal(n.subnets, o.subnets)
}
