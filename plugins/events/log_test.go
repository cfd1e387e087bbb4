package events

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/plumb-net/plumb/plugins/container"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// some makes the n-th of many events, of some containers and types.
func some(n int) container.Event {
	id := fmt.Sprintf("%02x%062x", n%7, 0)
	types := Types()
	return container.Event{
		Type: types[n%len(types)], At: noon.Add(time.Duration(n) * time.Second), Seen: noon.Add(time.Duration(n) * time.Second),
		Runtime: []string{"docker", "containerd:k8s.io"}[n%2], ID: id, Name: fmt.Sprint("web", n%7),
		Labels: map[string]string{"app": fmt.Sprint("shop", n%3), "tier": "front"},
	}
}

func seqs(all []*Event) (out []uint64) {
	for _, e := range all {
		out = append(out, e.Seq)
	}
	return out
}

// TestFiltersThenNewest: past events by type, time, container and label,
// and the newest N after filtering: compared with going through them all.
// TestRenamedIsFound: by a name that it had before, or has since, all events of
// a container are found, past and live.
func TestRenamedIsFound(t *testing.T) {
	l := New(Limits{}, nil, 0)
	add := func(kind Type, id, name, old string) {
		l.Add(container.Event{Type: kind, Runtime: "docker", ID: id, Name: name, OldName: old})
	}
	w, err := l.Watch(Query{Container: "new"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	add(container.Created, "a", "old", "")
	add(container.Created, "b", "other", "")
	add(container.Renamed, "a", "new", "old")
	add(container.Died, "a", "new", "")
	add(container.Removed, "b", "other", "")
	for _, name := range []string{"old", "new", "a"} {
		found, _ := l.Query(Query{Container: name})
		if len(found) != 3 || found[0].Type != container.Created || found[2].Type != container.Died {
			t.Errorf("%s: %d events", name, len(found))
		}
	}
	add(container.Started, "a", "new", "")
	later, err := l.Watch(Query{Container: "old"}, 5)
	if err != nil {
		t.Fatal(err)
	}
	defer later.Stop()
	if found, _, err := later.Next(t.Context()); err != nil || len(found) != 1 || found[0].Type != container.Started {
		t.Errorf("live by the old name: %v, %v", found, err)
	}
	add(container.Renamed, "b", "new", "other")
	add(container.Created, "c", "x", "")
	if found, _, err := w.Next(t.Context()); err != nil || len(found) != 4 {
		t.Errorf("live by the new name: %d, %v", len(found), err)
	}
}

func TestFiltersThenNewest(t *testing.T) {
	l := New(Limits{}, nil, 0)
	var all []*Event
	for n := range 1000 {
		e := some(n)
		l.Add(e)
		all = append(all, &Event{Seq: uint64(n + 1), Event: e})
	}
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(texts ...string) string { return texts[random.IntN(len(texts))] }
	found := 0
	for range 1000 {
		q := Query{Limit: random.IntN(30), After: uint64(random.IntN(2) * random.IntN(1000))}
		for range random.IntN(3) {
			q.Types = append(q.Types, Types()[random.IntN(len(Types()))])
		}
		q.Container = pick("", "web3", "05", "docker:05", "containerd:k8s.io:06", "05"+strings.Repeat("0", 62), "docker:web3", "web", "x")
		for range random.IntN(3) {
			q.Labels = append(q.Labels, pick("app=shop1", "app", "tier=front", "tier=back", "none"))
		}
		if random.IntN(2) == 0 {
			q.Since = noon.Add(time.Duration(random.IntN(1000)) * time.Second)
		}
		if random.IntN(2) == 0 {
			q.Until = noon.Add(time.Duration(random.IntN(1000)) * time.Second)
		}
		var want []uint64
		for _, e := range all {
			if e.Seq > q.After && meant(q, e) {
				want = append(want, e.Seq)
			}
		}
		if q.Limit > 0 && len(want) > q.Limit {
			want = want[len(want)-q.Limit:]
		}
		got, upTo := l.Query(q)
		if !slices.Equal(seqs(got), want) || upTo != 1000 {
			t.Fatalf("%+v:\ngot  %v\nwant %v", q, seqs(got), want)
		}
		found += len(got)
	}
	if found < 300 {
		t.Errorf("only %d events were found in all", found)
	}
}

// meant is the plain form of the filters.
func meant(q Query, e *Event) bool {
	if len(q.Types) > 0 && !slices.Contains(q.Types, e.Type) {
		return false
	}
	if c := q.Container; c != "" && e.Name != c && !strings.HasPrefix(e.ID, c) && !strings.HasPrefix(e.Runtime+":"+e.ID, c) {
		return false
	}
	for _, l := range q.Labels {
		if l != "app" && l != "tier" && e.Labels[strings.Split(l, "=")[0]] != strings.TrimPrefix(strings.TrimPrefix(l, "app="), "tier=") {
			return false
		}
	}
	return (q.Since.IsZero() || !e.At.Before(q.Since)) && (q.Until.IsZero() || !e.At.After(q.Until))
}

// A container is found by both names of a renaming.
func TestRenamed(t *testing.T) {
	l := New(Limits{}, nil, 0)
	l.Add(container.Event{Type: container.Renamed, ID: "1", Name: "new", OldName: "old"})
	for _, name := range []string{"new", "old", "1"} {
		if got, _ := l.Query(Query{Container: name}); len(got) != 1 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestSleeperGetsAll: who was not there when events came gets each of
// them once, in order, when it comes.
func TestSleeperGetsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Limits{}, nil, 0)
		w := watch(t, l, Query{}, 0)
		const many = 5*stretch + 3
		for n := range many {
			l.Add(some(n))
		}
		var got []uint64
		for len(got) < many {
			found, gap, err := w.Next(t.Context())
			if err != nil || gap != nil || len(found) == 0 || len(found) > stretch {
				t.Fatalf("%d events, %v, %v", len(found), gap, err)
			}
			got = append(got, seqs(found)...)
		}
		for i, seq := range got {
			if seq != uint64(i+1) {
				t.Fatalf("event %d has number %d", i, seq)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if found, gap, err := w.Next(ctx); len(found) > 0 || gap != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, %v, %v", found, gap, err)
		}
	})
}

func watch(t testing.TB, l *Log, q Query, after uint64) *Watcher {
	t.Helper()
	w, err := l.Watch(q, after)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w
}

// TestWatch: what matches comes as it happens; a watch is cancelled, and
// another one goes on from its last number, missing none.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Limits{}, nil, 0)
		for n := range 10 {
			l.Add(some(n))
		}
		past, upTo := l.Query(Query{Container: "web3"})
		got := seqs(past)
		q := Query{Container: "web3", Limit: 1, After: 99}
		for round := range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			w, err := l.Watch(q, upTo)
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error)
			go func() {
				for {
					found, gap, err := w.Next(ctx)
					if err != nil {
						done <- err
						return
					}
					if gap != nil {
						t.Errorf("round %d: %+v", round, gap)
					}
					got = append(got, seqs(found)...)
					upTo = found[len(found)-1].Seq
				}
			}()
			for n := range 20 {
				l.Add(some(10 + 20*round + n))
			}
			synctest.Wait()
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			w.Stop()
			if n := l.Stats().Watchers; n != 0 {
				t.Fatalf("%d watchers are left", n)
			}
		}
		all, _ := l.Query(Query{Container: "web3"})
		if !slices.Equal(got, seqs(all)) || len(got) != 16 {
			t.Errorf("got  %v\nwant %v", got, seqs(all))
		}
	})
}

// TestWatchTellsGaps: who fell out of what is kept is told so, once, and then gets
// what there is. Rare types are still there.
func TestWatchTellsGaps(t *testing.T) {
	l := New(Limits{Count: 1000, PerType: 10}, nil, 0)
	add := func(typ Type, n int) {
		for range n {
			l.Add(container.Event{Type: typ})
		}
	}
	slow, rare := watch(t, l, Query{}, 0), watch(t, l, Query{Types: []Type{container.OOM}}, 0)
	add(container.OOM, 1)      // 1
	add(container.Started, 20) // 2–21, of which 12–21 are kept
	add(container.OOM, 1)      // 22
	expect(t, slow, "gap 1–11", 1, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22)
	expect(t, rare, "", 1, 22)
	add(container.Started, 3)
	expect(t, slow, "", 23, 24, 25)
	add(container.OOM, 12) // 26–37, of which 28–37 are kept
	expect(t, slow, "gap 26–27", 28, 29, 30, 31, 32, 33, 34, 35, 36, 37)
	// From an old place, and from one of another log.
	expect(t, watch(t, l, Query{Types: []Type{container.Started}}, 5), "gap 6–14", 15, 16, 17, 18, 19, 20, 21, 23, 24, 25)
	expect(t, watch(t, l, Query{Types: []Type{container.Started}}, 20), "", 21, 23, 24, 25)
	expect(t, watch(t, l, Query{Types: []Type{container.Started}}, 37), "")
	expect(t, watch(t, l, Query{Types: []Type{container.Started}}, 38), "foreign gap 39–14", 15, 16, 17, 18, 19, 20, 21, 23, 24, 25)
}

// A gap is told once, however long it takes to read what there is around it.
func TestGapIsToldOnce(t *testing.T) {
	l := New(Limits{PerType: 2 * stretch}, nil, 0)
	var want []uint64
	for n := range 5 * stretch {
		typ := container.OOM
		if n >= 2*stretch {
			typ = container.Started
		}
		l.Add(container.Event{Type: typ})
		if n < 2*stretch || n >= 3*stretch {
			want = append(want, uint64(n+1))
		}
	}
	expect(t, watch(t, l, Query{}, 0), fmt.Sprintf("gap 1–%d", 3*stretch), want...)
}

// expect takes what there is for a watcher.
func expect(t *testing.T, w *Watcher, gap string, want ...uint64) {
	t.Helper()
	var got []uint64
	var gaps []string
	for {
		found, g := w.take()
		if g != nil {
			text := fmt.Sprintf("gap %d–%d", g.From, g.To)
			if g.Foreign {
				text = "foreign " + text
			}
			gaps = append(gaps, text)
		}
		if len(found) == 0 && g == nil {
			break
		}
		got = append(got, seqs(found)...)
	}
	if !slices.Equal(got, want) || strings.Join(gaps, " ") != gap {
		t.Errorf("got  %v %v\nwant %v %v", gaps, got, gap, want)
	}
}

// TestDeadWatcher: 100,000 events, one watcher that never reads and three
// that do. The latter get everything, memory stays bounded.
func TestDeadWatcher(t *testing.T) {
	const many = 100_000
	l := New(Limits{Bytes: 8 << 20}, nil, 0)
	dead := watch(t, l, Query{}, 0)
	done := make(chan error)
	readers := make([]*Watcher, 3)
	var token [3]chan bool
	for i := range readers {
		readers[i], token[i] = watch(t, l, Query{}, 0), make(chan bool, 1)
		go func() { done <- follow(readers[i], many, token[i]) }()
	}
	before := heap()
	for n := range many {
		l.Add(some(n))
		if n%1000 == 999 { // a reader is as fast as the events, on the whole
			for i := range token {
				token[i] <- true
			}
		}
	}
	grown := int64(heap()) - int64(before)
	for i := range token {
		close(token[i])
	}
	for range readers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	s := l.Stats()
	if s.Bytes > 8<<20 || grown > 24<<20 {
		t.Errorf("%d bytes are kept, the heap grew by %d", s.Bytes, grown)
	}
	first, gap, err := dead.Next(t.Context())
	if err != nil || gap == nil || gap.From != 1 || len(first) == 0 || gap.To+1 != first[0].Seq {
		t.Fatalf("%v, %v, %v", seqs(first), gap, err)
	}
	t.Logf("%d events: %d kept in %d bytes; the heap grew by %d", many, s.Count, s.Bytes, grown)
}

// follow reads the numbers 1 to n; before each read it needs a token.
func follow(w *Watcher, n uint64, token chan bool) error {
	next := uint64(1)
	for next <= n {
		found, gap, err := w.Next(context.Background())
		if err != nil || gap != nil {
			return fmt.Errorf("at %d: %+v, %w", next, gap, err)
		}
		for _, e := range found {
			if e.Seq != next {
				return fmt.Errorf("%d came in place of %d", e.Seq, next)
			}
			next++
		}
		select {
		case <-token:
		default:
		}
	}
	for range token { // the rest
	}
	return nil
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestTooManyWatchers(t *testing.T) {
	l := New(Limits{}, nil, 0)
	for range maxWatchers {
		watch(t, l, Query{}, 0)
	}
	if _, err := l.Watch(Query{}, 0); !errors.Is(err, ErrTooManyWatchers) {
		t.Error(err)
	}
}

// TestBounds: by count, by count of a type, by bytes, by age. What goes is
// the oldest.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			limits Limits
			want   string
		}{
			"count":    {Limits{Count: 5}, "6–10"},
			"per type": {Limits{PerType: 3}, "8–10"},
			"bytes":    {Limits{Bytes: 4 * (shell + 3)}, "7–10"},
			"age":      {Limits{Age: 3 * time.Minute}, "8–10"},
			"none":     {Limits{}, "1–10"},
		} {
			l := New(c.limits, nil, 0)
			for range 10 {
				l.Add(container.Event{Type: container.Started, ID: "one"})
				time.Sleep(time.Minute)
			}
			all, _ := l.Query(Query{})
			if got := fmt.Sprintf("%d–%d", all[0].Seq, all[len(all)-1].Seq); got != c.want {
				t.Errorf("%s: %s", name, got)
			}
			s := l.Stats()
			if s.Count != len(all) || s.Bytes != int64(len(all))*(shell+3) {
				t.Errorf("%s: %+v of %d", name, s, len(all))
			}
		}
	})
}

// TestH18_ClockJumps: whatever wall clocks say, numbers give the order, and
// nothing grows old before its time.
func TestH18_ClockJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var earlier []*Event
		for n, jump := range []time.Duration{0, 1000 * time.Hour, -time.Hour} {
			at := time.Now().Add(jump).Round(0)
			earlier = append(earlier, &Event{Seq: uint64(n + 1), Event: container.Event{Type: container.Started, At: at, Seen: at}})
		}
		l := New(Limits{Age: 10 * time.Hour}, earlier, 0)
		for _, jump := range []time.Duration{-1000 * time.Hour, 1000 * time.Hour, 0} {
			at := time.Now().Add(jump).Round(0)
			l.Add(container.Event{Type: container.Died, At: at, Seen: at})
		}
		time.Sleep(9*time.Hour + time.Minute)
		l.Add(container.Event{Type: container.Died})
		if all, _ := l.Query(Query{}); !slices.Equal(seqs(all), []uint64{4, 5, 6, 7}) {
			t.Errorf("%v", seqs(all)) // the third was an hour old when it was read, so those before are too
		}
	})
}

// Everything at once, against a plain list.
func TestModel(t *testing.T) {
	for seed := range uint64(10) {
		random := rand.New(rand.NewPCG(seed, 7))
		limits := Limits{Count: 5 + random.IntN(60), PerType: 3 + random.IntN(20)}
		l := New(limits, nil, 0)
		var model []*Event
		watched := []Type{container.Died, container.OOM}
		w, at := watch(t, l, Query{Types: watched}, 0), uint64(0)
		for n := range 800 {
			if random.IntN(10) > 0 {
				e := some(random.IntN(1000))
				l.Add(e)
				model = trim(append(model, &Event{Seq: uint64(n + 1), Event: e}), limits)
			} else {
				l.Add(container.Event{Type: container.Paused})
				model = trim(append(model, &Event{Seq: uint64(n + 1), Event: container.Event{Type: container.Paused}}), limits)
			}
			if all, _ := l.Query(Query{}); !slices.Equal(seqs(all), seqs(model)) {
				t.Fatalf("seed %d, step %d:\ngot  %v\nwant %v", seed, n, seqs(all), seqs(model))
			}
			if random.IntN(20) > 0 {
				continue
			}
			var want []uint64
			for _, e := range model {
				if e.Seq > at && slices.Contains(watched, e.Type) {
					want = append(want, e.Seq)
				}
			}
			found, _ := w.take()
			if !slices.Equal(seqs(found), want) {
				t.Fatalf("seed %d, step %d: watched\ngot  %v\nwant %v", seed, n, seqs(found), want)
			}
			at = uint64(n + 1)
		}
	}
}

// trim is what the limits leave.
func trim(all []*Event, limits Limits) []*Event {
	last := all[len(all)-1].Type
	n := 0
	for _, e := range all {
		if e.Type == last {
			n++
		}
	}
	if n > limits.PerType {
		i := slices.IndexFunc(all, func(e *Event) bool { return e.Type == last })
		all = slices.Delete(all, i, i+1)
	}
	if len(all) > limits.Count {
		all = all[1:]
	}
	return all
}

// TestCounts: the figures count what was told in this run, each thing once.
func TestCounts(t *testing.T) {
	earlier := &Event{Seq: 1, Event: container.Event{Type: container.Died, Seen: time.Now()}}
	l := New(Limits{}, []*Event{earlier}, 2)
	for _, e := range []container.Event{{Type: container.Died}, {Type: container.Died, Amends: true}, {Type: container.OOM}} {
		l.Add(e)
	}
	if s := l.Stats(); s.Told[container.Died] != 1 || s.Told[container.OOM] != 1 || s.Count != 4 {
		t.Errorf("%+v", s)
	}
}
