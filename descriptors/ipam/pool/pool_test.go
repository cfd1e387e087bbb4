package pool_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/plumb-net/plumb/descriptors/ipam/pool"
)

// TestStories plays testdata: what claims ask and do, line by line, and what
// they are told then.
//
//	set NETWORK [length=BITS] [closed=FIRST-LAST]…   unset
//	ask CLAIM[=ADDR]   drop CLAIM[=ADDR]   take CLAIM[=ADDR]   free CLAIM
//
// After each line stand the leases that have changed.
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		p := pool.New()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var b strings.Builder
			for line := range strings.Lines(d.Input) {
				fmt.Fprintf(&b, "%s", play(t, p, strings.Fields(line)))
				for _, a := range p.News() {
					l, ok := p.Lease(a)
					switch {
					case !ok:
						fmt.Fprintf(&b, "%s: -\n", a)
					case l.Addr.IsValid():
						fmt.Fprintf(&b, "%s: %s\n", a, l.Addr)
					default:
						fmt.Fprintf(&b, "%s: %s\n", a, l.Why)
					}
				}
			}
			return b.String()
		})
	})
}

func play(t *testing.T, p *pool.Pool, words []string) string {
	t.Helper()
	switch words[0] {
	case "set":
		p.Set(spec(words[1:]...))
	case "unset":
		p.Unset()
	case "ask":
		p.Ask(ask(words[1]))
	case "drop":
		p.Drop(ask(words[1]))
	case "take":
		got, err := p.Take(ask(words[1]))
		if err != nil {
			if !errors.Is(err, pool.ErrNone) {
				t.Errorf("%v: %v", words, err)
			}
			return fmt.Sprintln("error:", err)
		}
		return fmt.Sprintf("%s has %s\n", words[1], got)
	case "free":
		if a, ok := p.Free(words[1]); ok {
			return fmt.Sprintf("%s had %s\n", words[1], a)
		}
		return fmt.Sprintln(words[1], "had none")
	default:
		t.Fatalf("unknown %v", words)
	}
	return ""
}

func ask(s string) pool.Ask {
	claim, addr, _ := strings.Cut(s, "=")
	a, _ := netip.ParseAddr(addr)
	return pool.Ask{Claim: claim, Addr: a}
}

func spec(words ...string) pool.Spec {
	s := pool.Spec{Network: netip.MustParsePrefix(words[0])}
	for _, w := range words[1:] {
		if length, ok := strings.CutPrefix(w, "length="); ok {
			s.Length, _ = strconv.Atoi(length)
			continue
		}
		first, last, _ := strings.Cut(strings.TrimPrefix(w, "closed="), "-")
		s.Closed = append(s.Closed, pool.Range{First: netip.MustParseAddr(first), Last: netip.MustParseAddr(last)})
	}
	return s
}

// BenchmarkTake16 takes and frees in a /16 that is nearly full, of which every
// second address is closed: it costs no more than in an empty one.
func BenchmarkTake16(b *testing.B) {
	for _, fill := range []int{0, 30000} {
		b.Run(fmt.Sprint("taken ", fill), func(b *testing.B) {
			p := pool.New()
			s := pool.Spec{Network: netip.MustParsePrefix("10.0.0.0/16")}
			for a := netip.MustParseAddr("10.0.0.1"); s.Network.Contains(a); a = a.Next().Next() {
				s.Closed = append(s.Closed, pool.Range{First: a, Last: a})
			}
			p.Set(s)
			for i := range fill {
				if _, err := p.Take(pool.Ask{Claim: fmt.Sprint("c", i)}); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				if _, err := p.Take(pool.Ask{Claim: "x"}); err != nil {
					b.Fatal(err)
				}
				p.Free("x")
			}
		})
	}
}

// TestLargeNetworkCostsNothing: what a pool keeps grows with what is used, and no
// more than a bounded number of freed addresses rest.
func TestLargeNetworkCostsNothing(t *testing.T) {
	p := pool.New()
	p.Set(pool.Spec{Network: netip.MustParsePrefix("fd00::/64")})
	seen := map[netip.Addr]int{}
	for i := range 20000 {
		got, err := p.Take(pool.Ask{Claim: "x"})
		if err != nil {
			t.Fatal(err)
		}
		if last, again := seen[got.Addr()]; again && i-last < 4096 {
			t.Fatalf("%s is given again after %d others", got, i-last)
		}
		seen[got.Addr()] = i
		p.Free("x")
	}
	if len(seen) > 5000 {
		t.Errorf("%d addresses were touched", len(seen))
	}
}

// TestFull: to ask takes nothing.
func TestFull(t *testing.T) {
	p := pool.New()
	full := func(want bool) {
		t.Helper()
		for range 3 {
			if p.Full() != want {
				t.Fatalf("full: %v", !want)
			}
		}
	}
	full(false) // it has no network: nobody can tell
	p.Set(spec("10.0.0.0/30"))
	for _, c := range []string{"a", "b"} {
		full(false)
		if _, err := p.Take(pool.Ask{Claim: c}); err != nil {
			t.Fatal(err)
		}
	}
	full(true)
	p.Free("a")
	full(false)
}

func TestRestore(t *testing.T) {
	p := pool.New()
	p.Restore("web", netip.MustParseAddr("10.0.0.3"))
	p.Rest(netip.MustParseAddr("10.0.0.2"))
	p.Rest(netip.MustParseAddr("10.0.0.1"))
	p.Rest(netip.MustParseAddr("10.9.0.1"))
	p.Set(spec("10.0.0.0/29"))
	if got, _ := p.Prefix("web"); got.String() != "10.0.0.3/29" {
		t.Errorf("web uses %s", got)
	}
	var order []string
	for _, c := range []string{"web", "a", "b", "c", "d", "e"} {
		got, err := p.Take(pool.Ask{Claim: c})
		if err != nil {
			t.Fatal(err)
		}
		order = append(order, got.Addr().String())
	}
	if got := strings.Join(order, " "); got != "10.0.0.3 10.0.0.4 10.0.0.5 10.0.0.6 10.0.0.2 10.0.0.1" {
		t.Errorf("got %s", got)
	}
}
