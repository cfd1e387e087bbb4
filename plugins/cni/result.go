package cni

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/network"
	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/scheduler"
)

// result is what a runtime is told of what was made: the ends of the host first, then
// those of the container, the one that it asked for at their head.
func (s *Service) result(ctx context.Context, c Call, wants []network.Want) (spec.Result, error) {
	rt, _ := c.runtime() // it was checked
	b := resultBuilder{Service: s, c: c, r: spec.Result{CNIVersion: spec.Latest, DNS: rt.Resolver(c.Network, c.IPAM)}, at: map[string]int{}}
	var asked, own []network.Want
	for _, w := range wants {
		v, ok := w.Value.(*models.Interface)
		switch {
		case !ok || v.GetLoopback() != nil:
		case v.GetNamespace() == nil:
			b.addInterface(w.Key, v)
		case b.sandbox(v) != "" && v.EffectiveHostName(w.Key) == c.IfName:
			asked = append(asked, w)
		case b.sandbox(v) != "":
			own = append(own, w)
		}
	}
	for _, w := range append(asked, own...) {
		v, _ := w.Value.(*models.Interface)
		b.addInterface(w.Key, v)
		if err := b.addAddresses(ctx, w.Key, v); err != nil {
			return b.r, err
		}
	}
	for _, w := range wants {
		if v, ok := w.Value.(*models.Route); ok {
			b.addRoute(v)
		}
	}
	b.addGateways(network.Gateways(wants, c.pools))
	return merge(c.previous(), b.r), nil
}

// addGateways tells of the gateways to which no default route leads: those of the network,
// and those that another plugin has given.
func (b *resultBuilder) addGateways(own []netip.Addr) {
	for i := range b.r.IPs {
		p, err := netip.ParsePrefix(b.r.IPs[i].Address)
		if err != nil || b.r.IPs[i].Gateway != "" {
			continue
		}
		for _, gw := range own {
			if network.SameFamily(gw, p.Addr()) {
				b.r.IPs[i].Gateway = gw.String()
			}
		}
		if b.c.IPAM == nil {
			continue
		}
		for _, given := range b.c.IPAM.IPs {
			if host, _, _ := strings.Cut(given.Address, "/"); strings.HasPrefix(b.r.IPs[i].Address, host+"/") {
				b.r.IPs[i].Gateway = given.Gateway
			}
		}
	}
}

// resultBuilder makes a result of values that are configured.
type resultBuilder struct {
	*Service
	c  Call
	r  spec.Result
	at map[string]int // index of an interface by its logical name
}

// sandbox is the namespace of the container, if that is where an interface lives.
func (b *resultBuilder) sandbox(v *models.Interface) string {
	if in := v.GetNamespace(); in.GetPath() == b.c.Netns || in.GetPod() != "" && slices.Contains(b.c.pods(), in.GetPod()) {
		return b.c.Netns
	}
	return ""
}

// addInterface adds an interface. The kernel has chosen the MAC and the MTU that its value lacks.
func (b *resultBuilder) addInterface(key string, v *models.Interface) {
	b.at[strings.TrimPrefix(key, models.KindInterface+"/")] = len(b.r.Interfaces)
	told := spec.Interface{Name: v.EffectiveHostName(key), Mac: v.GetMacAddress(), MTU: int(v.GetMtu()), Sandbox: b.sandbox(v)}
	if link, err := b.host.Link(told.Sandbox, told.Name); err == nil && (told.Mac == "" || told.MTU == 0) {
		told.Mac, told.MTU = cmp.Or(told.Mac, link.MAC), cmp.Or(told.MTU, link.MTU)
	}
	b.r.Interfaces = append(b.r.Interfaces, told)
}

func (b *resultBuilder) addAddresses(ctx context.Context, key string, v *models.Interface) error {
	at := b.at[strings.TrimPrefix(key, models.KindInterface+"/")]
	for _, text := range v.GetAddresses() {
		if claim, claimed := strings.CutPrefix(text, models.ClaimPrefix); claimed {
			var err error
			if text, err = b.lease(ctx, claim); err != nil {
				return err
			}
		}
		b.r.IPs = append(b.r.IPs, spec.IP{Interface: &at, Address: text})
	}
	return nil
}

// lease is the address that a claim holds.
func (s *Service) lease(ctx context.Context, claim string) (string, error) {
	st, err := s.engine.Get(ctx, scheduler.Key(models.IPClaimKey(claim)))
	v, ok := st.Desired.(*models.IPClaim)
	if !ok { // the attachment has no record
		v, ok = st.Actual.(*models.IPClaim)
	}
	if err == nil && ok {
		st, err = s.engine.Get(ctx, scheduler.Key(models.IPLeaseKey(v.GetPool(), claim, v.Wanted())))
	}
	held, ok := st.Actual.(*models.IPLease)
	if err != nil || !ok {
		return "", fmt.Errorf("%s is not there any more: %w", models.IPClaimKey(claim), errors.Join(err, ErrNotAttached))
	}
	return held.GetAddress(), nil
}

// addRoute tells of a route in the container. The gateway of a default route is that
// of the addresses of its family.
func (b *resultBuilder) addRoute(v *models.Route) {
	at, known := b.at[v.GetInterface()]
	if !known || b.r.Interfaces[at].Sandbox == "" {
		return
	}
	dst, err := v.Prefix()
	if err != nil {
		return
	}
	told := spec.Route{Dst: dst.String(), GW: v.GetGateway(), MTU: int(v.GetMtu()), Priority: int(v.GetMetric())}
	if table := int(v.GetTable()); table != 0 {
		told.Table = &table
	}
	b.r.Routes = append(b.r.Routes, told)
	if dst.Bits() > 0 {
		return
	}
	for i := range b.r.IPs {
		ip := &b.r.IPs[i]
		if p, err := netip.ParsePrefix(ip.Address); err == nil && *ip.Interface == at && p.Addr().Is4() == dst.Addr().Is4() && ip.Gateway == "" {
			ip.Gateway = v.GetGateway()
		}
	}
}
