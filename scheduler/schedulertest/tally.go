package schedulertest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Tally counts what really happened: operations and their faults ("create",
// "create fail"), steps ("step txn"), states ("state configured") and changes
// of state ("change pending → configured"). It may be used from any goroutine.
type Tally struct {
	mu     sync.Mutex
	counts map[event]int
}

type event struct{ a, b string }

func (e event) String() string {
	if e.b == "" {
		return e.a
	}
	return e.a + " " + e.b
}

// NewTally makes an empty tally.
func NewTally() *Tally { return &Tally{counts: map[event]int{}} }

// Count adds one; the words are joined by a space.
func (t *Tally) Count(a, b string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[event{a, b}]++
}

func (t *Tally) fault(op string, f Fault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[event{op, ""}]++
	if f != None {
		t.counts[event{op, f.String()}]++
	}
}

// Add adds all that another tally has.
func (t *Tally) Add(o *Tally) {
	o.mu.Lock()
	counts := maps.Clone(o.counts)
	o.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	for e, n := range counts {
		t.counts[e] += n
	}
}

func (t *Tally) each(f func(name string, n int)) {
	t.mu.Lock()
	counts := maps.Clone(t.counts)
	t.mu.Unlock()
	for e, n := range counts {
		f(e.String(), n)
	}
}

// Get is how often something happened.
func (t *Tally) Get(name string) (n int) {
	t.each(func(have string, m int) {
		if have == name {
			n += m
		}
	})
	return n
}

// Names are all that happened, sorted.
func (t *Tally) Names() []string {
	var out []string
	t.each(func(name string, _ int) { out = append(out, name) })
	slices.Sort(out)
	return out
}

// Missing are those of the names that never happened.
func (t *Tally) Missing(names []string) (out []string) {
	for _, n := range names {
		if t.Get(n) == 0 {
			out = append(out, n)
		}
	}
	return out
}

// MarshalJSON writes an object of counts by name.
func (t *Tally) MarshalJSON() ([]byte, error) {
	out := map[string]int{}
	t.each(func(name string, n int) { out[name] = n })
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (t *Tally) UnmarshalJSON(b []byte) error {
	var in map[string]int
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts = map[event]int{}
	for name, n := range in {
		a, c, _ := strings.Cut(name, " ")
		t.counts[event{a, c}] = n
	}
	return nil
}
