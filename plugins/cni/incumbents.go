package cni

import (
	"context"
	"slices"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/network"
	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/scheduler"
)

// incumbents refuses an ADD that would have what another key has, or that would break
// anything that stands, before anything is touched: an address that the runtime asks for,
// a name in the container, a table of the host. The plan of the ADD says so; what only
// shows when it is carried out, ends it there.
//
// The shared objects of the network itself are not incumbents: while its last attachment goes,
// they are to be removed and come back, which the ADD waits for.
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

// heldByClaim refuses an address that the runtime asks for and another claim uses, unless
// that one is on its way out: then it is waited for.
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

// portsFree refuses ports of the host that a process of the host has: a mapping would take
// its packets away.
func (s *Service) portsFree(c Call, n network.Network) *spec.Error {
	rt, _ := c.runtime() // it was checked
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

// leave has an attachment no longer be a user of its network, and returns those of its
// keys that others want as well. The lock is held.
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
