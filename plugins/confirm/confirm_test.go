package confirm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/confirm"
)

// store is one that can be down; what counts is what it holds, or what counts instead.
type store struct {
	mu        sync.Mutex
	kvs       map[string]models.Stored
	revision  int64
	down      bool
	most      int // writes of a transaction; 0: any
	overrides []models.Override
	behind    atomic.Bool // the agent has not seen what it holds
}

func newStore(kvs map[string]string) *store {
	s := &store{kvs: map[string]models.Stored{}}
	for k, v := range kvs {
		s.put(k, v)
	}
	return s
}

func (s *store) put(k, v string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	s.kvs[k] = models.Stored{Key: k, Value: []byte(v), Revision: s.revision}
}

func (s *store) drop(k string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.kvs, k)
}

func (s *store) set(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

func (s *store) Get(_ context.Context, key string) (models.Stored, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return models.Stored{}, false, models.ErrStoreDown
	}
	kv, ok := s.kvs[key]
	return kv, ok, nil
}

func (s *store) Write(_ context.Context, writes []models.Write) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.down:
		return 0, models.ErrStoreDown
	case s.most > 0 && len(writes) > s.most+1: // beside who wrote it
		return 0, errors.New("too many")
	}
	for _, w := range writes {
		if w.If != nil && *w.If != s.kvs[w.Key].Revision {
			return 0, models.ErrStoreConflict
		}
	}
	s.revision++
	for _, w := range writes {
		if w.Value == nil {
			delete(s.kvs, w.Key)
		} else {
			s.kvs[w.Key] = models.Stored{Key: w.Key, Value: w.Value, Revision: s.revision}
		}
	}
	return s.revision, nil
}

// Reached blocks while the agent has not seen what the store holds.
func (s *store) Reached(ctx context.Context, revision int64) error {
	for s.behind.Load() && ctx.Err() == nil && revision > 0 {
		time.Sleep(time.Second / 10)
	}
	return ctx.Err()
}

func (s *store) Override(list []models.Override) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.overrides = list
}

// String is what counts, and that it is not what the store holds where it is not.
func (s *store) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := map[string]string{}
	for k, kv := range s.kvs {
		if !strings.HasPrefix(k, models.AuthorPrefix) {
			counts[k] = string(kv.Value)
		}
	}
	for _, o := range s.overrides {
		if kv, there := s.kvs[o.Key]; there != (o.Stored != nil) || string(kv.Value) != string(o.Stored) {
			continue
		}
		if delete(counts, o.Key); o.Value != nil {
			counts[o.Key] = string(o.Value) + "!"
		}
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, strings.TrimPrefix(k, "config/")+"="+counts[k])
	}
	return strings.Join(out, " ")
}

// host is a store and a Confirmer that runs.
type host struct {
	*confirm.Confirmer
	t     *testing.T
	dir   string
	store *store
	probe func(probe string) error
	stop  func()
	// announced is what was told to be taken back, and that it is over.
	announced []string
}

const before, after = "a=1 b=1 d=1", "a=2 c=2 d=1"

// newHost holds the values before the change.
func newHost(t *testing.T) *host {
	h := &host{t: t, dir: t.TempDir(), probe: func(string) error { return nil }, store: newStore(map[string]string{"config/a": "1", "config/b": "1", "config/d": "1"})}
	h.start()
	return h
}

func (h *host) start() {
	h.Confirmer = confirm.Open(h.dir, confirm.Options{
		Store:   h.store,
		Settled: func(ctx context.Context, _ []string) error { return nil },
		Probe:   func(_ context.Context, p string) error { return h.probe(p) },
		TakeBack: func(keys []string) func() {
			h.announced = append(h.announced, fmt.Sprint("from ", keys))
			return func() { h.announced = append(h.announced, fmt.Sprint("to ", keys)) }
		},
	})
	ctx, cancel := context.WithCancel(h.t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = h.Run(ctx) })
	h.stop = func() { cancel(); running.Wait() }
	h.t.Cleanup(func() { h.stop() })
}

// change changes a, removes b and makes c, and is to be confirmed within a minute.
func (h *host) change(probes ...string) *confirm.Trial {
	h.t.Helper()
	t, err := h.Begin(confirm.Pending{
		Name: "one", By: "amy", Began: time.Now(), Deadline: time.Now().Add(time.Minute), Probes: probes,
		Changes: []confirm.Change{
			{Key: "config/a", Before: []byte("1"), After: []byte("2")},
			{Key: "config/b", Before: []byte("1")},
			{Key: "config/c", After: []byte("2")},
		}})
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := h.store.Write(h.t.Context(), []models.Write{
		{Key: "config/a", Value: []byte("2")}, {Key: "config/b"}, {Key: "config/c", Value: []byte("2")}}); err != nil {
		h.t.Fatal(err)
	}
	t.Written(1)
	return t
}

func (h *host) is(want string) {
	h.t.Helper()
	synctest.Wait()
	if got := h.store.String(); got != want {
		h.t.Errorf("at %s: %s, want %s", time.Now().Format(time.TimeOnly), got, want)
	}
}

// quiet checks that nothing is left of the change.
func (h *host) quiet() {
	h.t.Helper()
	synctest.Wait()
	if h.Outstanding() != nil {
		h.t.Error("the change has not ended")
	}
	if left, _ := filepath.Glob(h.dir + "/*"); len(left) > 0 {
		h.t.Errorf("left on disk: %v", left)
	}
}

func TestConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		trial := h.change("x")
		time.Sleep(59 * time.Second)
		if err := trial.Confirm(); err != nil {
			t.Fatal(err)
		}
		<-trial.Ended()
		if reason, _ := trial.Reverted(); reason != "" {
			t.Error(reason)
		}
		time.Sleep(time.Hour)
		h.is(after)
		h.quiet()
		next, err := h.Begin(confirm.Pending{Name: "two", Deadline: time.Now().Add(time.Minute), Probes: []string{"x"},
			Changes: []confirm.Change{{Key: "config/d", Before: []byte("0"), After: []byte("1")}}})
		if err != nil {
			t.Fatal(err)
		}
		next.Written(1)
		time.Sleep(time.Hour)
		h.is("a=2 c=2 d=0")
		h.quiet()
	})
}

func TestNotConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		trial := h.change()
		time.Sleep(59 * time.Second)
		h.is(after)
		time.Sleep(2 * time.Second)
		h.is(before)
		h.quiet()
		if reason, notes := trial.Reverted(); !strings.HasPrefix(reason, "nobody confirmed it until ") || notes != nil {
			t.Error(reason, notes)
		}
		if err := trial.Confirm(); !errors.Is(err, confirm.ErrReverting) {
			t.Error(err)
		}
		h.change() // the next may begin
	})
}

// TestTheirs: what somebody else has written since stays.
func TestTheirs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		trial := h.change()
		h.store.put("config/a", "3")
		h.store.put("config/b", "1")
		trial.Abort("bob aborted it")
		h.is("a=3 b=1 d=1")
		if reason, notes := trial.Reverted(); reason != "bob aborted it" || len(notes) != 1 || notes[0] != "a was changed by somebody else meanwhile and stays" {
			t.Error(reason, notes)
		}
	})
}

func TestExtended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		trial := h.change()
		time.Sleep(30 * time.Second)
		if err := errors.Join(trial.Extend(time.Minute), trial.Extend(time.Second)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(59 * time.Second)
		h.is(after)
		time.Sleep(2 * time.Second)
		h.is(before)
		if err := trial.Extend(time.Hour); !errors.Is(err, confirm.ErrReverting) {
			t.Error(err)
		}
	})
}

func TestOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		if _, err := h.Find(""); !errors.Is(err, confirm.ErrNone) {
			t.Error(err)
		}
		trial := h.change()
		_, err := h.Begin(confirm.Pending{Name: "two", Deadline: time.Now().Add(time.Minute), Changes: []confirm.Change{{Key: "x"}}})
		if !errors.Is(err, confirm.ErrOther) || !strings.Contains(err.Error(), "one by amy, until ") {
			t.Error(err)
		}
		if _, err := h.Find("two"); !errors.Is(err, confirm.ErrOther) {
			t.Error(err)
		}
		if found, err := h.Find("one"); err != nil || found != trial {
			t.Error(err)
		}
		if err := trial.Forget(); err != nil {
			t.Error(err)
		}
		h.quiet()
	})
}

// TestAnnounced: what a change has brought is announced before it is taken back, also in the
// next run; what stays is not.
func TestAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		if err := h.change().Confirm(); err != nil {
			t.Fatal(err)
		}
		h.store.put("config/a", "1")
		h.store.put("config/b", "1")
		h.store.drop("config/c")
		h.change()
		time.Sleep(time.Minute / 2)
		synctest.Wait()
		if h.announced != nil {
			t.Errorf("%q", h.announced)
		}
		h.stop()
		time.Sleep(time.Hour)
		h.start()
		synctest.Wait()
		h.is(before)
		if got := fmt.Sprint(h.announced); got != "[from [c] to [c]]" {
			t.Error(got)
		}
	})
}

// TestProbesBefore: as long as the agent has not seen the change a probe says nothing of it.
func TestProbesBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		asked := 0
		h.probe = func(string) error { asked++; return nil }
		h.store.behind.Store(true)
		trial := h.change("x")
		time.Sleep(30 * time.Second)
		select {
		case <-trial.Probed():
			t.Error("it works, before it is there")
		default:
		}
		if asked > 0 {
			t.Errorf("asked %d times", asked)
		}
		h.store.behind.Store(false)
		<-trial.Probed()
	})
}

// TestProbes: a probe may fail now and then; three times in a row take the change back.
func TestProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		fails := map[string]string{"x": "..!!.!!.!!!", "y": ""}
		var mu sync.Mutex
		h.probe = func(p string) error {
			mu.Lock()
			defer mu.Unlock()
			if now := fails[p]; now != "" {
				if fails[p] = now[1:]; now[0] == '!' {
					return errors.New("no answer")
				}
			}
			return nil
		}
		trial := h.change("x", "y")
		<-trial.Probed()
		time.Sleep(9500 * time.Millisecond)
		h.is(after)
		time.Sleep(time.Second)
		h.is(before)
		if reason, _ := trial.Reverted(); reason != "the probe x failed 3 times: no answer" {
			t.Error(reason)
		}
	})
}

// TestStoreDown: the former values count while the store cannot be written, and are
// written when it can.
func TestStoreDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		trial := h.change()
		h.store.set(true)
		time.Sleep(61 * time.Second)
		h.is("a=1! b=1! d=1")
		if trial.Trouble() != models.ErrStoreDown.Error() {
			t.Error(trial.Trouble())
		}
		h.store.put("config/c", "3") // by another agent, somewhere else
		time.Sleep(time.Hour)
		h.is("a=1! b=1! c=3 d=1")
		h.store.set(false)
		time.Sleep(6 * time.Second)
		h.is("a=1 b=1 c=3 d=1")
		h.quiet()
	})
}

// TestLargerThanBefore: what does not fit into one transaction is written in several.
func TestLargerThanBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		trial := h.change()
		h.store.most = 1
		trial.Abort("too large")
		<-trial.Ended()
		h.is(before)
	})
}

// TestCrashes: whatever the agent was at when it ended, the store holds all of what was
// before or all of what came after, as is due by then.
func TestCrashes(t *testing.T) {
	for _, c := range []struct {
		name  string
		alive time.Duration // until it ends
		dead  time.Duration
		down  bool // the store is, when it starts again
		then  func(*host)
		want  string
	}{
		{"starts before the deadline", 10 * time.Second, time.Second, false, nil, after},
		{"and is confirmed", 10 * time.Second, time.Second, false, func(h *host) { _ = h.Outstanding().Confirm() }, after},
		{"and the deadline passes", 10 * time.Second, time.Second, false, func(*host) { time.Sleep(time.Minute) }, before},
		{"starts past the deadline", 10 * time.Second, time.Hour, false, nil, before},
		{"starts past the deadline without a store", 10 * time.Second, time.Hour, true, nil, "a=1! b=1! d=1"},
		{"the store comes back", 10 * time.Second, time.Hour, true, func(h *host) { h.store.set(false); time.Sleep(6 * time.Second) }, before},
		{"ends while it takes back", 61 * time.Second, time.Second, false, nil, before},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t)
				h.change()
				h.store.set(c.alive > time.Minute) // so that it does not come to its end
				time.Sleep(c.alive)
				h.stop()
				h.store.Override(nil) // which was in memory
				time.Sleep(c.dead)
				h.store.set(c.down)
				h.start()
				if c.then != nil {
					c.then(h)
				}
				h.is(c.want)
			})
		})
	}
}

// TestClockSetBack: a change is taken back within its time although the clock was set back by a day
// while the agent was away.
func TestClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		h.change()
		h.stop()
		path := filepath.Join(h.dir, confirm.FileName)
		var p confirm.Pending
		text, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(text, &p)
		}
		p.Began, p.Deadline = p.Began.AddDate(0, 0, 1), p.Deadline.AddDate(0, 0, 1)
		if err == nil {
			text, err = json.Marshal(p)
		}
		if err := errors.Join(err, os.WriteFile(path, text, 0o600)); err != nil {
			t.Fatal(err)
		}
		h.start()
		time.Sleep(50 * time.Second)
		h.is(after)
		time.Sleep(11 * time.Second)
		h.is(before)
	})
}

// TestCrashBeforeTheWrite: what was never written needs not be taken back.
func TestCrashBeforeTheWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		_, err := h.Begin(confirm.Pending{Name: "one", Deadline: time.Now().Add(time.Minute),
			Changes: []confirm.Change{{Key: "config/a", Before: []byte("1"), After: []byte("2")}}})
		if err != nil {
			t.Fatal(err)
		}
		h.stop()
		h.start()
		time.Sleep(2 * time.Minute)
		h.is(before)
		h.quiet()
	})
}

// TestDamagedRecord: what cannot be read is kept and told, and the next change may begin.
func TestDamagedRecord(t *testing.T) {
	whole, err := os.ReadFile(written(t))
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(whole) - 2 { // but for the end of line
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t)
			h.stop()
			file := filepath.Join(h.dir, confirm.FileName)
			if err := os.WriteFile(file, whole[:n], 0o600); err != nil {
				t.Fatal(err)
			}
			h.start()
			h.is(before)
			if !strings.Contains(h.Damage(), "cannot be read") || h.Outstanding() != nil {
				t.Fatalf("cut at %d: %q", n, h.Damage())
			}
			if kept, err := os.ReadFile(file + ".damaged"); err != nil || len(kept) != n {
				t.Error(err)
			}
			if err := h.change().Confirm(); err != nil {
				t.Error(err)
			}
		})
	}
}

// written is the record of a change.
func written(t *testing.T) (file string) {
	synctest.Test(t, func(t2 *testing.T) {
		h := newHost(t2)
		h.dir = t.TempDir()
		h.stop()
		h.start()
		h.change()
		file = filepath.Join(h.dir, confirm.FileName)
	})
	return file
}

// TestConfirmedInTime: confirming, aborting and the deadline race; the change is kept whole
// or taken back whole, as was said.
func TestConfirmedInTime(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t)
			trial := h.change()
			time.Sleep(time.Minute - time.Nanosecond)
			var all sync.WaitGroup
			var err error
			all.Go(func() { err = trial.Confirm() })
			all.Go(func() { trial.Abort("aborted") })
			all.Go(func() { _ = trial.Extend(time.Second) })
			all.Wait()
			<-trial.Ended()
			if err == nil {
				h.is(after)
			} else {
				h.is(before)
			}
			h.quiet()
		})
	}
}

func TestKeys(t *testing.T) {
	p := confirm.Pending{Changes: []confirm.Change{{Key: "config/interface/a"}, {Key: "applyset/x"}}}
	if got := fmt.Sprint(p.Keys()); got != "[interface/a]" {
		t.Error(got)
	}
}
