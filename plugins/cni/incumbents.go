package cni

import (
	"context"
	"slices"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/network"
	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/scheduler"
)

// incumbents refuses an ADD that would take an address, a link name or a table that another key
// holds, or that would break an existing object. It decides by the plan of the ADD, before anything
// is changed. A conflict that the plan does not show fails the ADD during execution.
//
// The shared objects of the network itself do not conflict: while its last attachment is being
// removed they are deleted and created again, and the ADD waits for that.
func (s *Service) incumbents(ctx context.Context, name string, wants []network.Want) *spec.Error {
	mine := make([]scheduler.Key, len(wants))
	for i, w := range wants {
		mine[i] = scheduler.Key(w.Key)
		if wrong := s.heldByClaim(ctx, w); wrong != nil {
			return wrong
		}
	}
	plan, err := s.engine.Preview(ctx, scheduler.Txn{Source: Source, Want: changes(wants)})
	if err != nil {
		return gaveUp(err)
	}
	for _, effect := range plan.Effects {
		switch own := slices.Contains(mine, effect.Key); {
		case own && effect.State == scheduler.InvalidState:
			return spec.InUse("%s", effect.Reason)
		case !own && !sharedIn(name, effect.Key) && effect.Breaks():
			return spec.InUse("it would break %s: %s", effect.Key, effect.Reason)
		}
	}
	return nil
}

// heldByClaim refuses an address that the runtime requests and another claim uses. If that claim is
// being removed, the ADD waits for it instead.
func (s *Service) heldByClaim(ctx context.Context, w network.Want) *spec.Error {
	v, ok := w.Value.(*models.IPClaim)
	if !ok || !v.Wanted().IsValid() {
		return nil
	}
	user := s.host.User(v.GetPool(), v.Wanted())
	if user == "" || models.IPClaimKey(user) == w.Key {
		return nil
	}
	st, err := s.engine.Get(ctx, scheduler.Key(models.IPClaimKey(user)))
	if err != nil || st.Desired == nil {
		return nil
	}
	return spec.InUse("%s of %s is the address of %s", v.Wanted(), models.IPPoolKey(v.GetPool()), models.IPClaimKey(user))
}

// portsFree refuses port mappings that cannot be served, and ports that a process of the host uses:
// a mapping would divert the packets of that process.
func (s *Service) portsFree(c Call, n network.Network) *spec.Error {
	rt, _ := c.runtime() // join has checked it
	if wrong := n.CheckPorts(rt.Ports); wrong != nil {
		return wrong
	}
	for _, p := range rt.Ports {
		if by := s.host.Listener(p.Protocol, p.At()); by != "" {
			return spec.InUse("%s of the host is in use by %s", p, by)
		}
	}
	return nil
}

// leave removes an attachment from the users of its network, and returns those of keys that other
// users of the network also request. The lock is held.
func (s *Service) leave(k Key, keys []string) (keep map[string]bool) {
	keep = map[string]bool{}
	sh := s.nets[k.Network]
	if sh == nil {
		return keep
	}
	delete(sh.users, k)
	for _, u := range sh.users {
		for _, key := range keys {
			keep[key] = keep[key] || u.keys[key]
		}
	}
	if len(sh.users) == 0 {
		delete(s.nets, k.Network)
	}
	return keep
}
