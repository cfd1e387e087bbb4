package ipam

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/descriptors/ipam/pool"
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

const poolPrefix = models.KindIPPool + "/"

// Pools is the kind of the pools. A pool is in place when it is in the book.
func Pools(b *Book) scheduler.Descriptor[*models.IPPool, struct{}] {
	d := kind.Of[*models.IPPool, struct{}](models.KindIPPool)
	d.Needs = func(scheduler.Key, *models.IPPool) []scheduler.Need { return nil }
	d.Create = func(_ context.Context, k scheduler.Key, v *models.IPPool) (struct{}, error) {
		return struct{}{}, b.setPool(k, v)
	}
	d.Update = func(_ context.Context, k scheduler.Key, _, v *models.IPPool, _ struct{}) (struct{}, error) {
		return struct{}{}, b.setPool(k, v)
	}
	d.Delete = func(_ context.Context, k scheduler.Key, _ *models.IPPool, _ struct{}) error {
		b.dropPool(k)
		return nil
	}
	d.Compare, d.Retrieve = comparePools, b.retrievePools
	return d
}

func comparePools(_ scheduler.Key, from, to *models.IPPool) scheduler.Verdict {
	var why []string
	for _, f := range []struct{ name, was, is string }{
		{"network", from.GetNetwork(), to.GetNetwork()},
		{"gateway", from.GetGateway(), to.GetGateway()},
		{"claim_length", fmt.Sprint(from.GetClaimLength()), fmt.Sprint(to.GetClaimLength())},
		{"reserved", strings.Join(from.GetReserved(), " "), strings.Join(to.GetReserved(), " ")},
	} {
		if f.was != f.is {
			why = append(why, fmt.Sprintf("%s %q → %q", f.name, f.was, f.is))
		}
	}
	if len(why) == 0 {
		return scheduler.Verdict{}
	}
	return scheduler.Verdict{Change: scheduler.InPlace, Reason: strings.Join(why, ", ")}
}

func (b *Book) setPool(k scheduler.Key, v *models.IPPool) error {
	name := strings.TrimPrefix(string(k), poolPrefix)
	if err := b.ledger.Add(kernel.Entry{ID: string(k), Value: models.Encode(v)}); err != nil {
		return err
	}
	if err := b.hit("ippool/recorded"); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_, known := b.values[name]
	b.values[name] = v
	p := b.pool(name)
	b.takeFound(name) // before anybody who waits is given one of them
	p.Set(specOf(v))
	if !known {
		b.claimsKnown(p)
	}
	b.clear(name)
	b.told(name)
	return nil
}

// claimsKnown reports the claims of a pool to the scheduler once the pool has a network, since they
// are in place from then on. The lock is held.
func (b *Book) claimsKnown(p *pool.Pool) {
	for _, claim := range p.Claims() {
		b.claims.add(scheduler.Key(models.IPClaimKey(claim)))
	}
}

func (b *Book) dropPool(k scheduler.Key) {
	name := strings.TrimPrefix(string(k), poolPrefix)
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.values, name)
	b.pool(name).Unset()
	b.clear(name)
	b.ledger.Remove(string(k))
	b.told(name)
}

func (b *Book) retrievePools(_ context.Context, s scheduler.Scope[*models.IPPool, struct{}]) iter.Seq2[scheduler.Found[*models.IPPool, struct{}], error] {
	b.mu.Lock()
	values := maps.Clone(b.values)
	b.mu.Unlock()
	return func(yield func(scheduler.Found[*models.IPPool, struct{}], error) bool) {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			k := scheduler.Key(poolPrefix + name)
			if s.Has(k) && !yield(scheduler.Found[*models.IPPool, struct{}]{Key: k, Value: values[name]}, nil) {
				return
			}
		}
	}
}
