package pool_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/ipam/pool"
)

// oracle knows of a small pool what anybody can see: who asks, who has taken
// what, what was told. It says what is wrong with that.
type oracle struct {
	spec  pool.Spec
	asks  map[pool.Ask]bool
	users map[string]netip.Addr
	kept  map[string]netip.Addr // what who asks for any freed, until it takes or drops
	// busy are the addresses that somebody used, was offered or asked for after
	// the last step; since tells when those that were once busy no longer were.
	busy  map[netip.Addr]bool
	since map[netip.Addr]int
	at    int
}

// TestRandom lets claims ask, take, free, change their mind, and pools shrink, grow
// and forget, and looks after every step.
func TestRandom(t *testing.T) {
	const runs, steps = 300, 300
	for seed := range uint64(runs) {
		r := rand.New(rand.NewPCG(seed, 62))
		o := &oracle{asks: map[pool.Ask]bool{}, users: map[string]netip.Addr{}, kept: map[string]netip.Addr{}, busy: map[netip.Addr]bool{}, since: map[netip.Addr]int{}}
		p := pool.New()
		var log []string
		for range steps {
			what, wrong := o.step(r, &p)
			log = append(log, what)
			if wrong == "" {
				wrong = o.check(p)
			}
			if wrong != "" {
				t.Fatalf("seed %d: %s after\n%s", seed, wrong, strings.Join(log[max(0, len(log)-25):], "\n"))
			}
		}
	}
}

func (o *oracle) step(r *rand.Rand, pp **pool.Pool) (what, wrong string) {
	p := *pp
	a := pool.Ask{Claim: fmt.Sprint("c", r.IntN(12))}
	if r.IntN(3) == 0 {
		a.Addr = netip.AddrFrom4([4]byte{10, 0, 0, byte(r.IntN(18))})
	}
	switch r.IntN(22) {
	case 0:
		o.spec = someSpec(r)
		p.Set(o.spec)
		for a := range o.since {
			if !o.inside(a) {
				delete(o.since, a)
			}
		}
		return fmt.Sprint("set ", o.spec), ""
	case 1:
		if r.IntN(3) == 0 {
			*pp = o.restart(p)
			return "restart", ""
		}
		return "", ""
	case 2, 3, 4, 5:
		was := o.lease(p, a)
		o.asks[a] = true
		p.Ask(a)
		return "ask " + a.String(), o.inTurn(a, was, o.lease(p, a))
	case 6, 7, 8:
		delete(o.asks, a)
		if !a.Addr.IsValid() {
			delete(o.kept, a.Claim)
		}
		p.Drop(a)
		return "drop " + a.String(), ""
	case 9, 10, 11, 12:
		had, uses := o.users[a.Claim]
		got, uses2 := p.Free(a.Claim)
		delete(o.users, a.Claim)
		if loose := (pool.Ask{Claim: a.Claim}); uses && o.asks[loose] && o.lease(p, loose) == had {
			o.kept[a.Claim] = had
		}
		if had != got || uses != uses2 {
			return "", fmt.Sprintf("%s frees %s, but has %s", a.Claim, got, had)
		}
		return "free " + a.Claim, ""
	}
	got, err := p.Take(a)
	what = fmt.Sprintf("take %s: %s %v", a, got, err)
	if err != nil {
		return what, ""
	}
	return what, o.took(a, got)
}

// someSpec is a network of few addresses with some of them closed.
func someSpec(r *rand.Rand) pool.Spec {
	s := pool.Spec{Network: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(r.IntN(2) * 8)}), 29-r.IntN(2)).Masked()}
	for range r.IntN(3) {
		first := s.Network.Addr()
		for range r.IntN(6) {
			first = first.Next()
		}
		s.Closed = append(s.Closed, pool.Range{First: first, Last: first})
	}
	return s
}

// restart makes a new pool from what a ledger would have.
func (o *oracle) restart(old *pool.Pool) *pool.Pool {
	p := pool.New()
	for c, a := range o.users {
		p.Restore(c, a)
	}
	type rest struct {
		a netip.Addr
		n int
	}
	var rests []rest
	for a, n := range o.since {
		if !slices.Contains(slices.Collect(mapValues(o.users)), a) {
			rests = append(rests, rest{a, n})
		}
	}
	slices.SortFunc(rests, func(a, b rest) int { return a.n - b.n })
	for _, x := range rests {
		p.Rest(x.a)
	}
	if o.spec.Network.IsValid() {
		p.Set(o.spec)
	}
	for _, byName := range []bool{true, false} { // or an offer would be made and taken back at once
		for _, a := range old.Asks() {
			if a.Addr.IsValid() == byName {
				p.Ask(a)
			}
		}
	}
	for a := range o.busy { // offers are made anew
		if !slices.Contains(slices.Collect(mapValues(o.users)), a) {
			delete(o.busy, a)
		}
	}
	return p
}

func mapValues(m map[string]netip.Addr) func(func(netip.Addr) bool) {
	return func(yield func(netip.Addr) bool) {
		for _, a := range m {
			if !yield(a) {
				return
			}
		}
	}
}

// took: what was taken is one's own, of the pool, and not what is closed.
func (o *oracle) took(a pool.Ask, got netip.Prefix) string {
	addr := got.Addr()
	for c, other := range o.users {
		if other == addr && c != a.Claim {
			return fmt.Sprintf("%s is given to %s while %s uses it", addr, a.Claim, c)
		}
	}
	again := o.users[a.Claim] == addr
	switch {
	case o.users[a.Claim].IsValid() && !again:
		return fmt.Sprintf("%s has two addresses", a.Claim)
	case a.Addr.IsValid() && a.Addr != addr:
		return fmt.Sprintf("%s got %s", a, addr)
	case !again && !a.Addr.IsValid() && !o.open(addr, a.Claim):
		return fmt.Sprintf("%s was not to be given to %s", addr, a)
	case !o.spec.Network.Contains(addr) || got.Bits() != o.spec.Network.Bits():
		return fmt.Sprintf("%s is not of the pool", got)
	}
	o.users[a.Claim] = addr
	delete(o.kept, a.Claim)
	return ""
}

// inside reports whether the network has the address for who asks for any.
func (o *oracle) inside(addr netip.Addr) bool {
	asks := o.asks
	o.asks = nil
	defer func() { o.asks = asks }()
	return o.open(addr, "")
}

func (o *oracle) lease(p *pool.Pool, a pool.Ask) netip.Addr {
	l, _ := p.Lease(a)
	return l.Addr.Addr()
}

// inTurn: what is given to who begins to ask is fresh, or has rested longest.
func (o *oracle) inTurn(a pool.Ask, was, got netip.Addr) string {
	if a.Addr.IsValid() || !got.IsValid() || was == got || o.users[a.Claim] == got {
		return ""
	}
	for b := o.spec.Network.Addr(); o.spec.Network.Contains(b); b = b.Next() {
		rested, other := o.since[b]
		mine, rests := o.since[got]
		if b == got || o.busy[b] || !o.open(b, "") {
			continue
		}
		if rests && (!other || rested < mine) {
			return fmt.Sprintf("%s is given before %s: rested since %d, the other %v %d", got, b, mine, other, rested)
		}
	}
	return ""
}

// open reports whether who asks for any address may have this one, but for users.
func (o *oracle) open(addr netip.Addr, claim string) bool {
	if !o.spec.Network.IsValid() || !o.spec.Network.Contains(addr) {
		return false
	}
	last := netip.AddrFrom4([4]byte{10, 0, 0, o.spec.Network.Addr().As4()[3] + byte(1<<(32-o.spec.Network.Bits())) - 1})
	if addr == o.spec.Network.Addr() || addr == last {
		return false
	}
	own := o.asks[pool.Ask{Claim: claim, Addr: addr}]
	used := claim != "" && (o.users[claim] == addr || o.kept[claim] == addr)
	for a := range o.asks {
		if a.Addr == addr && !own && !used {
			return false
		}
	}
	for _, r := range o.spec.Closed {
		if r.First == addr && !own {
			return false
		}
	}
	return true
}

// check looks at all leases.
func (o *oracle) check(p *pool.Pool) string {
	o.at++
	if !o.spec.Network.IsValid() {
		return ""
	}
	busy := map[netip.Addr]bool{}
	offers := map[netip.Addr]string{}
	for _, a := range o.users {
		busy[a] = true
	}
	hungry := false
	for a := range o.asks {
		l, ok := p.Lease(a)
		if !ok {
			return fmt.Sprintf("%s has no lease", a)
		}
		addr := l.Addr.Addr()
		if a.Addr.IsValid() {
			busy[a.Addr] = true
			continue
		}
		hungry = hungry || !addr.IsValid()
		if !addr.IsValid() {
			continue
		}
		if offers[addr] != "" {
			return fmt.Sprintf("%s is offered to %s and %s", addr, offers[addr], a.Claim)
		}
		if !o.open(addr, a.Claim) {
			return fmt.Sprintf("%s may not have %s", a.Claim, addr)
		}
		offers[addr], busy[addr] = a.Claim, true
	}
	if wrong := o.fair(busy, hungry); wrong != "" {
		return wrong
	}
	for addr := range o.busy {
		if !busy[addr] && o.inside(addr) {
			o.since[addr] = o.at
		}
	}
	o.busy = busy
	return ""
}

// fair: nobody waits while an address is free.
func (o *oracle) fair(busy map[netip.Addr]bool, hungry bool) string {
	for a := o.spec.Network.Addr(); o.spec.Network.IsValid() && o.spec.Network.Contains(a); a = a.Next() {
		if hungry && !busy[a] && o.open(a, "") {
			return fmt.Sprintf("somebody waits while %s is free", a)
		}
	}
	return ""
}
