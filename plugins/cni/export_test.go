package cni

import (
	"errors"
	"net/netip"
	"strings"

	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// PoolNetwork is the network of a pool that a configuration names.
func PoolNetwork(pool string) (netip.Prefix, error) {
	n, wrong := networkOf(spec.Config{Name: "blue", Pool: spec.Pools{pool}}, nil, nil)
	if wrong != nil {
		return netip.Prefix{}, wrong
	}
	if len(n.subnets) != 1 {
		return netip.Prefix{}, errors.New("it has no network")
	}
	return n.subnets[0].network, nil
}

// RuntimeOf is what a call asks for besides the network, or why it is refused.
func RuntimeOf(c Call) (string, *spec.Error) {
	if wrong := refusedArgs(c); wrong != nil {
		return "", wrong
	}
	rt, wrong := c.runtime()
	return strings.Join(append(rt.IPs, rt.Mac), " "), wrong
}
