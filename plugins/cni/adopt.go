package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/network"
	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/plugins/cni/wire"
	"github.com/plumb-net/plumb/scheduler"
)

// ErrNotAsFound: an attachment without a record cannot be described by a configuration.
var ErrNotAsFound = errors.New("it cannot be told what was configured")

// adoptTime is how long what is there already may take to be seen as configured.
const adoptTime = 10 * time.Second

// Adopt makes a record again of the attachment that an operator names: its
// configuration is told from another of its network, or from what is there. Nothing is
// done that would take anything away from the container.
func (s *Service) Adopt(ctx context.Context, id string) (Attachment, error) {
	f, err := s.named(ctx, id)
	switch {
	case err != nil:
		return Attachment{}, err
	case f.Key.ContainerID == "":
		return Attachment{}, fmt.Errorf("%w: no runtime knows a container that it is of; name it by the container's id", ErrNotAsFound)
	case f.Netns == "":
		return Attachment{}, fmt.Errorf("%w: no path leads to its network namespace, %d", ErrNotAsFound, f.Inode)
	}
	ctx, leave, err := s.queue.Enter(ctx, f.Key, false)
	if err != nil {
		return Attachment{}, err
	}
	defer leave()
	c, err := s.callOf(ctx, f)
	if err != nil {
		return Attachment{}, fmt.Errorf("%w: %w", ErrNotAsFound, err)
	}
	return s.adopt(ctx, c)
}

// adopt wants what a call describes, if that is what is there.
func (s *Service) adopt(ctx context.Context, c Call) (a Attachment, err error) {
	wants, wrong := s.join(&c)
	if wrong != nil {
		return a, wrong
	}
	add := s.byPool("adopt", c, wants)
	plan, err := s.engine.Preview(ctx, add.begin)
	for _, step := range plan.Steps {
		if err == nil && (step.Op == scheduler.OpDelete || step.Disruption > scheduler.Brief) {
			err = fmt.Errorf("%w: to make it so, %s would have to go: %s", ErrNotAsFound, step.Key, step.Reason)
		}
	}
	if err == nil {
		err = s.store.Begin(add.record)
	}
	if err != nil {
		s.part(c.Key())
		return a, err
	}
	s.engine.Submit(add.begin)
	ctx, cancel := context.WithTimeout(ctx, adoptTime)
	defer cancel()
	_, err = s.await(ctx, c, add)
	result, untold := s.result(ctx, c, wants)
	if err = errors.Join(err, untold, s.store.Commit(c.Key(), result)); err != nil {
		return a, fmt.Errorf("it has a record again, but: %w", err)
	}
	a, _ = s.store.Get(c.Key())
	if p := podIn(a.Args); p.Name != "" {
		s.host.AttachmentsChanged(p)
	}
	return a, nil
}

// callOf is an ADD that would have made what is there.
func (s *Service) callOf(ctx context.Context, f Forgotten) (c Call, err error) {
	var config map[string]any
	var pools map[string]*models.IPPool
	for _, a := range s.store.Of(f.Key.Network) {
		if json.Unmarshal(a.Config, &config) == nil {
			pools = decodePools(a.Pools)
			delete(config, "prevResult")
			break
		}
	}
	if config == nil {
		if config, err = s.configOf(ctx, f); err != nil {
			return c, err
		}
	}
	config["runtimeConfig"] = f.runtimeConfig()
	text, err := json.Marshal(config)
	if err != nil {
		return c, err
	}
	c, wrong := Parse(wire.Request{Protocol: wire.Version, Config: text, Inode: f.Inode,
		Args: spec.Args{Command: "ADD", ContainerID: f.Key.ContainerID, IfName: f.Key.IfName, Netns: f.Netns}})
	if wrong != nil {
		return c, wrong
	}
	if c.Network.Delegate() != "" {
		c.IPAM = f.given()
		rest := f.runtimeConfig()
		delete(rest, "ips")
		config["runtimeConfig"] = rest
		if c.Config, err = json.Marshal(config); err != nil {
			return c, err
		}
	}
	if c.pools = s.pools(ctx, c.Network); len(c.pools) == 0 {
		c.pools = pools
	}
	return c, nil
}

// configOf is a configuration of the network of which nothing but values is left.
func (s *Service) configOf(ctx context.Context, f Forgotten) (map[string]any, error) {
	name := network.SharedName(f.Key.Network)
	if f.unknown != "" {
		return nil, fmt.Errorf("the address of %s is unknown", models.IPClaimKey(f.unknown))
	}
	config := map[string]any{"cniVersion": "1.0.0", "name": f.Key.Network, "type": "plumb-cni", "mode": network.ModeRouted}
	inside, _ := f.values[models.InterfaceKey(name+":"+f.Digest)].(*models.Interface)
	outside, _ := f.values[models.InterfaceKey(name+":"+f.Digest+"-host")].(*models.Interface)
	switch {
	case inside == nil || outside == nil && inside.Parent() == "":
		return nil, errors.New("an end of its cable is missing")
	case inside.Parent() != "":
		stackedConfig(config, inside)
	}
	if inside.GetMtu() != usualMTU {
		config["mtu"] = inside.GetMtu()
	}
	switch master := outside.GetMaster(); master {
	case "":
	case name:
		config["mode"] = network.ModeBridge
		st, err := s.engine.Get(ctx, scheduler.Key(models.InterfaceKey(outside.GetMaster())))
		v, ok := st.Actual.(*models.Interface)
		if err != nil || !ok {
			return nil, errors.New("its bridge is missing")
		}
		config["bridge"] = v.GetHostName()
	default:
		config["mode"], config["master"] = network.ModeBridge, master
		portConfig(config, outside.GetBridgePort())
	}
	if s.present(ctx, models.NftablesKey(name)) {
		config["masquerade"] = true
	}
	if settings := f.settings(); len(settings) > 0 {
		config["sysctl"] = settings
	}
	if len(f.Addresses) == 0 {
		config["ipam"] = map[string]any{}
		return config, nil
	}
	pools, err := s.poolsOf(ctx, f)
	config["pool"] = pools
	return config, err
}

// usualMTU is what links have whose configuration does not say it.
const usualMTU = 1500

// poolsOf are the pools of the addresses: as claims name them, or the network that is on
// the link.
func (s *Service) poolsOf(ctx context.Context, f Forgotten) (pools []string, err error) {
	for _, text := range f.Addresses {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		pool := ""
		for _, v := range f.values {
			if claim, ok := v.(*models.IPClaim); ok && claim.GetAddress() == p.Addr().String() {
				pool = claim.GetPool()
			}
		}
		if strings.HasPrefix(pool, network.SharedName(f.Key.Network)) {
			st, err := s.engine.Get(ctx, scheduler.Key(models.IPPoolKey(pool)))
			v, ok := st.Actual.(*models.IPPool)
			if pool = ""; err == nil && ok {
				pool = v.GetNetwork()
			}
		}
		if pool == "" && p.Bits() < p.Addr().BitLen() {
			pool = p.Masked().String()
		}
		if pool == "" {
			return nil, fmt.Errorf("nothing says which pool %s is of", p.Addr())
		}
		if !slices.Contains(pools, pool) {
			pools = append(pools, pool)
		}
	}
	if len(pools) == 0 {
		return nil, errors.New("it has no address")
	}
	return pools, nil
}

// runtimeConfig is what a runtime has asked for, or might have: the addresses, the
// hardware address and the ports that are there.
func (f Forgotten) runtimeConfig() map[string]any {
	rt := map[string]any{}
	if len(f.Addresses) > 0 {
		rt["ips"] = f.Addresses
	}
	for _, v := range f.values {
		switch v := v.(type) {
		case *models.Interface:
			if v.GetNamespace() != nil && v.GetMacAddress() != "" {
				rt["mac"] = v.GetMacAddress()
			}
		case *models.Nftables:
			if ports := network.PortsOf(v); len(ports) > 0 {
				rt["portMappings"] = ports
			}
		}
	}
	return rt
}

// settings are those of the container's network.
func (f Forgotten) settings() map[string]string {
	settings := map[string]string{}
	for _, v := range f.values {
		if v, ok := v.(*models.Sysctl); ok {
			settings[v.GetKey()] = v.GetValue()
		}
	}
	return settings
}

// given is what another plugin has given, told from addresses and routes.
func (f Forgotten) given() *spec.Result {
	r := &spec.Result{CNIVersion: spec.Latest}
	for _, text := range f.Addresses {
		r.IPs = append(r.IPs, spec.IP{Address: text})
	}
	for _, v := range f.values {
		route, ok := v.(*models.Route)
		if dst, err := route.Prefix(); ok && err == nil {
			r.Routes = append(r.Routes, spec.Route{Dst: dst.String(), GW: route.GetGateway()})
			for i := range r.IPs {
				if p, err := netip.ParsePrefix(r.IPs[i].Address); err == nil && dst.Bits() == 0 && p.Addr().Is4() == dst.Addr().Is4() {
					r.IPs[i].Gateway = route.GetGateway()
				}
			}
		}
	}
	return r
}
