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
	for range 25 {
		what := randomWord(r)
		switch r.IntN(8) {
		case 0:
			what = "restart"
			a.restart()
		case 1:
			name := failpoints[r.IntN(len(failpoints))]
			what = "die at " + name
			a.mu.Lock()
			a.fail = name
			a.mu.Unlock()
		default:
			a.say(what)
		}
		log = append(log, what)
		if len(a.world.wrong) > 0 {
			fail("%s", a.world.wrong[0])
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
	before, writes := maps.Clone(a.world.has), a.world.writes
	a.restart()
	if !maps.Equal(before, a.world.has) || a.world.writes != writes {
		fail("a new start changed %v to %v", before, a.world.has)
	}
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
	has := map[string]netip.Addr{} // what claims have by the ledger
	for _, e := range a.disk.Entries() {
		var u struct{ Claim string }
		if json.Unmarshal(e.Value, &u) == nil && u.Claim != "" {
			addr := netip.MustParseAddr(e.ID[strings.LastIndex(e.ID, "/")+1:])
			if _, twice := has[u.Claim]; twice {
				return u.Claim + " has two addresses"
			}
			has[u.Claim] = addr
		}
	}
	fixed, loose := a.shouldHave()
	for claim, addr := range fixed {
		if has[claim] != addr {
			return fmt.Sprintf("%s should have %s and has %s", claim, addr, has[claim])
		}
	}
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
				if !a.openTo(pool)[has[c]] {
					return fmt.Sprintf("%s has %s, which is not open", c, has[c])
				}
			} else if free > 0 {
				return fmt.Sprintf("%s waits while %d are free", c, free)
			}
			delete(has, c)
		}
	}
	for claim := range fixed {
		delete(has, claim)
	}
	if len(has) > 0 {
		return fmt.Sprintf("leaked: %v", has)
	}
	return a.dressed()
}

// shouldHave are the claims that ask for an address by its name and must have it,
// and by pool those that ask for any.
func (a *agent) shouldHave() (fixed map[string]netip.Addr, loose map[string][]string) {
	fixed, loose = map[string]netip.Addr{}, map[string][]string{}
	won := map[netip.Addr]bool{} // the pools do not overlap
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
			continue
		}
		addr := netip.MustParseAddr(v.GetAddress())
		if !won[addr] {
			won[addr] = true
			if usable(p, addr) {
				fixed[name] = addr
			}
		}
	}
	return fixed, loose
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
		if got := a.world.has[name]; held && got != p || !held && got.IsValid() {
			return fmt.Sprintf("thing %s has %s, its claim %s", name, got, p)
		}
	}
	for name := range a.world.has {
		if a.want[scheduler.Key("thing/"+name)] == nil {
			return "thing " + name + " is left"
		}
	}
	return ""
}
