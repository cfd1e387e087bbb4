package ipam

import (
	"context"
	"iter"
	"slices"

	"github.com/plumb-net/plumb/descriptors/ipam/pool"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// Leases is the observed kind of what pools have for claims. A claim asks for as
// long as a value needs the key.
func Leases(b *Book) scheduler.Descriptor[*models.IPLease, struct{}] {
	d := kind.Observed[*models.IPLease, struct{}](models.KindIPLease)
	d.Retrieve, d.Watch, d.Interest = b.retrieveLeases, b.leases.watch, b.interest
	d.Equal = func(_ scheduler.Key, a, c *models.IPLease) bool {
		return a.GetAddress() == c.GetAddress() && a.GetReason() == c.GetReason()
	}
	return d
}

func askOf(k scheduler.Key) (name string, a pool.Ask, ok bool) {
	name, a.Claim, a.Addr, ok = models.SplitIPLease(string(k))
	return name, a, ok
}

func (b *Book) interest(k scheduler.Key, wanted bool) {
	name, a, ok := askOf(k)
	if !ok {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if wanted {
		b.pool(name).Ask(a)
	} else {
		b.pool(name).Drop(a)
	}
	b.told(name)
}

func (b *Book) retrieveLeases(_ context.Context, s scheduler.Scope[*models.IPLease, struct{}]) iter.Seq2[scheduler.Found[*models.IPLease, struct{}], error] {
	keys := s.Keys
	if s.All {
		keys = b.asked()
	}
	return func(yield func(scheduler.Found[*models.IPLease, struct{}], error) bool) {
		for _, k := range keys {
			if v := b.lease(k, s.ReadOnly); v != nil && !yield(scheduler.Found[*models.IPLease, struct{}]{Key: k, Value: v}, nil) {
				return
			}
		}
	}
}

// lease is what stands at the key; nil if nobody asks or there is no pool.
func (b *Book) lease(k scheduler.Key, readOnly bool) *models.IPLease {
	name, a, ok := askOf(k)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !ok || b.pools[name] == nil {
		return nil
	}
	if !readOnly && !a.Addr.IsValid() && b.pools[name].Moves(a.Claim) {
		// It may have changed before anybody could see it: after a restart.
		b.claims.add(scheduler.Key(models.IPClaimKey(a.Claim)))
	}
	l, asks := b.pools[name].Lease(a)
	switch {
	case !asks:
		return nil
	case l.Addr.IsValid():
		return &models.IPLease{Address: l.Addr.String()}
	}
	return &models.IPLease{Reason: l.Why}
}

func (b *Book) asked() (keys []scheduler.Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, p := range b.pools {
		for _, a := range p.Asks() {
			keys = append(keys, scheduler.Key(models.IPLeaseKey(name, a.Claim, a.Addr)))
		}
	}
	slices.Sort(keys)
	return keys
}
