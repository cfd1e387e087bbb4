package ipam_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// TestHistories lets values come, change and go at random, agents die at every
// failpoint and begin again, and looks at the end of each whether all is as the
// values say: nobody's address is another's, at no moment; who can have an address
// has one; nothing is kept that nobody uses; and a new start changes nothing.
func TestHistories(t *testing.T) {
	hits := map[string]int{}
	for seed := range uint64(histories) {
		synctest.Test(t, func(t *testing.T) { history(t, seed, hits) })
		if t.Failed() {
			return
		}
	}
	for _, name := range failpoints {
		if hits[name] == 0 {
			t.Errorf("nobody ever died at %s", name)
		}
	}
}

const histories = 150

var failpoints = []string{"ippool/recorded", "ipclaim/recorded", "ipclaim/freed"}

func history(t *testing.T, seed uint64, hits map[string]int) {
	r := rand.New(rand.NewPCG(seed, 5))
	a := newAgent(t)
	defer func() { a.stop() }()
	var log []string
	fail := func(format string, args ...any) {
		var keys []string
		list, _ := a.s.List(t.Context())
		for _, st := range list {
			keys = append(keys, string(st.Key))
		}
		t.Fatalf("seed %d: %s after\n%s\n%s%s", seed, fmt.Sprintf(format, args...), strings.Join(log, "\n"), a.disk, a.see(keys...))
	}
	mayDie := false
	for range 25 {
		what := randomWord(r)
		before, _ := a.recorded()
		sure := !mayDie // who was told something and died does it when it is back
		switch r.IntN(8) {
		case 0:
			what, mayDie = "restart", false
			a.restart()
		case 1:
			name := failpoints[r.IntN(len(failpoints))]
			what, mayDie = "die at "+name, true
			a.mu.Lock()
			a.fail = name
			a.mu.Unlock()
		default:
			a.say(what)
		}
		log = append(log, what)
		if wrong := a.keeps(before, what); wrong != "" && sure {
			fail("%s", wrong)
		}
		if len(a.nets.wrong) > 0 {
			fail("%s", a.nets.wrong[0])
		}
	}
	for name, n := range a.hits {
		hits[name] += n
	}
	a.restart()
	time.Sleep(time.Hour) // what had failed is tried again
	synctest.Wait()
	if wrong := a.settled(); wrong != "" {
		fail("%s", wrong)
	}
	before, writes, removed := maps.Clone(a.nets.has), a.nets.writes, a.nets.removed
	var lost []string
	for _, prefix := range []string{"ippool/blue", "ippool/red", "ipaddress/"} {
		if r.IntN(2) == 0 {
			lost = append(lost, prefix)
		}
	}
	log = append(log, fmt.Sprintf("restart, lost: %v", lost))
	a.restart(lost...)
	if a.nets.removed != removed && !a.contested() {
		fail("a new start removed addresses of %v", before)
	}
	if len(lost) == 0 && a.nets.writes != writes {
		fail("a new start changed %v to %v", before, a.nets.has)
	}
}

// keeps says who lost its address though nothing was said of it or its pool.
func (a *agent) keeps(before map[string]netip.Addr, said string) string {
	has, _ := a.recorded()
	for claim, addr := range before {
		v, wanted := a.want[scheduler.Key("ipclaim/"+claim)].(*models.IPClaim)
		if !wanted || strings.Contains(said, "ipclaim/"+claim) || strings.Contains(said, "ippool/"+v.GetPool()) {
			continue
		}
		p, _ := a.want[scheduler.Key("ippool/"+v.GetPool())].(*models.IPPool)
		if p != nil && has[claim] != addr && a.openButFor(v.GetPool(), map[netip.Addr][]string{addr: nil})[addr] {
			return fmt.Sprintf("%s had %s and has %s", claim, addr, has[claim])
		}
	}
	return ""
}

// randomWord is a few lines of what the source says.
func randomWord(r *rand.Rand) string {
	var lines []string
	for range 1 + r.IntN(4) {
		name := string("abcdefgh"[r.IntN(8)])
		pool := []string{"blue", "red"}[r.IntN(2)]
		switch r.IntN(10) {
		case 0:
			lines = append(lines, "ippool/"+pool)
		case 1, 2:
			lines = append(lines, fmt.Sprintf(`ippool/%s {"network":"10.0.%d.%d/%d","reserved":["10.0.%[2]d.%[3]d"]}`,
				pool, map[string]int{"blue": 0, "red": 1}[pool], 8*r.IntN(2), 29+r.IntN(2)))
		case 3, 4:
			lines = append(lines, "ipclaim/"+name)
		case 5:
			lines = append(lines, fmt.Sprintf(`ipclaim/%s {"pool":"%s","address":"10.0.%d.%d"}`,
				name, pool, map[string]int{"blue": 0, "red": 1}[pool], r.IntN(16)))
		case 6:
			lines = append(lines, "thing/"+name)
		case 7, 8:
			lines = append(lines, fmt.Sprintf(`ipclaim/%s {"pool":"%s"}`, name, pool), "thing/"+name+" "+name)
		default:
			lines = append(lines, "thing/"+name+" "+name)
		}
	}
	return strings.Join(lines, "\n")
}

// settled is the dumb oracle: from the values alone, and from which addresses were
// given to those who did not ask by name, what is wrong.
func (a *agent) settled() string {
	has, twice := a.recorded()
	if twice != "" {
		return twice + " has two addresses"
	}
	named, loose := a.shouldHave()
	taken := map[netip.Addr]string{}
	for claim, addr := range has {
		if other := taken[addr]; other != "" {
			return fmt.Sprintf("%s and %s have %s", claim, other, addr)
		}
		taken[addr] = claim
	}
	for pool, claims := range loose {
		free := 0
		for addr := range a.openTo(pool) {
			if c := taken[addr]; c != "" && !slices.Contains(claims, c) {
				return fmt.Sprintf("%s has %s of %s", c, addr, pool)
			} else if c == "" {
				free++
			}
		}
		for _, c := range claims {
			if _, ok := has[c]; ok {
				if !a.openTo(pool)[has[c]] && !a.openButFor(pool, named)[has[c]] {
					return fmt.Sprintf("%s has %s, which is not open", c, has[c])
				}
			} else if free > 0 {
				return fmt.Sprintf("%s waits while %d are free", c, free)
			}
			delete(has, c)
		}
	}
	for addr, claims := range named {
		if taken[addr] == "" {
			return fmt.Sprintf("%s is free, and %v ask for it", addr, claims)
		}
		if slices.Contains(claims, taken[addr]) {
			delete(has, taken[addr])
		}
	}
	if len(has) > 0 {
		return fmt.Sprintf("leaked: %v", has)
	}
	return a.dressed()
}

// recorded is what claims have by the ledger.
func (a *agent) recorded() (has map[string]netip.Addr, twice string) {
	has = map[string]netip.Addr{}
	for _, e := range a.disk.Entries("") {
		var u struct{ Claim string }
		if json.Unmarshal(e.Value, &u) != nil || u.Claim == "" {
			continue
		}
		if _, there := has[u.Claim]; there {
			twice = u.Claim
		}
		has[u.Claim] = netip.MustParseAddr(e.ID[strings.LastIndex(e.ID, "/")+1:])
	}
	return has, twice
}

// shouldHave are the addresses that claims ask for by name and that can be had, one of
// whom must have it if nobody has it by chance; and by pool those that ask for any.
func (a *agent) shouldHave() (named map[netip.Addr][]string, loose map[string][]string) {
	named, loose = map[netip.Addr][]string{}, map[string][]string{} // the pools do not overlap
	for _, k := range slices.Sorted(maps.Keys(a.want)) {
		v, isClaim := a.want[k].(*models.IPClaim)
		if !isClaim {
			continue
		}
		name := strings.TrimPrefix(string(k), "ipclaim/")
		p, _ := a.want[scheduler.Key("ippool/"+v.GetPool())].(*models.IPPool)
		if p == nil {
			continue
		}
		if v.GetAddress() == "" {
			loose[v.GetPool()] = append(loose[v.GetPool()], name)
		} else if addr := netip.MustParseAddr(v.GetAddress()); usable(p, addr) {
			named[addr] = append(named[addr], name)
		}
	}
	return named, loose
}

// contested reports whether two claims ask for one address by name. Without its pool, nobody knows
// which of them has it.
func (a *agent) contested() bool {
	named, _ := a.shouldHave()
	for _, claims := range named {
		if len(claims) > 1 {
			return true
		}
	}
	return false
}

// openButFor are the addresses that only those keep from who ask for them by name: who
// had one before keeps it.
func (a *agent) openButFor(pool string, named map[netip.Addr][]string) map[netip.Addr]bool {
	p := a.want[scheduler.Key("ippool/"+pool)].(*models.IPPool)
	open := map[netip.Addr]bool{}
	for addr := range named {
		open[addr] = usable(p, addr) && !slices.Contains(p.GetReserved(), addr.String())
	}
	return open
}

func usable(p *models.IPPool, addr netip.Addr) bool {
	network := netip.MustParsePrefix(p.GetNetwork())
	last := network.Addr().As4()
	last[3] += byte(1<<(32-network.Bits())) - 1
	return network.Contains(addr) && addr != network.Addr() && addr != netip.AddrFrom4(last)
}

// openTo are the addresses of a pool that may be given to who asks for any.
func (a *agent) openTo(pool string) map[netip.Addr]bool {
	open := map[netip.Addr]bool{}
	p := a.want[scheduler.Key("ippool/"+pool)].(*models.IPPool)
	network := netip.MustParsePrefix(p.GetNetwork())
	for addr := network.Addr(); network.Contains(addr); addr = addr.Next() {
		open[addr] = usable(p, addr) && !slices.Contains(p.GetReserved(), addr.String())
	}
	for _, v := range a.want {
		if c, ok := v.(*models.IPClaim); ok && c.GetPool() == pool && c.GetAddress() != "" {
			delete(open, netip.MustParseAddr(c.GetAddress()))
		}
	}
	maps.DeleteFunc(open, func(_ netip.Addr, ok bool) bool { return !ok })
	return open
}

// dressed: things have the addresses of their claims.
func (a *agent) dressed() string {
	for k := range a.want {
		name, isThing := strings.CutPrefix(string(k), "thing/")
		if !isThing {
			continue
		}
		p, held := a.book.Prefix(name)
		if got := a.nets.has[name]; held && got != p || !held && got.IsValid() {
			return fmt.Sprintf("thing %s has %s, its claim %s", name, got, p)
		}
	}
	for name := range a.nets.has {
		if a.want[scheduler.Key("thing/"+name)] == nil {
			return "thing " + name + " is left"
		}
	}
	return ""
}
