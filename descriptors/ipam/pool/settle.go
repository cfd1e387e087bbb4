package pool

import (
	"fmt"
	"net/netip"
)

// settle decides what an ask gets.
func (p *Pool) settle(a Ask) {
	switch {
	case !p.ready:
		p.wait.remove(a.Claim)
		p.withdraw(a.Claim)
		p.tell(a, Lease{})
	case a.any():
		p.settleAny(a.Claim)
	default:
		p.tell(a, p.fixed(a))
	}
}

// tell sets a lease; what differs is news.
func (p *Pool) tell(a Ask, l Lease) {
	if p.leases[a] != l {
		p.leases[a] = l
		p.news[a] = true
	}
}

// fixed is the lease of who asks for a certain address.
func (p *Pool) fixed(a Ask) Lease {
	if why := p.shape.refuses(a.Addr); why != "" {
		return Lease{Why: why}
	}
	user, used := p.users[a.Addr]
	if p.kept[a.Addr] {
		user, used = p.held[a.Addr], true
	}
	if used && user != a.Claim {
		return Lease{Why: fmt.Sprintf("%s is held by ipclaim/%s", a.Addr, user)}
	}
	return Lease{Addr: p.prefix(a.Addr)}
}

// settleFixed decides anew about those who ask for an address.
func (p *Pool) settleFixed(addr netip.Addr) {
	for a := range p.asked[addr] {
		p.settle(a)
	}
}

// settleAny decides about claims that ask for any address: they keep what they
// have for as long as they may. The others wait to be fed.
func (p *Pool) settleAny(claims ...string) {
	for _, claim := range claims {
		a := Ask{Claim: claim}
		if _, asks := p.leases[a]; !asks || !p.ready {
			continue
		}
		used, uses := p.uses[claim]
		offer, offered := p.offers[claim]
		switch {
		case uses && p.mayHave(claim, used):
			p.withdraw(claim)
			p.give(claim, used)
		case offered && p.mayHave(claim, offer):
			p.give(claim, offer)
		default:
			p.withdraw(claim)
			p.wait.add(claim)
			p.tell(a, Lease{Why: p.shape.full})
		}
	}
}

func (p *Pool) give(claim string, addr netip.Addr) {
	p.wait.remove(claim)
	p.tell(Ask{Claim: claim}, Lease{Addr: p.prefix(addr)})
}

// mayHave reports whether who asks for any address may have this one. Who uses it, or
// has just freed it, keeps it, whoever asks for it by its name; of an address that nobody uses who asks
// for it by its name is stronger. A claim that does both is about to change its mind,
// and is not driven out meanwhile.
func (p *Pool) mayHave(claim string, addr netip.Addr) bool {
	user, used := p.users[addr]
	switch {
	case used && user != claim:
		return false
	case p.asked[addr][Ask{claim, addr}]:
		return p.shape.refuses(addr) == ""
	}
	mine := used || p.kept[addr] && p.held[addr] == claim
	return p.Open(addr) && (mine || len(p.asked[addr]) == 0)
}

// withdraw takes back what is offered to a claim.
func (p *Pool) withdraw(claim string) {
	if addr, offered := p.offers[claim]; offered {
		p.unoffer(claim, addr)
		p.lay(addr)
		p.settleFixed(addr)
	}
}

func (p *Pool) unoffer(claim string, addr netip.Addr) {
	if p.offers[claim] == addr {
		delete(p.offers, claim)
		delete(p.held, addr)
		delete(p.kept, addr)
	}
}

// lay lets an address rest that nobody uses, is offered or asks for.
func (p *Pool) lay(addr netip.Addr) {
	if p.taken(addr) || !p.Open(addr) || p.rest.has(addr) {
		return
	}
	p.rest.add(addr)
}

func (p *Pool) taken(addr netip.Addr) bool {
	_, used := p.users[addr]
	_, offered := p.held[addr]
	return used || offered || len(p.asked[addr]) > 0
}

// feed gives free addresses to those who wait.
func (p *Pool) feed() {
	for p.ready {
		claim, waits := p.wait.first()
		if !waits {
			return
		}
		addr, free := p.next()
		if !free {
			return
		}
		p.offers[claim], p.held[addr] = addr, claim
		p.give(claim, addr)
	}
}

// next takes the next address out of those that are free.
func (p *Pool) next() (netip.Addr, bool) {
	if len(p.rest.at) > remembered {
		return p.rest.oldest()
	}
	for p.cursor.IsValid() && p.shape.network.Contains(p.cursor) {
		addr := p.cursor
		if r, closed := p.shape.closedAt(addr); closed {
			p.cursor = r.Last.Next()
			continue
		}
		p.cursor = addr.Next()
		if !p.taken(addr) && !p.rest.has(addr) {
			return addr, true
		}
	}
	return p.rest.oldest()
}
