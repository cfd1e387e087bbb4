package pool

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

// remembered is how many freed addresses rest before the oldest is given again
// although there are fresh ones. It bounds what must be kept of a large pool.
const remembered = 4096

// ErrNone: there is no address for the claim; the error says why.
var ErrNone = errors.New("no address")

// Pool hands out the addresses of one network. The zero value has none, and
// lists who asks. It is not safe for concurrent use.
//
// Every open address is in one place: in use, offered to one claim, asked for by
// its name, resting, or fresh, which are those from the cursor on that are
// nowhere else.
type Pool struct {
	shape  shape
	ready  bool // it has a network
	cursor netip.Addr

	leases map[Ask]Lease               // who asks, and what it was last told
	asked  map[netip.Addr]map[Ask]bool // those who ask for a certain address
	offers map[string]netip.Addr       // to those who ask for any
	held   map[netip.Addr]string       // the reverse of offers
	kept   map[netip.Addr]bool         // offers to who had just used the address
	users  map[netip.Addr]string       // who has taken what
	uses   map[string]netip.Addr       // the reverse of users

	rest resting
	wait waiting
	news map[Ask]bool
}

// New makes a pool without a network.
func New() *Pool {
	return &Pool{
		leases: map[Ask]Lease{}, asked: map[netip.Addr]map[Ask]bool{}, offers: map[string]netip.Addr{}, held: map[netip.Addr]string{}, kept: map[netip.Addr]bool{},
		users: map[netip.Addr]string{}, uses: map[string]netip.Addr{}, news: map[Ask]bool{},
	}
}

// Set says what the pool consists of from now on. What is in use stays so, also
// outside of it, until it is freed. What rests and is no longer open is forgotten.
func (p *Pool) Set(s Spec) {
	p.shape, p.ready = shapeOf(s), true
	p.cursor = p.shape.all.First
	p.rest.keep(p.Open)
	for _, a := range p.Asks() {
		p.settle(a)
	}
	p.feed()
}

// Unset takes the network away.
func (p *Pool) Unset() {
	p.shape, p.ready, p.rest = shape{}, false, resting{}
	for _, a := range p.Asks() {
		p.settle(a)
	}
}

// Open reports whether an address may be given to who asks for any.
func (p *Pool) Open(a netip.Addr) bool { return p.ready && p.shape.open(a) }

// Full reports whether there is no address for one more who asks for any.
func (p *Pool) Full() bool {
	if !p.ready || len(p.rest.at) > 0 {
		return false
	}
	addr, free := p.next()
	if free {
		p.cursor = addr // it was not taken
	}
	return !free
}

// Asks are those who ask, sorted.
func (p *Pool) Asks() []Ask { return slices.SortedFunc(maps.Keys(p.leases), compareAsks) }

// Empty reports whether there is neither a network, nor anybody who asks or uses.
func (p *Pool) Empty() bool { return !p.ready && len(p.leases)+len(p.users) == 0 }

// Ask says that a claim asks, until Drop.
func (p *Pool) Ask(a Ask) {
	if _, there := p.leases[a]; there {
		return
	}
	p.leases[a] = Lease{}
	if !a.any() {
		if p.asked[a.Addr] == nil {
			p.asked[a.Addr] = map[Ask]bool{}
		}
		p.asked[a.Addr][a] = true
		p.rest.remove(a.Addr)
		p.settleAny(p.held[a.Addr], p.users[a.Addr])
	}
	p.settle(a)
	p.news[a] = true
	p.feed() // who has what it asks for by its name gives back what it was offered
}

// Drop says that a claim no longer asks. What it uses it uses still.
func (p *Pool) Drop(a Ask) {
	if _, there := p.leases[a]; !there {
		return
	}
	delete(p.leases, a)
	p.news[a] = true
	if a.any() {
		p.wait.remove(a.Claim)
		p.withdraw(a.Claim)
	} else {
		delete(p.asked[a.Addr], a)
		if len(p.asked[a.Addr]) == 0 {
			delete(p.asked, a.Addr)
		}
		p.settleAny(p.held[a.Addr], p.users[a.Addr])
		p.lay(a.Addr)
	}
	p.feed()
}

// Lease is what the pool has for who asks; false if the claim does not ask, or
// the pool has no network.
func (p *Pool) Lease(a Ask) (Lease, bool) {
	l, asks := p.leases[a]
	return l, asks && p.ready
}

// Take makes the address of the lease one that is in use. Who does not ask takes
// what it would be given. Taking what the claim uses already is success.
func (p *Pool) Take(a Ask) (netip.Prefix, error) {
	if !p.ready {
		return netip.Prefix{}, fmt.Errorf("%w: the pool has no network", ErrNone)
	}
	l, asks := p.leases[a]
	used, uses := p.uses[a.Claim]
	switch {
	case asks:
	case !a.any():
		l = p.fixed(a)
	case uses && p.mayHave(a.Claim, used):
		l = Lease{Addr: p.prefix(used)}
	case uses:
		l = Lease{Why: fmt.Sprintf("the claim still uses %s", used)}
	default:
		p.Ask(a)
		defer p.Drop(a)
		l = p.leases[a]
	}
	if !l.Addr.IsValid() {
		return netip.Prefix{}, fmt.Errorf("%w: %s", ErrNone, l.Why)
	}
	addr := l.Addr.Addr()
	switch {
	case uses && used == addr:
		return l.Addr, nil
	case uses:
		return netip.Prefix{}, fmt.Errorf("%w: the claim still uses %s", ErrNone, used)
	}
	p.unoffer(a.Claim, addr)
	p.use(a.Claim, addr)
	if before, offered := p.offers[a.Claim]; offered { // it has another one now
		delete(p.kept, before)
		p.settleAny(a.Claim)
		p.settleFixed(before)
	}
	p.settleAny(p.held[addr]) // who asks for it by its name is stronger
	p.settleFixed(addr)
	p.feed()
	return l.Addr, nil
}

func (p *Pool) use(claim string, addr netip.Addr) {
	p.users[addr], p.uses[claim] = claim, addr
	p.rest.remove(addr)
}

// Free says that a claim no longer uses its address; false if it uses none. If it
// still asks for any it keeps the address as its lease, and nobody who asks for that
// very one gets it: a claim that is made anew has its address again.
func (p *Pool) Free(claim string) (netip.Addr, bool) {
	addr, uses := p.uses[claim]
	if !uses {
		return addr, false
	}
	delete(p.uses, claim)
	delete(p.users, addr)
	if l := p.leases[Ask{Claim: claim}]; l.Addr.IsValid() && l.Addr.Addr() == addr {
		p.offers[claim], p.held[addr], p.kept[addr] = addr, claim, true
	}
	p.lay(addr)
	p.settleFixed(addr)
	p.feed()
	return addr, true
}

// Restore says that a claim uses an address already, and Rest that one rests; they
// tell a new pool what an earlier one knew, the oldest rest first.
func (p *Pool) Restore(claim string, addr netip.Addr) { p.use(claim, addr) }

// Rest says that an address was freed; see Restore.
func (p *Pool) Rest(addr netip.Addr) { p.rest.add(addr) }

// Used is the address that a claim uses.
func (p *Pool) Used(claim string) (netip.Addr, bool) {
	addr, uses := p.uses[claim]
	return addr, uses
}

// Prefix is the address that a claim uses, with the length that the pool gives; false if the
// claim uses none, or the pool has no network.
func (p *Pool) Prefix(claim string) (netip.Prefix, bool) {
	addr, uses := p.uses[claim]
	if !uses || !p.ready {
		return netip.Prefix{}, false
	}
	return p.prefix(addr), true
}

// Claims are those that use an address, sorted.
func (p *Pool) Claims() []string { return slices.Sorted(maps.Keys(p.uses)) }

// Moves reports whether a claim that asks for any address is to have another than
// the one that it uses.
func (p *Pool) Moves(claim string) bool {
	used, uses := p.uses[claim]
	l, asks := p.leases[Ask{Claim: claim}]
	return p.ready && uses && asks && l.Addr.Addr() != used
}

// User is the claim that uses an address, "" if none does.
func (p *Pool) User(a netip.Addr) string { return p.users[a] }

// News are the asks whose lease has changed since the last call, sorted.
func (p *Pool) News() []Ask {
	list := slices.SortedFunc(maps.Keys(p.news), compareAsks)
	clear(p.news)
	return list
}

// prefix is an address with the length that the pool gives, or alone where the
// network has moved from under it.
func (p *Pool) prefix(a netip.Addr) netip.Prefix {
	if p.shape.network.Contains(a) {
		return netip.PrefixFrom(a, p.shape.length)
	}
	return netip.PrefixFrom(a, a.BitLen())
}
