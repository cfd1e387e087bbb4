package ipam_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/plumb-net/plumb/descriptors/ipam"
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// nets are things that have the addresses of claims, as interfaces do.
// They outlive agents.
type nets struct {
	mu      sync.Mutex
	has     map[string]netip.Prefix // what a thing has
	writes  int
	removed int      // of the writes, those that removed an address
	wrong   []string // addresses that two things had at once
}

// things are the kind of what has an address; the value is the claim's name. No
// two things of the tests name the same claim.
func (n *nets) things(b *ipam.Book, dead *atomic.Bool) scheduler.Descriptor[string, netip.Prefix] {
	name := func(k scheduler.Key) string { return strings.TrimPrefix(string(k), "thing/") }
	return scheduler.Descriptor[string, netip.Prefix]{
		Name: "thing", Prefix: "thing/",
		Needs: func(_ scheduler.Key, claim string) []scheduler.Need {
			return []scheduler.Need{b.Need(strings.TrimSuffix(claim, old))}
		},
		Create: func(_ context.Context, k scheduler.Key, claim string) (netip.Prefix, error) {
			p, ok := b.Prefix(claim)
			if !ok || dead.Load() {
				return p, fmt.Errorf("%s holds no address", claim)
			}
			n.mu.Lock()
			defer n.mu.Unlock()
			n.writes++
			for other, q := range n.has {
				if q.Addr() == p.Addr() && other != name(k) {
					n.wrong = append(n.wrong, fmt.Sprintf("%s gets %s, which %s has", name(k), p, other))
				}
			}
			n.has[name(k)] = p
			return p, nil
		},
		Delete: func(_ context.Context, k scheduler.Key, _ string, _ netip.Prefix) error {
			if dead.Load() {
				return errCrash
			}
			n.mu.Lock()
			defer n.mu.Unlock()
			n.writes++
			n.removed++
			delete(n.has, name(k))
			return nil
		},
		Retrieve: func(_ context.Context, s scheduler.Scope[string, netip.Prefix]) iter.Seq2[scheduler.Found[string, netip.Prefix], error] {
			n.mu.Lock()
			has := maps.Clone(n.has)
			n.mu.Unlock()
			return func(yield func(scheduler.Found[string, netip.Prefix], error) bool) {
				for _, t := range slices.Sorted(maps.Keys(has)) {
					k, claim := scheduler.Key("thing/"+t), t
					if p, ok := b.Prefix(t); ok && p != has[t] { // as the kind address does
						claim += old
					}
					if s.Has(k) && !yield(scheduler.Found[string, netip.Prefix]{Key: k, Value: claim, Meta: has[t]}, nil) {
						return
					}
				}
			}
		},
	}
}

// old says of a thing that was found that its claim has another address now.
const old = " of old"

// agent is a scheduler with the kinds, over a ledger and nets that outlive it.
type agent struct {
	t    testing.TB
	nets *nets
	disk *kernel.MemLedger
	fail string // the failpoint at which operations die
	hits map[string]int
	lost bool // the ledger has lost entries

	mu   sync.Mutex
	s    *scheduler.Scheduler
	book *ipam.Book
	stop func()
	want map[scheduler.Key]any
}

var errCrash = errors.New("crash")

// disk is the ledger as one agent sees it: once the agent is dead, nothing that it
// does reaches it any more, nor the nets.
type disk struct {
	*kernel.MemLedger
	dead atomic.Bool
}

func (d *disk) Add(entries ...kernel.Entry) error {
	if d.dead.Load() {
		return errCrash
	}
	return d.MemLedger.Add(entries...)
}

func (d *disk) Remove(ids ...string) {
	if !d.dead.Load() {
		d.MemLedger.Remove(ids...)
	}
}

func newAgent(t testing.TB) *agent {
	a := &agent{t: t, nets: &nets{has: map[string]netip.Prefix{}}, disk: &kernel.MemLedger{}, hits: map[string]int{}, want: map[scheduler.Key]any{}}
	a.start()
	return a
}

func (a *agent) start() {
	a.t.Helper()
	var err error
	seen := &disk{MemLedger: a.disk}
	a.book = ipam.Open(seen, func(name string) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.hits[name]++
		if name == a.fail {
			seen.dead.Store(true)
			return errCrash
		}
		return nil
	})
	if a.lost {
		var found []ipam.Taken
		a.nets.mu.Lock()
		for _, thing := range slices.Sorted(maps.Keys(a.nets.has)) {
			found = append(found, ipam.Taken{Claim: thing, Addr: a.nets.has[thing].Addr(), OnLink: true})
		}
		a.nets.mu.Unlock()
		a.book.Found(found)
	}
	a.s = scheduler.New(scheduler.Options{Sources: []string{"test"}})
	must := func(err error) {
		if err != nil {
			a.t.Fatal(err)
		}
	}
	_, err = scheduler.Register(a.s, ipam.Pools(a.book))
	must(err)
	_, err = scheduler.Register(a.s, ipam.Leases(a.book))
	must(err)
	_, err = scheduler.Register(a.s, ipam.Claims(a.book))
	must(err)
	_, err = scheduler.Register(a.s, a.nets.things(a.book, &seen.dead))
	must(err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	s := a.s
	go func() { ended <- s.Run(ctx) }()
	a.stop = func() { cancel(); <-ended }
	synctest.Wait() // the kinds have been read when the source says what it wants
	a.sayAll()
	synctest.Wait()
}

// sayAll is the complete snapshot of the source, as at a start.
func (a *agent) sayAll() {
	txn := scheduler.Txn{Source: "test", Complete: true}
	for _, k := range slices.Sorted(maps.Keys(a.want)) {
		txn.Want = append(txn.Want, scheduler.Change{Key: k, Value: a.want[k]})
	}
	a.s.Submit(txn)
}

// restart ends the agent, removes the entries with a prefix of lost from the ledger, and starts
// another agent, which finds the addresses that things have.
func (a *agent) restart(lost ...string) {
	a.stop()
	a.lost = len(lost) > 0
	for _, prefix := range lost {
		for _, e := range a.disk.Entries(prefix) {
			a.disk.Remove(e.ID)
		}
	}
	a.mu.Lock()
	a.fail = ""
	a.mu.Unlock()
	a.start()
}

// say wants values, line by line: KEY VALUE, with no value to withdraw one.
func (a *agent) say(lines string) {
	a.t.Helper()
	txn := scheduler.Txn{Source: "test"}
	for line := range strings.Lines(lines) {
		key, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		k := scheduler.Key(key)
		var v any
		switch kind, _, _ := strings.Cut(key, "/"); {
		case text == "":
		case kind == "thing":
			v = text
		default:
			msg, err := models.DecodeKind(kind, []byte(text))
			if err != nil {
				a.t.Fatalf("%s: %v", line, err)
			}
			v = msg
		}
		if v == nil {
			delete(a.want, k)
		} else {
			a.want[k] = v
		}
		txn.Want = append(txn.Want, scheduler.Change{Key: k, Value: v})
	}
	a.s.Submit(txn)
	synctest.Wait()
}

// see tells how keys stand: "key state: reason" or what it holds.
func (a *agent) see(keys ...string) string {
	var b strings.Builder
	for _, k := range keys {
		st, err := a.s.Get(context.Background(), scheduler.Key(k))
		if err != nil {
			fmt.Fprintf(&b, "%s -\n", k)
			continue
		}
		fmt.Fprintf(&b, "%s %s", k, st.State)
		if h, held := st.Meta.(ipam.Held); held {
			fmt.Fprintf(&b, " %s", h.Address)
		}
		if p, thing := st.Meta.(netip.Prefix); thing {
			fmt.Fprintf(&b, " %s", p)
		}
		if st.Reason != "" {
			fmt.Fprintf(&b, ": %s", st.Reason)
		}
		for _, m := range st.Missing {
			fmt.Fprintf(&b, " [%s: %s]", m.Need, m.Why)
		}
		b.WriteString("\n")
	}
	return b.String()
}
