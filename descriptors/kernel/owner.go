package kernel

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Owner is who we are towards the kernel: our marks and our ledger.
//
// What the agent makes is recorded before it is made. So the ledger may name
// what is not there, because an operation was cut short or the object was
// removed by somebody else. Such entries are forgotten by whoever reads what
// is there ([Owner.Forget]), but never while an operation is on its way between
// its entry and its object: operations say so with [Owner.Begin].
type Owner struct {
	label, boot string
	ledger      Ledger
	fail        Failpoint
	uses        *uses
	located     located

	mu    sync.Mutex
	busy  map[string]int
	ended uint64 // operations that have ended
	// last are the keys of those that ended last, by their number.
	last [remembered][]string
}

// remembered is how many operations a reading may take and still know which they were.
const remembered = 1024

// NewOwner makes the owner of a label. boot is the id of the running boot:
// what an earlier one recorded is gone with it. fail may be nil.
func NewOwner(label, boot string, ledger Ledger, fail Failpoint) *Owner {
	o := &Owner{label: label, boot: boot, ledger: ledger, fail: fail, busy: map[string]int{}, uses: newUses()}
	ledger.Each(func(e Entry) {
		if e.Boot == boot {
			if !strings.HasPrefix(e.ID, copies) { // its namespace need not stay open
				o.Use(e.ID, e.NS)
			}
			o.located.replace(Entry{}, e)
		}
	})
	return o
}

// Label is the agent's label.
func (o *Owner) Label() string { return o.label }

// Mark is the full mark of a key's object.
func (o *Owner) Mark(key string) string { return Mark(o.label, key) }

// Comment is the mark of a key's table of nftables.
func (o *Owner) Comment(key string) string { return Comment(o.label, key) }

// MarkedKey reports whether a mark is ours, and the key that it names; see [MarkedKey].
func (o *Owner) MarkedKey(mark string) (key string, ours bool) { return MarkedKey(o.label, mark) }

// Group is the link group of the agent.
func (o *Owner) Group() uint32 { return Group(o.label) }

// Protocol is the route protocol number of the agent.
func (o *Owner) Protocol() uint8 { return Protocol(o.label) }

// Handle is the number of the agent's queueing disciplines.
func (o *Owner) Handle() uint16 { return Handle(o.label) }

// Digest is the mark of a key's filters.
func (o *Owner) Digest(key string) string { return Digest(o.label, key) }

// Hit passes a failpoint.
func (o *Owner) Hit(name string) error {
	if o.fail == nil {
		return nil
	}
	if err := o.fail(name); err != nil {
		return fmt.Errorf("failpoint %s: %w", name, err)
	}
	return nil
}

// Failpoint is called at the named places where a crash would leave things
// half made. An error ends the operation there as a crash would. The names are
// <kind>/<place>.
type Failpoint func(name string) error

// Begin says that operations on the keys are under way; call end after them.
func (o *Owner) Begin(ids ...string) (end func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range ids {
		o.busy[id]++
	}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.last[o.ended%remembered] = ids
		o.ended++
		for _, id := range ids {
			if o.busy[id]--; o.busy[id] == 0 {
				delete(o.busy, id)
			}
		}
	}
}

// Record writes entries to the ledger. Those that are there already, equal,
// cost nothing.
func (o *Owner) Record(entries ...Entry) error {
	fresh := entries[:0:0]
	var before []Entry
	for _, e := range entries {
		e.Boot = o.boot
		if had, ok := o.ledger.Get(e.ID); !ok || !had.Equal(e) {
			fresh, before = append(fresh, e), append(before, had)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	if err := o.ledger.Add(fresh...); err != nil {
		return fmt.Errorf("record what is about to be made: %w", err)
	}
	for i, e := range fresh {
		o.located.replace(before[i], e)
		if e.NS != 0 { // else it is not known yet
			o.Use(e.ID, e.NS)
		}
	}
	return nil
}

// Remove forgets entries whose objects are gone.
func (o *Owner) Remove(ids ...string) {
	if len(ids) == 0 {
		return
	}
	for _, id := range ids {
		if had, ok := o.ledger.Get(id); ok {
			o.located.replace(had, Entry{})
		}
	}
	o.ledger.Remove(ids...)
	for _, id := range ids {
		o.Leave(id)
	}
}

// Entry returns what the ledger says of a key, if it is of this boot.
func (o *Owner) Entry(id string) (Entry, bool) {
	e, ok := o.ledger.Get(id)
	return e, ok && e.Boot == o.boot
}

// Entries returns what the ledger says of the keys under a prefix, sorted.
func (o *Owner) Entries(prefix string) []Entry {
	return slices.DeleteFunc(o.ledger.Entries(prefix), func(e Entry) bool { return e.Boot != o.boot })
}

// Reading begins a reading of the kernel's state, at whose end [Reading.Forget] may be called.
func (o *Owner) Reading() Reading {
	o.mu.Lock()
	defer o.mu.Unlock()
	return Reading{o: o, ended: o.ended}
}

// Reading is one reading of the kernel's state.
type Reading struct {
	o     *Owner
	ended uint64
}

// Forget removes entries whose objects were not found. A key of which an operation
// ended since the reading began is not forgotten: its object may have been made
// after we looked. The next reading will do it.
func (r Reading) Forget(ids ...string) {
	o := r.o
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended-r.ended > remembered {
		return
	}
	since := map[string]bool{}
	for n := r.ended; n < o.ended; n++ {
		for _, id := range o.last[n%remembered] {
			since[id] = true
		}
	}
	o.Remove(slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return o.busy[id] > 0 || since[id] })...)
}

// OfOldBoots is what earlier boots recorded, in any order. None of it is there; once what
// they have left on disk is gone too, it can be forgotten, see [Owner.Remove].
func (o *Owner) OfOldBoots() (old []Entry) {
	o.ledger.Each(func(e Entry) {
		if e.Boot != o.boot {
			old = append(old, e)
		}
	})
	return old
}
