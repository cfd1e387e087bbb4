package cni

import (
	"errors"
	"net/netip"
	"strings"

	"github.com/plumb-net/plumb/plugins/cni/network"
	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// PoolNetwork is the network of a pool that a configuration names.
func PoolNetwork(pool string) (netip.Prefix, error) {
	n, wrong := network.New(spec.Config{Name: "blue", Pool: spec.Pools{pool}}, nil, nil)
	if wrong != nil {
		return netip.Prefix{}, wrong
	}
	if len(n.Subnets) != 1 {
		return netip.Prefix{}, errors.New("it has no network")
	}
	return n.Subnets[0].Prefix, nil
}

// RuntimeOf is what a call asks for besides the network, or why it is refused.
func RuntimeOf(c Call) (string, *spec.Error) {
	if wrong := spec.CheckArgs(c.Args.Args); wrong != nil {
		return "", wrong
	}
	rt, wrong := c.runtime()
	return strings.Join(append(rt.IPs, rt.Mac), " "), wrong
}

// attach is what a call wants of its network.
func attach(n network.Network, c Call) ([]network.Want, *spec.Error) {
	rt, wrong := c.runtime()
	if wrong != nil {
		return nil, wrong
	}
	return n.Attach(c.endpoint(rt))
}
