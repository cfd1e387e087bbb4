package ipam

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/plumb-net/plumb/descriptors/ipam/pool"
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// Book is the pools of an agent and who has what of them. Its methods may be
// called from any goroutine.
type Book struct {
	ledger kernel.Ledger
	fail   kernel.Failpoint

	mu     sync.Mutex
	pools  map[string]*pool.Pool
	values map[string]*models.IPPool // of the pools that there are
	where  map[string]string         // the pool of the address that a claim uses
	freed  uint64                    // counts what was freed, to tell what was first
	awaits []Taken                   // that were found, of pools that are not there yet

	// Unread are the entries that could not be read when the book was opened. They
	// stay in the ledger.
	Unread []error

	leases, claims news
}

// use is what the ledger says of an address: the claim that uses it, or when it
// was freed.
type use struct {
	Claim string `json:"claim,omitempty"`
	Freed uint64 `json:"freed,omitempty"`
}

const addresses = "ipaddress/"

func addressID(pool string, a netip.Addr) string { return addresses + pool + "/" + a.String() }

func splitAddressID(id string) (pool string, a netip.Addr, ok bool) {
	pool, text, _ := strings.Cut(strings.TrimPrefix(id, addresses), "/")
	a, err := netip.ParseAddr(text)
	return pool, a, err == nil && strings.HasPrefix(id, addresses)
}

// Open reads a ledger that nobody else writes. fail may be nil.
func Open(ledger kernel.Ledger, fail kernel.Failpoint) *Book {
	b := &Book{
		ledger: ledger, fail: fail, pools: map[string]*pool.Pool{}, values: map[string]*models.IPPool{}, where: map[string]string{},
	}
	var rests []rest
	for _, e := range ledger.Entries("") {
		var err error
		if name, isPool := strings.CutPrefix(e.ID, poolPrefix); isPool {
			var v *models.IPPool
			if v, err = models.DecodeValue[*models.IPPool](e.Value); err == nil {
				b.values[name] = v
			}
		} else {
			var r rest
			if r, err = b.restore(e); r.freed > 0 {
				rests = append(rests, r)
			}
		}
		if err != nil {
			b.unread(e, err)
		}
	}
	slices.SortFunc(rests, func(a, c rest) int { return cmp.Compare(a.freed, c.freed) })
	for _, r := range rests {
		b.pool(r.pool).Rest(r.addr)
		b.freed = max(b.freed, r.freed)
	}
	for name, v := range b.values {
		b.pool(name).Set(specOf(v))
		b.takeFound(name)
	}
	for _, name := range slices.Sorted(maps.Keys(b.pools)) {
		b.clear(name)
	}
	return b
}

// rest is an address that was freed.
type rest struct {
	pool  string
	addr  netip.Addr
	freed uint64
}

func (b *Book) restore(e kernel.Entry) (rest, error) {
	name, addr, ok := splitAddressID(e.ID)
	if !ok {
		return rest{}, fmt.Errorf("is neither a pool nor an address")
	}
	var u use
	if err := json.Unmarshal(e.Value, &u); err != nil {
		return rest{}, err
	}
	if u.Claim == "" {
		return rest{name, addr, u.Freed}, nil
	}
	b.pool(name).Restore(u.Claim, addr)
	b.where[u.Claim] = name
	return rest{}, nil
}

// pool returns the pool of that name, one without a network if need be.
func (b *Book) pool(name string) *pool.Pool {
	if b.pools[name] == nil {
		b.pools[name] = pool.New()
	}
	return b.pools[name]
}

func specOf(v *models.IPPool) pool.Spec {
	network, _ := netip.ParsePrefix(v.GetNetwork())
	s := pool.Spec{Network: network, Length: int(v.GetClaimLength())}
	for _, r := range v.ReservedRanges() {
		s.Closed = append(s.Closed, pool.Range(r))
	}
	if gw, err := netip.ParseAddr(v.GetGateway()); err == nil {
		s.Closed = append(s.Closed, pool.Range{First: gw, Last: gw})
	}
	return s
}

// clear takes out of the ledger what was freed and will not be given again. It is
// for changes of a pool, which are rare.
func (b *Book) clear(name string) {
	var ids []string
	for _, e := range b.ledger.Entries("") {
		at, addr, ok := splitAddressID(e.ID)
		if used := b.pools[name].User(addr) != ""; ok && at == name && !used && !b.pools[name].Open(addr) {
			ids = append(ids, e.ID)
		}
	}
	b.ledger.Remove(ids...)
}

// told spreads what has changed in a pool, and forgets a pool that is none. The
// lock is held.
func (b *Book) told(name string) {
	p := b.pools[name]
	for _, a := range p.News() {
		b.leases.add(scheduler.Key(models.IPLeaseKey(name, a.Claim, a.Addr)))
	}
	if p.Empty() {
		delete(b.pools, name)
	}
}

func (b *Book) hit(name string) error {
	if b.fail == nil {
		return nil
	}
	return b.fail(name)
}

// Need is the need for a claim, built with the address that it holds.
func (b *Book) Need(claim string) scheduler.Need {
	n := scheduler.On(scheduler.Key(models.IPClaimKey(claim)), "the claim that holds the address")
	return scheduler.Project(n, func(_ *models.IPClaim, h Held) string { return h.Address.String() })
}

// Full reports whether a pool has no address for one more claim.
func (b *Book) Full(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pools[name] != nil && b.pools[name].Full()
}

// User is the claim that uses an address of a pool, "" if none does.
func (b *Book) User(name string, a netip.Addr) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pools[name] == nil {
		return ""
	}
	return b.pools[name].User(a)
}

// Address is the address that a claim uses.
func (b *Book) Address(claim string) (netip.Addr, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	name, uses := b.where[claim]
	if !uses {
		return netip.Addr{}, false
	}
	return b.pools[name].Used(claim)
}

// poolOf is the pool of the address that a claim uses, "" if it uses none.
func (b *Book) poolOf(claim string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.where[claim]
}

// Prefix is the address that a claim uses, with the length that its pool gives. It is false also
// for a claim in the ledger whose pool is not known yet.
func (b *Book) Prefix(claim string) (netip.Prefix, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	name, uses := b.where[claim]
	if !uses {
		return netip.Prefix{}, false
	}
	return b.pools[name].Prefix(claim)
}
