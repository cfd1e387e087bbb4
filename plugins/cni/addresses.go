package cni

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/scheduler"
)

// address is one that an attachment has.
type address struct {
	name   string // as an interface names it: claim:… or in CIDR notation
	to     string // as the destination of a route
	source string // as the source of a route
	subnet        // where it is from
}

// addresses are those of an attachment: what the runtime asks for, and of each
// family that it does not ask for, any. The claims hold them.
func (n network) addresses(inside string, rt runtimeConfig) (list []address, claims []Want, wrong *spec.Error) {
	if n.given != nil { // by a plugin that has heard what the runtime asks for
		return n.givenAddresses(), nil, nil
	}
	wanted := make([][]string, len(n.subnets))
	for _, text := range rt.IPs {
		i, ip, wrong := n.home(rt.source, text)
		if wrong != nil {
			return nil, nil, wrong
		}
		wanted[i] = append(wanted[i], ip)
	}
	for i, s := range n.subnets {
		if len(wanted[i]) == 0 {
			wanted[i] = []string{""}
		}
		for _, ip := range wanted[i] {
			name := numbered(inside, len(list))
			claims = append(claims, Want{models.IPClaimKey(name), &models.IPClaim{Pool: s.pool, Address: ip}})
			name = models.ClaimPrefix + name
			list = append(list, address{name: name, to: name, source: name, subnet: s})
		}
	}
	return list, claims, nil
}

// home finds the pool of an address that a runtime asks for, with or without a length.
func (n network) home(source, text string) (i int, ip string, wrong *spec.Error) {
	a, err := netip.ParseAddr(text)
	if p, cidr := netip.ParsePrefix(text); cidr == nil {
		a, err = p.Addr(), nil
	}
	if err != nil {
		return 0, "", invalid("%s: %q is no IP address", source, text)
	}
	for i, s := range n.subnets {
		switch {
		case a == s.gateway:
			return 0, "", inUse("runtimeConfig.ips: %s is the address of the network's gateway", a)
		case s.network.Contains(a):
			return i, a.String(), nil
		}
	}
	return 0, "", invalid("%s: %s is in no pool of the network", source, a)
}

// pools are the ippools of operators that a network names, as far as there are any.
func (s *Service) pools(ctx context.Context, c spec.Config) map[string]*models.IPPool {
	pools := map[string]*models.IPPool{}
	for _, name := range c.Pool {
		if models.CheckName(name) != nil {
			continue
		}
		st, err := s.engine.Get(ctx, scheduler.Key(models.IPPoolKey(name)))
		if v, ok := st.Desired.(*models.IPPool); ok && err == nil {
			pools[name] = v
		}
	}
	return pools
}

// encodePools and decodePools keep pools in the store.
func encodePools(pools map[string]*models.IPPool) map[string]json.RawMessage {
	texts := map[string]json.RawMessage{}
	for name, v := range pools {
		texts[name] = models.Encode(v)
	}
	return texts
}

func decodePools(texts map[string]json.RawMessage) map[string]*models.IPPool {
	pools := map[string]*models.IPPool{}
	for name, text := range texts {
		if v, err := models.DecodeValue[*models.IPPool](text); err == nil {
			pools[name] = v
		}
	}
	return pools
}

// exhausted says which claim waits for an address of a pool that has none: they are freed
// when containers go, and for that no call waits.
func (s *Service) exhausted(ctx context.Context, wants []Want) error {
	for _, w := range wants {
		v, ok := w.Value.(*models.IPClaim)
		if !ok || v.Wanted().IsValid() || !s.host.Full(v.GetPool()) {
			continue
		}
		st, err := s.engine.Get(ctx, scheduler.Key(models.IPLeaseKey(v.GetPool(), nameOf(scheduler.Key(w.Key)), v.Wanted())))
		if lease, ok := st.Actual.(*models.IPLease); err == nil && ok && lease.GetAddress() == "" {
			return fmt.Errorf("%s has no free address: %s", models.IPPoolKey(v.GetPool()), lease.GetReason())
		}
	}
	return nil
}
