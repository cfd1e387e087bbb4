package iface_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// A crash at any place between ledger, kernel and mark leaves nothing that the
// next agent does not find, finish or remove.
func TestCrashes(t *testing.T) {
	types := map[string][]string{
		"bridge": {"bridge0", `{"bridge":{}}`},
		"far":    {"mv", `{"namespace":{"netns":"blue"},"host_name":"eth0","macvlan":{"parent":"under"}}`},
		"veth":   {"a", `{"veth":{"peer":"b"}}`, "b", `{"namespace":{"netns":"blue"},"host_name":"eth0","veth":{"peer":"a"}}`},
		"lo":     {"lo1", `{"namespace":{"netns":"blue"},"loopback":{}}`},
	}
	hits := map[string]int{}
	for _, point := range []string{"interface/recorded", "interface/made", "interface/marked", "interface/adopted", "interface/deleted"} {
		for kind, x := range types {
			for _, finish := range []bool{true, false} {
				name := point + "/" + kind
				if finish {
					name += "/finish"
				} else {
					name += "/remove"
				}
				t.Run(name, func(t *testing.T) {
					b := newBench(t, "blue")
					under := `{"bridge":{}}`
					b.make("under", under)
					b.fail.hits = nil
					b.fail.set(point)
					crashed := b.build(x)
					if !crashed {
						crashed = b.delete(x[0]) != nil
					}
					b.fail.set("")
					if crashed != (b.fail.hits[point] > 0) {
						t.Fatalf("crashed %v after %d hits", crashed, b.fail.hits[point])
					}
					hits[point] += b.fail.hits[point]

					b.restart()
					for k, f := range b.look() {
						b.self.put(k, f.Value, f.Meta)
					}
					if finish {
						b.finish("under", under)
						for i := 0; i < len(x); i += 2 {
							b.finish(x[i], x[i+1])
						}
						b.same()
						return
					}
					b.removeAll()
					if names := b.own.Names(t); len(names) != 0 {
						t.Errorf("left: %v", names)
					}
					if names := b.nets["blue"].Names(t); len(names) != 0 {
						t.Errorf("left in blue: %v", names)
					}
					if up := b.nets["blue"].Show(t, "lo")["operstate"]; up != "DOWN" {
						t.Errorf("lo of blue was down and is %v", up)
					}
					b.look() // takes leave of what the ledger names in vain
					if left := b.ledger.Entries(""); len(left) != 0 {
						t.Errorf("the ledger still names:\n%s", b.ledger)
					}
				})
			}
		}
	}
	for _, point := range []string{"interface/recorded", "interface/made", "interface/marked", "interface/adopted", "interface/deleted"} {
		if hits[point] == 0 {
			t.Errorf("failpoint %s was never hit", point)
		}
	}
}

// build wants and creates name, value pairs; true when it crashed.
func (b *bench) build(x []string) (crashed bool) {
	for i := 0; i < len(x); i += 2 {
		b.want(x[i], x[i+1])
	}
	for i := 0; i < len(x); i += 2 {
		k := scheduler.Key(models.InterfaceKey(x[i]))
		v, _ := b.self.Wanted(k)
		if _, err := b.create(k, v); err != nil {
			if !errors.Is(err, errCrash) {
				b.t.Fatal(err)
			}
			return true
		}
	}
	return false
}

// finish does what the scheduler would after a restart: nothing, update,
// replace or create.
func (b *bench) finish(name, text string) {
	b.t.Helper()
	k, v := b.want(name, text)
	if peer := v.GetVeth().GetPeer(); peer != "" {
		if _, ok := b.self.Wanted(scheduler.Key(models.InterfaceKey(peer))); !ok {
			b.want(peer, `{"namespace":{"netns":"blue"},"host_name":"eth0","veth":{"peer":"`+name+`"}}`)
		}
	}
	actual, _, there := b.self.Get(k)
	if !there {
		b.make(name, text)
		return
	}
	switch verdict := b.kind.Compare(k, actual, v); verdict.Change {
	case scheduler.InPlace:
		if err := b.update(name, text); err != nil {
			b.t.Fatal(err)
		}
	case scheduler.Replace:
		b.t.Errorf("%s would be replaced: %s", k, verdict.Reason)
	}
}

func (b *bench) removeAll() {
	b.t.Helper()
	for k, f := range b.look() {
		b.self.put(k, f.Value, f.Meta)
		if err := b.delete(string(k[len("interface/"):])); err != nil {
			b.t.Error(err)
		}
	}
}

// An alias that somebody took away is put back; with the ledger lost as well
// the link is no longer known.
// A link that is as wished but for its mark, because its creation was cut
// short, gets it by being found: nobody would touch it else.
func TestCutShortIsMarked(t *testing.T) {
	b := newBench(t)
	b.fail.set("interface/made")
	if _, err := b.try("br0", `{"bridge":{}}`); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	b.fail.set("")
	b.restart()
	b.want("br0", `{"bridge":{}}`)
	b.same()
	if got := b.own.Show(t, "br0")["ifalias"]; got != "plumb:host7:interface/br0" {
		t.Errorf("the mark is %v", got)
	}
}

// A reading that is read-only does not mend even that.
func TestReadOnlyMendsNothing(t *testing.T) {
	b := newBench(t)
	b.fail.set("interface/made")
	if _, err := b.try("bridge0", `{"bridge":{}}`); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	b.fail.set("")
	b.restart()
	k, v := b.want("bridge0", `{"bridge":{}}`)
	writes := b.writesOf(func() {
		for _, s := range []scope{{All: true}, {Keys: []scheduler.Key{k}}} {
			s.ReadOnly = true
			n := 0
			for f, err := range b.kind.Retrieve(t.Context(), s) {
				if n++; err != nil || f.Key != k || b.kind.Compare(k, f.Value, v).Change != scheduler.Same {
					t.Errorf("found %s, %v", models.Encode(f.Value), err)
				}
			}
			if n != 1 {
				t.Errorf("found %d links, want one", n)
			}
		}
	})
	if got := b.own.Show(t, "bridge0")["ifalias"]; got != nil || writes != 0 {
		t.Errorf("the mark is %v after %d writes, want none of both", got, writes)
	}
	b.look()
	if got := b.own.Show(t, "bridge0")["ifalias"]; got != "plumb:host7:interface/bridge0" {
		t.Errorf("after any other reading the mark is %v", got)
	}
}

func TestAliasLost(t *testing.T) {
	b := newBench(t)
	b.make("bridge0", `{"bridge":{}}`)
	b.own.Run(t, "ip", "link", "set", "bridge0", "alias", "")
	b.restart()
	b.want("bridge0", `{"bridge":{}}`)
	for k, f := range b.look() {
		b.self.put(k, f.Value, f.Meta)
	}
	b.finish("bridge0", `{"bridge":{}}`)
	b.same()
	if got := b.own.Show(t, "bridge0")["ifalias"]; got != "plumb:host7:interface/bridge0" {
		t.Errorf("alias %v", got)
	}

	b.own.Run(t, "ip", "link", "set", "bridge0", "alias", "")
	*b.ledger = kernel.MemLedger{}
	b.restart()
	if got := b.look(); len(got) != 0 {
		t.Errorf("taken for ours without any evidence: %v", got)
	}
	if _, err := b.try("bridge0", `{"bridge":{}}`); err == nil {
		t.Error("a link without evidence was taken over")
	}
}

// A link that was renamed is found by its mark, and gets its name back.
func TestRenamedLinkIsFound(t *testing.T) {
	b := newBench(t)
	b.make("bridge0", `{"bridge":{}}`)
	b.own.Rename(t, "bridge0", "other")
	for _, restart := range []bool{false, true} {
		if restart {
			b.restart()
			b.want("bridge0", `{"bridge":{}}`)
		}
		for _, got := range []map[scheduler.Key]found{b.look("bridge0"), b.look()} {
			if f := got["interface/bridge0"]; f.Value.GetHostName() != "other" {
				t.Errorf("restart %v: found %v", restart, f.Value)
			}
		}
	}
}

// After a crash between ledger and kernel somebody else takes the name: the
// entry alone makes nothing ours.
func TestForeignerComesAfterACrash(t *testing.T) {
	for name, foreign := range map[string][]string{
		"plain":           {"link add bridge0 type bridge"},
		"group and alias": {"link add bridge0 group %d type bridge", "link set dev bridge0 alias theirs"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.fail.set("interface/recorded")
			if _, err := b.try("bridge0", `{"bridge":{}}`); !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			b.fail.set("")
			b.restart()
			for _, cmd := range foreign {
				b.own.IP(t, strings.Replace(cmd, "%d", fmt.Sprint(kernel.Group(label)), 1))
			}
			before := b.own.IP(t, "-o link show dev bridge0")
			if got := b.look("bridge0"); len(got) != 0 {
				t.Errorf("taken for ours: %v", got)
			}
			b.ledger.Add(kernel.Entry{ID: "interface/bridge0", Boot: "boot", NS: b.Own(), Value: []byte(`{"bridge":{}}`)})
			_, err := b.try("bridge0", `{"bridge":{"stp":true}}`)
			var class *scheduler.OpError
			if !errors.As(err, &class) || class.Owner == "" {
				t.Errorf("%v, want a conflict", err)
			}
			if after := b.own.IP(t, "-o link show dev bridge0"); after != before {
				t.Errorf("touched: %s", after)
			}
		})
	}
}
