package cni

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/network"
	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/scheduler"
)

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
func (s *Service) exhausted(ctx context.Context, wants []network.Want) error {
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
