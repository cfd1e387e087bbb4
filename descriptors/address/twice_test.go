package address_test

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/scheduler"
)

// Two keys that come to one address, one by the address and one by a claim that holds
// it, on a link of ours and on one of others.
var twice = []struct{ key, value string }{
	{"address/web/10.0.0.5/24", `{"interface":"web","address":"10.0.0.5/24"}`},
	{"address/web/claim:c", `{"interface":"web","claim":"c"}`},
	{"address/extra", `{"interface":"web","claim":"c"}`},
}

func eachLink(t *testing.T, f func(t *testing.T, b *bench)) {
	for _, link := range []string{"bridge", "existing"} {
		t.Run(link, func(t *testing.T) {
			b := newBench(t)
			b.link("web", `{"`+link+`":{}}`)
			b.claims["c"] = netip.MustParsePrefix("10.0.0.5/24")
			f(t, b)
		})
	}
}

// ours is what is found, but for what the kernel gives links by itself.
func (b *bench) ours() string {
	return strings.Join(slices.DeleteFunc(strings.Fields(b.look()), func(k string) bool { return strings.Contains(k, "/fe80:") }), " ")
}

// forgets is a new start of the agent: what is in place is what is found of the keys
// that are wanted, and of those that the ledger names.
func (b *bench) forgets() {
	b.restart()
	had := maps.Clone(b.in)
	clear(b.in)
	for k, kn := range had {
		if kn.InPlace = false; b.wanted[k] {
			b.in[k] = kn
		}
	}
	s := scope{All: true, Known: slices.Collect(maps.Values(b.in))}
	clear(b.in)
	for f, err := range b.kind.Retrieve(b.t.Context(), s) {
		if kn, ok := had[f.Key]; ok && err == nil {
			b.believe(f.Key, kn.Value, f.Meta)
		}
	}
}

// Who has the address keeps it while it wants it, over a restart too. The newcomer
// waits for that key, and the address is never touched.
func TestWhoHasAnAddressKeepsIt(t *testing.T) {
	eachLink(t, func(t *testing.T, b *bench) {
		for _, first := range twice {
			if err := b.add(first.key, first.value); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				for _, other := range twice {
					var blocked *scheduler.OpError
					err := b.add(other.key, other.value)
					switch {
					case other.key == first.key && err != nil:
						t.Errorf("%s again: %v", first.key, err)
					case other.key != first.key && (!errors.As(err, &blocked) || string(blocked.On) != first.key):
						t.Errorf("%s beside %s: %v", other.key, first.key, err)
					}
				}
				if got := b.ours(); got != first.key {
					t.Errorf("found %q, want %s", got, first.key)
				}
				b.forgets()
			}
			b.delete(first.key)
			if got := b.shown("web"); got != "" {
				t.Errorf("left %s", got)
			}
			if left := b.owner().Entries("address/"); len(left) != 0 {
				t.Errorf("the ledger still names %v", left)
			}
		}
	})
}

// A key that is not wanted any more hands its address over as it stands: in whatever
// order the one is made and the other deleted, it never goes.
func TestAnAddressIsHandedOver(t *testing.T) {
	eachLink(t, func(t *testing.T, b *bench) {
		for _, from := range twice {
			for _, to := range twice {
				if from == to {
					continue
				}
				for _, restart := range []string{"", "before", "between", "after"} {
					again := func(when string) {
						if restart == when {
							b.forgets()
						}
					}
					if err := b.add(from.key, from.value); err != nil {
						t.Fatal(err)
					}
					b.wanted[scheduler.Key(from.key)] = false
					again("before")
					if err := b.add(to.key, to.value); err != nil {
						t.Fatalf("%s → %s: %v", from.key, to.key, err)
					}
					again("between")
					if _, there := b.in[scheduler.Key(from.key)]; there {
						b.delete(from.key)
					}
					again("after")
					if got := b.shown("web"); !strings.HasPrefix(got, "10.0.0.5/24") {
						t.Fatalf("%s → %s, restart %q: there is %q", from.key, to.key, restart, got)
					}
					if got := b.ours(); got != to.key {
						t.Errorf("%s → %s, restart %q: found %q", from.key, to.key, restart, got)
					}
					b.delete(to.key)
					if got := b.shown("web"); got != "" {
						t.Errorf("%s → %s, restart %q: left %s", from.key, to.key, restart, got)
					}
				}
			}
		}
	})
}

// Two in one batch: the smaller key has it.
func TestTwoOfOneAddressInABatch(t *testing.T) {
	eachLink(t, func(t *testing.T, b *bench) {
		var ops []*op
		for _, x := range twice {
			b.wanted[scheduler.Key(x.key)] = true
			ops = append(ops, &op{Key: scheduler.Key(x.key), Value: decode(t, x.value)[0]})
		}
		b.kind.CreateBatch(t.Context(), ops)
		for _, o := range ops {
			if made := o.Err == nil; made != (o.Key == "address/extra") {
				t.Errorf("%s: %v", o.Key, o.Err)
			}
		}
		if got := b.shown("web"); got != "10.0.0.5/24" {
			t.Errorf("there is %q", got)
		}
	})
}
