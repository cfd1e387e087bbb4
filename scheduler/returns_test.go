package scheduler_test

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/plumb-net/plumb/scheduler"
)

// shelf is a system in which nothing falls when what it depends on is taken away. It notes
// what was done.
type shelf struct {
	mu   sync.Mutex
	has  map[scheduler.Key]string
	done []string
}

func (w *shelf) kind(name string) scheduler.Descriptor[string, struct{}] {
	type found = scheduler.Found[string, struct{}]
	return scheduler.Descriptor[string, struct{}]{
		Name: name, Prefix: scheduler.Key(name + "/"),
		Needs: func(_ scheduler.Key, v string) (needs []scheduler.Need) {
			if v != "" {
				needs = append(needs, scheduler.On(scheduler.Key(v), "what it stands on"))
			}
			return needs
		},
		Create: func(_ context.Context, k scheduler.Key, v string) (struct{}, error) {
			w.note("+"+string(k), func() { w.has[k] = v })
			return struct{}{}, nil
		},
		Delete: func(_ context.Context, k scheduler.Key, _ string, _ struct{}) error {
			w.note("-"+string(k), func() { delete(w.has, k) })
			return nil
		},
		Retrieve: func(_ context.Context, s scheduler.Scope[string, struct{}]) iter.Seq2[found, error] {
			return func(yield func(found, error) bool) {
				w.mu.Lock()
				has := maps.Clone(w.has)
				w.mu.Unlock()
				for _, k := range slices.Sorted(maps.Keys(has)) {
					if strings.HasPrefix(string(k), name+"/") && s.Has(k) && !yield(found{Key: k, Value: has[k]}, nil) {
						return
					}
				}
			}
		},
	}
}

func (w *shelf) note(what string, f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	w.done = append(w.done, what)
}

// TestWhatReturnsIsWaitedFor: an object of an earlier run lacks what it depends on. As long
// as a source has not synced that may only have been forgotten: if it is wanted, what
// depends on it stays until it is made again. If nobody wants it, or all have synced,
// what depends on it goes.
func TestWhatReturnsIsWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		before []scheduler.Change // of the source that has synced
		synced bool               // the other has as well
		want   string
	}{
		"it is wanted":          {[]scheduler.Change{scheduler.Set("a/1", "c/1"), scheduler.Set("b/1", "a/1")}, false, ""},
		"it is made":            {[]scheduler.Change{scheduler.Set("c/1", ""), scheduler.Set("a/1", "c/1"), scheduler.Set("b/1", "a/1")}, false, "+c/1 +a/1"},
		"nobody wants it":       {[]scheduler.Change{scheduler.Set("b/1", "a/1")}, false, "-b/1"},
		"all sources have told": {[]scheduler.Change{scheduler.Set("a/1", "c/1"), scheduler.Set("b/1", "a/1")}, true, "-b/1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &shelf{has: map[scheduler.Key]string{"b/1": "a/1"}}
				s := scheduler.New(scheduler.Options{Sources: []string{"one", "two"}})
				for _, kind := range []string{"a", "b", "c"} {
					if _, err := scheduler.Register(s, w.kind(kind)); err != nil {
						t.Fatal(err)
					}
				}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- s.Run(ctx) }()
				s.Submit(scheduler.Txn{Source: "one", Complete: true, Want: c.before})
				synctest.Wait()
				if c.synced {
					s.Submit(scheduler.Txn{Source: "two", Complete: true})
					synctest.Wait()
				}
				if got := strings.Join(w.done, " "); got != c.want {
					t.Errorf("it did %q, want %q", got, c.want)
				}
				stop()
				<-ended
			})
		})
	}
}
