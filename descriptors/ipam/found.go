package ipam

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// Taken is an address that is in use although the ledger of addresses may not say so:
// it is on a link of ours, or somebody was told that it is his.
type Taken struct {
	// Claim is who holds it, "" if nobody knows.
	Claim string
	Addr  netip.Addr
	// Sure: the object that uses the claim exists and has the address. It counts even if the
	// ledger says otherwise, which may be older than the object.
	Sure bool
	// OnLink: an interface has the address, but Claim may be wrong. The address counts as in use
	// even if the claim has another one.
	OnLink bool
}

// foundClaim stands for the claim of an address of which nobody knows whose it is.
func foundClaim(a netip.Addr) string { return "found:" + a.String() }

// Found says that addresses are in use. Each counts as taken in the pool that has it,
// now or once that pool is there. What the book says of a claim, or of an address, stays,
// unless it contradicts one that is sure. So nobody else is given them, and who holds them
// keeps them. It returns how many the book did not have. It is for the start, before
// anything is asked of the book.
func (b *Book) Found(list []Taken) (missing int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range list {
		if t.Sure {
			b.correct(t)
		}
	}
	for _, t := range list {
		if !b.knows(t) {
			b.awaits = append(b.awaits, t)
			missing++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.values)) {
		b.takeFound(name)
	}
	return missing
}

// correct removes entries that contradict an address that is sure: another address of the claim,
// and another claim of the address. The lock is held.
func (b *Book) correct(t Taken) {
	pools := slices.Sorted(maps.Keys(b.pools))
	if name, uses := b.where[t.Claim]; uses {
		if a, _ := b.pools[name].Used(t.Claim); a == t.Addr {
			return
		}
		b.expunge(t.Claim)
		pools = []string{name}
	}
	for _, name := range pools {
		if user := b.pools[name].User(t.Addr); user != "" {
			b.expunge(user)
		}
	}
}

// expunge removes the entry of a claim that does not use its address. The lock is held.
func (b *Book) expunge(claim string) {
	name := b.where[claim]
	delete(b.where, claim)
	if a, uses := b.pools[name].Free(claim); uses {
		b.ledger.Remove(addressID(name, a))
	}
}

// knows reports whether the book, or an earlier one of the list, has the address. It also reports
// true if one of them has the claim with another address, unless an interface has this one too.
func (b *Book) knows(t Taken) bool {
	sameClaim := func(claim string) bool { return claim == t.Claim && claim != "" && !t.OnLink }
	if _, uses := b.where[t.Claim]; uses && sameClaim(t.Claim) {
		return true
	}
	for _, p := range b.pools {
		if p.User(t.Addr) != "" {
			return true
		}
	}
	for _, f := range b.awaits {
		if f.Addr == t.Addr || sameClaim(f.Claim) {
			return true
		}
	}
	return false
}

// takeFound makes addresses that were found ones that are in use, in the pool of that
// name. A ledger that cannot be written is no reason to give them to others: they are
// found again. The lock is held.
func (b *Book) takeFound(name string) {
	p := b.pool(name)
	within, err := netip.ParsePrefix(b.values[name].GetNetwork())
	if err != nil {
		return
	}
	rest := b.awaits[:0]
	for _, t := range b.awaits {
		if !within.Contains(t.Addr) {
			rest = append(rest, t)
			continue
		}
		if _, uses := b.where[t.Claim]; t.Claim == "" || uses {
			t.Claim = foundClaim(t.Addr)
		}
		if p.User(t.Addr) != "" {
			continue
		}
		p.Restore(t.Claim, t.Addr)
		b.where[t.Claim] = name
		if _, there := b.ledger.Get(addressID(name, t.Addr)); !there { // one that cannot be read stays
			_ = b.ledger.Add(entryOf(name, t.Addr, use{Claim: t.Claim}))
		}
	}
	b.awaits = rest
}

// unread takes an entry that this release cannot read. It is not written anew, and the
// address that it is about counts as taken.
func (b *Book) unread(e kernel.Entry, why error) {
	b.Unread = append(b.Unread, fmt.Errorf("%s: %w", e.ID, why))
	if _, addr, ok := splitAddressID(e.ID); ok {
		b.awaits = append(b.awaits, Taken{Addr: addr})
	}
}
