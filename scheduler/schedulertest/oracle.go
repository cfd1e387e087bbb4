package schedulertest

import (
	"maps"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/scheduler"
)

// Model is what is wanted, as a dumb list, and what should come of it. It
// shares no code with the engine: it adds whatever can be added until nothing
// can be.
type Model struct {
	// Wants are, per source from the strongest, the newest value of each key.
	Wants []map[scheduler.Key]Thing
	// valid is the last valid strongest value of each key that is still wanted.
	valid   map[scheduler.Key]Thing
	rank    map[scheduler.Key]int
	Derived string                   // kind of derived values
	Derives func(scheduler.Key) bool // which keys derive
}

// NewModel makes a model for a number of sources.
func NewModel(sources int) *Model {
	m := &Model{valid: map[scheduler.Key]Thing{}, rank: map[scheduler.Key]int{}}
	for range sources {
		m.Wants = append(m.Wants, map[scheduler.Key]Thing{})
	}
	return m
}

// Set notes what a source wants; nil withdraws.
func (m *Model) Set(source int, k scheduler.Key, t *Thing) {
	if t == nil {
		delete(m.Wants[source], k)
	} else {
		m.Wants[source][k] = *t
	}
	for i, w := range m.Wants {
		if t, ok := w[k]; ok {
			m.rank[k] = i
			if !t.Bad {
				m.valid[k] = t
			}
			return
		}
	}
	delete(m.valid, k)
	delete(m.rank, k)
}

// Expect computes what should be in the world, given what is there by itself.
func (m *Model) Expect(there map[scheduler.Key]Thing) map[scheduler.Key]Thing {
	world := maps.Clone(there)
	holders := m.holders()
	for again := true; again; {
		again = false
		for _, k := range slices.Sorted(maps.Keys(m.valid)) {
			if _, in := world[k]; in || !m.mayHave(k, holders) {
				continue
			}
			t := m.valid[k]
			if t.Peer == "" {
				if met(t, k, world) {
					world[k], again = t, true
				}
				continue
			}
			if m.pair(k, world, holders) {
				world[k], world[scheduler.Key(t.Peer)], again = t, m.valid[scheduler.Key(t.Peer)], true
			}
		}
		if m.derive(world) {
			again = true
		}
	}
	return world
}

// holders decides who has each claimed name: the stronger source, then the smaller key.
func (m *Model) holders() map[string]scheduler.Key {
	out := map[string]scheduler.Key{}
	for _, k := range slices.Sorted(maps.Keys(m.valid)) {
		for _, c := range m.valid[k].Claims {
			if h, taken := out[c]; !taken || m.rank[k] < m.rank[h] {
				out[c] = k
			}
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

// pair tells whether k and its peer can be there together.
func (m *Model) pair(k scheduler.Key, world map[scheduler.Key]Thing, holders map[string]scheduler.Key) bool {
	p := scheduler.Key(m.valid[k].Peer)
	pt, ok := m.valid[p]
	if !ok || pt.Peer != string(k) || !m.mayHave(p, holders) {
		return false
	}
	first, second := k, p // the smaller key makes the pair
	if p < k {
		first, second = p, k
	}
	if !met(m.valid[first], first, world) {
		return false
	}
	with := maps.Clone(world)
	with[first] = m.valid[first]
	return met(m.valid[second], second, with)
}

// met tells whether all that t needs is in the world.
func met(t Thing, self scheduler.Key, world map[scheduler.Key]Thing) bool {
	for _, n := range t.Needs {
		key, text, cond := strings.Cut(strings.TrimSuffix(n, "@"), "=")
		ok := false
		for k, o := range world {
			match := string(k) == key || strings.HasSuffix(key, "/") && strings.HasPrefix(string(k), key) && k != self
			ok = ok || match && (!cond || o.Text == text)
		}
		if !ok {
			return false
		}
	}
	return true
}

func (m *Model) derive(world map[scheduler.Key]Thing) (more bool) {
	if m.Derived == "" {
		return false
	}
	for _, k := range slices.Sorted(maps.Keys(world)) {
		t, wanted := m.valid[k]
		if !wanted || !m.Derives(k) {
			continue
		}
		for _, d := range t.Derives {
			name, needs, _ := strings.Cut(d, "<")
			dt := Thing{Text: "derived"}
			if needs != "" {
				dt.Needs = []string{needs}
			}
			dk := scheduler.Key(m.Derived + "/" + rest(k) + "/" + name)
			if _, in := world[dk]; !in && met(dt, dk, world) {
				world[dk], more = dt, true
			}
		}
	}
	return more
}
