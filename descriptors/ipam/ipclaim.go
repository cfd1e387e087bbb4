package ipam

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/descriptors/ipam/pool"
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

const claimPrefix = models.KindIPClaim + "/"

// Held is what a claim in place has.
type Held struct {
	// Address with the length that its pool gives.
	Address netip.Prefix `json:"address"`
}

// Claims is the kind of the claims. A claim is in place when the book says that it uses an
// address and its pool is known: without it, the length of the address is not.
func Claims(b *Book) scheduler.Descriptor[*models.IPClaim, Held] {
	d := kind.Of[*models.IPClaim, Held](models.KindIPClaim)
	d.Create, d.CreateBatch = kind.CreateOne(b.createBatch), b.createBatch
	d.Delete, d.DeleteBatch = kind.DeleteOne(b.deleteBatch), b.deleteBatch
	d.Needs, d.Claims, d.Compare = b.needs, claims, compareClaims
	d.Retrieve, d.Watch = b.retrieveClaims, b.claims.watch
	return d
}

type op = scheduler.Op[*models.IPClaim, Held]

func claimOf(k scheduler.Key) string { return strings.TrimPrefix(string(k), claimPrefix) }

func (b *Book) needs(k scheduler.Key, v *models.IPClaim) []scheduler.Need {
	onPool := func(name string) scheduler.Need {
		return scheduler.On(scheduler.Key(models.IPPoolKey(name)), "the pool of the address")
	}
	if v.GetPool() == "" { // it was found with an address that its pool no longer has for it
		return []scheduler.Need{onPool(b.poolOf(claimOf(k)))}
	}
	lease := scheduler.On(scheduler.Key(models.IPLeaseKey(v.GetPool(), claimOf(k), v.Wanted())), leaseFor(v))
	lease = scheduler.If(lease, func(_ scheduler.Key, l *models.IPLease, _ struct{}) bool { return l.GetAddress() != "" })
	lease = scheduler.Tell(lease, func(l *models.IPLease, _ struct{}) string { return l.GetReason() })
	lease = scheduler.Project(lease, func(l *models.IPLease, _ struct{}) string { return l.GetAddress() })
	return []scheduler.Need{onPool(v.GetPool()), lease}
}

func leaseFor(v *models.IPClaim) string {
	if a := v.Wanted(); a.IsValid() {
		return "the lease of " + a.String()
	}
	return "a lease of any address"
}

// claims: of those who ask for an address by its name one has it.
func claims(_ scheduler.Key, v *models.IPClaim) []scheduler.Claim {
	a := v.Wanted()
	if !a.IsValid() {
		return nil
	}
	return []scheduler.Claim{{
		ID:   v.GetPool() + "|" + a.String(),
		What: fmt.Sprintf("address %s of ippool/%s", a, v.GetPool()),
	}}
}

// compareClaims: who asks for any address is content with the one that it has.
func compareClaims(_ scheduler.Key, from, to *models.IPClaim) scheduler.Verdict {
	switch was, is := from.Wanted(), to.Wanted(); {
	case from.GetPool() == "":
		return scheduler.Verdict{Change: scheduler.Replace, Reason: "the pool has another address for it"}
	case from.GetPool() != to.GetPool():
		return scheduler.Verdict{Change: scheduler.Replace, Reason: fmt.Sprintf("pool %s → %s", from.GetPool(), to.GetPool())}
	case is.IsValid() && was != is && was.IsValid():
		return scheduler.Verdict{Change: scheduler.Replace, Reason: fmt.Sprintf("address %s → %s", was, is)}
	case is.IsValid() && was != is:
		return scheduler.Verdict{Change: scheduler.Replace, Reason: fmt.Sprintf("address any → %s", is)}
	}
	return scheduler.Verdict{}
}

// createBatch takes leases with one write to the ledger.
func (b *Book) createBatch(ctx context.Context, ops []*op) {
	var took []*op
	var entries []kernel.Entry
	slices.SortFunc(ops, func(a, c *op) int { return strings.Compare(string(a.Key), string(c.Key)) })
	for _, o := range ops {
		if o.Err = ctx.Err(); o.Err != nil {
			continue
		}
		e, err := b.take(o)
		if o.Err = err; err == nil && e.ID != "" {
			took, entries = append(took, o), append(entries, e)
		}
	}
	if len(took) == 0 {
		return
	}
	err := b.ledger.Add(entries...)
	if err != nil {
		err = fmt.Errorf("record who uses the address: %w", err)
	} else {
		err = b.hit("ipclaim/recorded")
	}
	for _, o := range took {
		if o.Err = err; err != nil {
			b.release(claimOf(o.Key))
			continue
		}
		b.claims.add(o.Key) // which address it is can be read now
	}
}

// take makes the lease of one claim one that is in use, in memory; the entry is
// empty if it was so already.
func (b *Book) take(o *op) (kernel.Entry, error) {
	claim, name := claimOf(o.Key), o.Value.GetPool()
	b.mu.Lock()
	defer b.mu.Unlock()
	if at, uses := b.where[claim]; uses && at != name {
		return kernel.Entry{}, fmt.Errorf("it still uses an address of ippool/%s", at)
	}
	_, had := b.where[claim]
	p := b.pool(name)
	defer b.told(name)
	got, err := p.Take(pool.Ask{Claim: claim, Addr: o.Value.Wanted()})
	if errors.Is(err, pool.ErrNone) {
		lease := scheduler.Key(models.IPLeaseKey(name, claim, o.Value.Wanted()))
		return kernel.Entry{}, scheduler.Blocked(lease, err)
	}
	if err != nil {
		return kernel.Entry{}, err
	}
	o.Meta = Held{got}
	if had {
		return kernel.Entry{}, nil
	}
	b.where[claim] = name
	return entryOf(name, got.Addr(), use{Claim: claim}), nil
}

func entryOf(name string, a netip.Addr, u use) kernel.Entry {
	text, _ := json.Marshal(u) // of a string and a number: it never fails
	return kernel.Entry{ID: addressID(name, a), Value: text}
}

// release frees the address of a claim, in memory.
func (b *Book) release(claim string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	name, uses := b.where[claim]
	if !uses {
		return
	}
	delete(b.where, claim)
	b.pools[name].Free(claim)
	b.told(name)
}

// deleteBatch frees addresses. First the ledger says so, or who has them next: one that
// cannot be written names who had an address until somebody else is written to have it.
func (b *Book) deleteBatch(ctx context.Context, ops []*op) {
	var entries []kernel.Entry
	var outside []string
	for _, o := range ops {
		if o.Err = ctx.Err(); o.Err != nil {
			continue
		}
		if e, rests := b.freeing(claimOf(o.Key)); rests {
			entries = append(entries, e)
		} else if e.ID != "" {
			outside = append(outside, e.ID)
		}
	}
	if len(entries) > 0 && b.ledger.Add(entries...) != nil {
		for _, e := range entries { // in which order they rest does not matter then
			outside = append(outside, e.ID)
		}
	}
	b.ledger.Remove(outside...)
	err := b.hit("ipclaim/freed")
	for _, o := range ops {
		if o.Err == nil && err != nil {
			o.Err = fmt.Errorf("record that the address is free: %w", err)
		}
		if o.Err == nil {
			b.release(claimOf(o.Key))
		}
	}
}

// freeing is the entry of an address that a claim is about to free; it rests if
// its pool may give it to anybody.
func (b *Book) freeing(claim string) (e kernel.Entry, rests bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	name, uses := b.where[claim]
	if !uses {
		return e, false
	}
	a, _ := b.pools[name].Used(claim)
	b.freed++
	return entryOf(name, a, use{Freed: b.freed}), b.pools[name].Open(a)
}

func (b *Book) retrieveClaims(_ context.Context, s scheduler.Scope[*models.IPClaim, Held]) iter.Seq2[scheduler.Found[*models.IPClaim, Held], error] {
	return func(yield func(scheduler.Found[*models.IPClaim, Held], error) bool) {
		for _, f := range b.found(s) {
			if !yield(f, nil) {
				return
			}
		}
	}
}

func (b *Book) found(s scheduler.Scope[*models.IPClaim, Held]) (list []scheduler.Found[*models.IPClaim, Held]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	see := func(claim, name string) {
		a, known := b.pools[name].Prefix(claim)
		if !known {
			return
		}
		v := &models.IPClaim{Pool: name, Address: a.Addr().String()}
		if b.pools[name].Moves(claim) {
			v.Pool = "" // the address is no longer what the pool has for it
		}
		list = append(list, scheduler.Found[*models.IPClaim, Held]{Key: scheduler.Key(claimPrefix + claim), Value: v, Meta: Held{a}})
	}
	if !s.All {
		for _, k := range s.Keys {
			if name, uses := b.where[claimOf(k)]; uses {
				see(claimOf(k), name)
			}
		}
		return list
	}
	for claim, name := range b.where {
		see(claim, name)
	}
	return list
}
