package sim

import (
	"maps"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// Model is what is wanted, as a dumb list, and what should come of it. It
// shares no code with the engine: it adds whatever can be added until nothing
// can be.
type Model struct {
	// Wants are, per source from the strongest, the newest word on each key.
	Wants []map[scheduler.Key]Word
	// valid is the last valid strongest value of each key that is still wanted.
	valid map[scheduler.Key]schedulertest.Thing
	// doubt are keys whose strongest value is invalid, while nobody remembers a
	// valid one: what the scheduler finds there counts as that.
	doubt   map[scheduler.Key]bool
	rank    map[scheduler.Key]int
	derived map[string]string // the kind that the values of a kind derive
	// gone are kinds that are not registered now: their values are not judged,
	// and push out what was valid before them.
	gone map[string]bool
	// owners are the keys that had a name before all others that claim it; see Own.
	owners map[string]scheduler.Key
}

// Word is what a source says of a key: a value, or something undecodable.
type Word struct {
	schedulertest.Thing
	Undecodable bool
}

func (w Word) change(k scheduler.Key) scheduler.Change {
	if w.Undecodable {
		return scheduler.SetInvalid(k, errUndecodable)
	}
	return scheduler.Set(k, w.Thing)
}

// NewModel makes a model for a number of sources.
func NewModel(sources int) *Model {
	m := &Model{valid: map[scheduler.Key]schedulertest.Thing{}, rank: map[scheduler.Key]int{}, doubt: map[scheduler.Key]bool{}, derived: map[string]string{},
		gone: map[string]bool{}}
	for range sources {
		m.Wants = append(m.Wants, map[scheduler.Key]Word{})
	}
	return m
}

// Register says that a kind is known, and what kind of values its values derive.
func (m *Model) Register(kind, derived string) {
	m.derived[kind] = derived
	delete(m.gone, kind)
}

// Unregister says that a kind is not known any more.
func (m *Model) Unregister(kind string) { m.gone[kind] = true }

// Note takes in a transaction of a source.
func (m *Model) Note(source int, t scheduler.Txn) {
	if source < 0 {
		return
	}
	named := map[scheduler.Key]bool{}
	for _, c := range t.Want {
		named[c.Key] = true
		v, ok := c.Value.(schedulertest.Thing)
		switch {
		case c.Invalid != nil:
			m.Set(source, c.Key, &Word{Undecodable: true})
		case ok:
			m.Set(source, c.Key, &Word{Thing: v})
		default:
			m.Set(source, c.Key, nil)
		}
	}
	for k := range m.Wants[source] {
		if t.Complete && !named[k] {
			m.Set(source, k, nil)
		}
	}
}

// Clear is for sources that want nothing any more.
func (m *Model) Clear() {
	for i := range m.Wants {
		m.Note(i, scheduler.Txn{Complete: true})
	}
}

// Undo is the transaction that takes another one back.
func (m *Model) Undo(source int, t scheduler.Txn) scheduler.Txn {
	out := scheduler.Txn{Source: t.Source}
	for _, c := range t.Want {
		if w, ok := m.Wants[source][c.Key]; ok {
			out.Want = append(out.Want, w.change(c.Key))
		} else {
			out.Want = append(out.Want, scheduler.Withdraw(c.Key))
		}
	}
	return out
}

// Set notes what a source wants; nil withdraws.
func (m *Model) Set(source int, k scheduler.Key, word *Word) {
	if word == nil {
		delete(m.Wants[source], k)
	} else {
		m.Wants[source][k] = *word
	}
	delete(m.doubt, k)
	for i, w := range m.Wants {
		if t, ok := w[k]; ok {
			m.rank[k] = i
			if t.Bad && m.gone[schedulertest.KindName(k)] {
				delete(m.valid, k)
			}
			if _, known := m.valid[k]; t.Bad || t.Undecodable {
				m.doubt[k] = !known
			} else {
				m.valid[k] = t.Thing
			}
			return
		}
	}
	delete(m.valid, k)
	delete(m.rank, k)
}

// Forget is for a new process: it does not know what was valid before it.
func (m *Model) Forget() {
	for k, i := range m.rank {
		if t := m.Wants[i][k]; t.Bad || t.Undecodable {
			delete(m.valid, k)
			m.doubt[k] = true
		}
	}
}

// learn takes the scheduler's word for what was valid where nobody else knows.
func (m *Model) learn(all []scheduler.Status) {
	for _, s := range all {
		if t, ok := s.Desired.(schedulertest.Thing); ok && m.doubt[s.Key] && !t.Bad {
			m.valid[s.Key] = t
		}
	}
}

// fine reports whether a key that is there cannot be invalid, nor what it derives.
func (m *Model) fine(k scheduler.Key, want map[scheduler.Key]schedulertest.Thing) bool {
	i, wanted := m.rank[k]
	_, in := want[k]
	return wanted && in && !m.Wants[i][k].Bad && !m.Wants[i][k].Undecodable
}

// Expect computes what should be there, given what is there by itself.
func (m *Model) Expect(there map[scheduler.Key]schedulertest.Thing) map[scheduler.Key]schedulertest.Thing {
	state := maps.Clone(there)
	holders := m.holders()
	for again := true; again; {
		again = false
		for _, k := range slices.Sorted(maps.Keys(m.valid)) {
			if _, in := state[k]; in || !m.mayHave(k, holders) {
				continue
			}
			t := m.valid[k]
			if t.Peer == "" {
				if met(t, k, state) {
					state[k], again = t, true
				}
				continue
			}
			if m.pair(k, state, holders) {
				state[k], again = t, true
				if p := scheduler.Key(t.Peer); !has(state, p) { // somebody else's may stand there
					state[p] = m.valid[p]
				}
			}
		}
		if m.derive(state, holders) {
			again = true
		}
	}
	return state
}

// Own takes in who has each claimed name: who is there with it and claims it
// still. Of owners that are away for a time nothing can be seen there; who they are is
// the scheduler's word, as it tells the losers.
func (m *Model) Own(state map[scheduler.Key]schedulertest.Thing, all []scheduler.Status) {
	m.owners = map[string]scheduler.Key{}
	for _, s := range all {
		_, told, _ := strings.Cut(s.Reason, "the name ")
		name, owner, ok := strings.Cut(told, " is in use by ")
		if ok && s.State == scheduler.InvalidState {
			m.owners[name] = scheduler.Key(owner)
		}
	}
	for _, k := range sortedKeys(state) {
		for _, c := range state[k].Claims {
			if m.claims(k, c) {
				m.owners[c] = k
			}
		}
	}
}

func (m *Model) claims(k scheduler.Key, name string) bool {
	return slices.Contains(m.valid[k].Claims, name)
}

// holders decides who has each claimed name: its owner; of those who never had it the
// one of the stronger source, then the smaller key.
func (m *Model) holders() map[string]scheduler.Key {
	out := map[string]scheduler.Key{}
	for _, k := range slices.Sorted(maps.Keys(m.valid)) {
		for _, c := range m.valid[k].Claims {
			if h, taken := out[c]; !taken || m.rank[k] < m.rank[h] {
				out[c] = k
			}
		}
	}
	for c, k := range m.owners {
		if m.claims(k, c) {
			out[c] = k
		}
	}
	return out
}

func (m *Model) mayHave(k scheduler.Key, holders map[string]scheduler.Key) bool {
	for _, c := range m.valid[k].Claims {
		if holders[c] != k {
			return false
		}
	}
	return true
}

// pair reports whether k and its peer can be there together.
func (m *Model) pair(k scheduler.Key, state map[scheduler.Key]schedulertest.Thing, holders map[string]scheduler.Key) bool {
	p := scheduler.Key(m.valid[k].Peer)
	pt, ok := m.valid[p]
	if !ok || pt.Peer != string(k) || !m.mayHave(p, holders) {
		return false
	}
	first, second := k, p // the smaller key makes the pair
	if p < k {
		first, second = p, k
	}
	if !met(m.valid[first], first, state) {
		return false
	}
	with := maps.Clone(state)
	if !has(with, first) {
		with[first] = m.valid[first]
	}
	return met(m.valid[second], second, with)
}

// met reports whether all that t needs is there.
func met(t schedulertest.Thing, self scheduler.Key, state map[scheduler.Key]schedulertest.Thing) bool {
	for _, n := range t.Needs {
		key, text, cond := strings.Cut(strings.TrimRight(n, "@#"), "=")
		ok := false
		for k, o := range state {
			match := string(k) == key || strings.HasSuffix(key, "/") && schedulertest.Under(key, k) && k != self
			ok = ok || match && (!cond || o.Text == text)
		}
		if !ok {
			return false
		}
	}
	return true
}

// derive adds what the actual values derive. Of what is not ours nothing
// is derived but what we want of it.
func (m *Model) derive(state map[scheduler.Key]schedulertest.Thing, holders map[string]scheduler.Key) (more bool) {
	for _, k := range slices.Sorted(maps.Keys(state)) {
		t, kind := state[k], m.derived[schedulertest.KindName(k)]
		if v, wanted := m.valid[k]; wanted {
			t = v
		}
		if kind == "" || !m.mayHave(k, holders) {
			continue
		}
		for _, d := range t.Derives {
			name, dt := schedulertest.Derivation(d)
			dk := scheduler.Key(kind + "/" + schedulertest.Rest(k) + "/" + name)
			if _, in := state[dk]; !in && met(dt, dk, state) {
				state[dk], more = dt, true
			}
		}
	}
	return more
}

func has(state map[scheduler.Key]schedulertest.Thing, k scheduler.Key) bool {
	_, in := state[k]
	return in
}
