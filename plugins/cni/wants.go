package cni

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// Want is one value that a call asks for.
type Want struct {
	Key   string
	Value proto.Message
}

// network is what the attachments of one network share, in mode bridge.
type network struct {
	name    string // of its values: "cni:blue"
	pool    string // name of the ippool
	shared  []Want
	gateway netip.Addr
	bridge  string // host name
	mtu     uint32
}

// runtimeConfig is what a runtime adds for one container.
type runtimeConfig struct {
	IPs          []string          `json:"ips"`
	Mac          string            `json:"mac"`
	PortMappings []json.RawMessage `json:"portMappings"`
}

// unsupported refuses what is not there yet, before anything is touched.
func unsupported(field, format string, args ...any) *spec.Error {
	return &spec.Error{Code: spec.Unsupported, Msg: "unsupported field", Details: field + ": " + fmt.Sprintf(format, args...)}
}

// networkOf is the network of a call. gateway tells the gateway of a pool that an
// operator wrote.
func networkOf(c spec.Config, gateway func(pool string) netip.Addr) (network, *spec.Error) {
	n := network{name: "cni:" + c.Name, mtu: c.MTU, bridge: c.Bridge}
	switch {
	case c.Mode != "" && c.Mode != "bridge":
		return n, unsupported("mode", "%q is not there yet", c.Mode)
	case c.Masquerade:
		return n, unsupported("masquerade", "true is not there yet")
	case len(c.IPAM) > 2:
		return n, unsupported("ipam", "%s: plugins of others are not called yet", c.IPAM)
	case c.Pool == "":
		return n, &spec.Error{Code: spec.BadConfig, Msg: "invalid network configuration", Details: "pool is missing: a network such as 10.62.0.0/24, or the name of an ippool"}
	}
	if n.bridge == "" {
		n.bridge = "pb" + digest(c.Name)[:12]
	}
	br := &models.Interface{HostName: n.bridge, Mtu: n.mtu, Link: &models.Interface_Bridge{Bridge: &models.Bridge{}}}
	if p, err := netip.ParsePrefix(c.Pool); err != nil {
		n.pool, n.gateway = c.Pool, gateway(c.Pool)
	} else {
		n.pool, n.gateway = n.name, p.Masked().Addr()
		if p.Bits() < p.Addr().BitLen()-1 {
			n.gateway = n.gateway.Next()
		}
		n.shared = append(n.shared, Want{models.IPPoolKey(n.pool), &models.IPPool{Network: p.Masked().String(), Gateway: n.gateway.String()}})
	}
	if n.gateway.IsValid() {
		claim := n.name + ":gateway"
		n.shared = append(n.shared, Want{models.IPClaimKey(claim), &models.IPClaim{Pool: n.pool, Address: n.gateway.String()}})
		br.Addresses = []string{models.ClaimPrefix + claim}
	}
	n.shared = append(n.shared, Want{models.InterfaceKey(n.name), br})
	return n, n.check(n.shared)
}

// attach is what one attachment wants besides: an address, a cable from the
// container to the bridge, and a default route by the bridge.
func (n network) attach(c Call) ([]Want, *spec.Error) {
	var rt runtimeConfig
	if len(c.Network.RuntimeConfig) > 0 {
		if err := json.Unmarshal(c.Network.RuntimeConfig, &rt); err != nil {
			return nil, &spec.Error{Code: spec.BadJSON, Msg: "runtimeConfig cannot be decoded", Details: err.Error()}
		}
	}
	switch {
	case len(rt.PortMappings) > 0:
		return nil, unsupported("runtimeConfig.portMappings", "they are not there yet")
	case len(rt.IPs) > 1:
		return nil, unsupported("runtimeConfig.ips", "%v: one address for each interface", rt.IPs)
	}
	id := digest(c.Key().String())
	inside, outside := n.name+":"+id, n.name+":"+id+"-host"
	claim := &models.IPClaim{Pool: n.pool}
	if len(rt.IPs) == 1 {
		claim.Address = rt.IPs[0]
		if p, err := netip.ParsePrefix(rt.IPs[0]); err == nil {
			claim.Address = p.Addr().String()
		}
	}
	wants := []Want{
		{models.IPClaimKey(inside), claim},
		{models.InterfaceKey(inside), &models.Interface{
			Namespace: &models.Namespace{In: &models.Namespace_Path{Path: c.Netns}}, HostName: c.IfName, Mtu: n.mtu, MacAddress: macOf(rt.Mac, id),
			Addresses: []string{models.ClaimPrefix + inside}, Link: &models.Interface_Veth{Veth: &models.Veth{Peer: outside}}}},
		{models.InterfaceKey(outside), &models.Interface{HostName: "pv" + id[:12], Mtu: n.mtu, Master: n.name,
			Link: &models.Interface_Veth{Veth: &models.Veth{Peer: inside}}}},
	}
	if n.gateway.IsValid() {
		wants = append(wants, Want{models.RouteKey(inside), &models.Route{Interface: inside, Destination: everywhere(n.gateway), Gateway: n.gateway.String()}})
	}
	return wants, n.check(wants)
}

// check refuses what no value of ours can be.
func (n network) check(wants []Want) *spec.Error {
	for _, w := range wants {
		if err := models.Validate(w.Key, w.Value); err != nil {
			return &spec.Error{Code: spec.BadConfig, Msg: "invalid network configuration", Details: fmt.Sprintf("%s: %v", w.Key, err)}
		}
	}
	return nil
}

func everywhere(a netip.Addr) string {
	if a.Is4() {
		return "0.0.0.0/0"
	}
	return "::/0"
}

// digest is a short name for a long one.
func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:8])
}

// macOf is the hardware address that was asked for, or one made of the name: it is
// in the result before the kernel could have chosen one.
func macOf(asked, id string) string {
	if asked != "" {
		return asked
	}
	mac := "02"
	for i := 0; i < 10; i += 2 {
		mac += ":" + id[i:i+2]
	}
	return mac
}

// keysOf are the keys of wants.
func keysOf(wants []Want) []string {
	keys := make([]string, len(wants))
	for i, w := range wants {
		keys[i] = w.Key
	}
	slices.Sort(keys)
	return keys
}
