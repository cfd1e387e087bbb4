package cni

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/network"
	"github.com/plumb-net/plumb/scheduler"
)

// carrier bounds how long the kernel may take until packets pass the links of an attachment: both
// ends of a veth are up before either has a carrier.
const carrier = 5 * time.Second

// waitCarrier blocks until the links of an attachment have a carrier. The container can send packets as soon as the ADD
// returns, and would repeat a lost one only after a second.
func (s *Service) waitCarrier(ctx context.Context, wants []network.Want) error {
	ctx, cancel := context.WithTimeoutCause(ctx, carrier, errors.New("it is up, but no packets pass"))
	defer cancel()
	for _, key := range withCarrier(wants) {
		st, err := s.engine.Get(ctx, key)
		if err != nil {
			return err
		}
		at, known := kind.LinkOfStatus(st)
		for wait := time.Millisecond; known && !s.host.Carries(at); wait = min(2*wait, 20*time.Millisecond) {
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s: %w", key, context.Cause(ctx))
			case <-time.After(wait):
			}
		}
	}
	return nil
}

// withCarrier returns the keys of the interfaces among wants that get a carrier: veths with both ends up, and
// bridges with such a port. A bridge without ports gets no carrier, although the kernel reports one for a moment
// after the creation of the bridge.
func withCarrier(wants []network.Want) (keys []scheduler.Key) {
	all := map[string]*models.Interface{}
	for _, w := range wants {
		if v, ok := w.Value.(*models.Interface); ok {
			all[nameOf(scheduler.Key(w.Key))] = v
		}
	}
	up := func(v *models.Interface) bool { return v == nil || v.Enabled == nil || v.GetEnabled() }
	ported := map[string]bool{}
	for _, v := range all {
		if v.GetVeth() != nil && up(v) && up(all[v.GetVeth().GetPeer()]) {
			ported[v.GetMaster()] = true
		}
	}
	for _, w := range wants {
		v, ok := w.Value.(*models.Interface)
		switch {
		case !ok || !up(v):
		case v.GetVeth() != nil && up(all[v.GetVeth().GetPeer()]), v.GetBridge() != nil && ported[nameOf(scheduler.Key(w.Key))]:
			keys = append(keys, scheduler.Key(w.Key))
		}
	}
	return keys
}
