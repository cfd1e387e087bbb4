package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

type (
	thingScope = scheduler.Scope[schedulertest.Thing, int]
	thingFound = scheduler.Found[schedulertest.Thing, int]
)

// slowReads lets reads of all of kind a see what is there at once and tell of it
// when the gate opens.
type slowReads struct{ gate atomic.Pointer[chan struct{}] }

func (s *slowReads) shut() (open func()) {
	gate := make(chan struct{})
	s.gate.Store(&gate)
	return func() { close(gate) }
}

func (s *slowReads) over(d thingKind) thingKind {
	if d.Name != "a" {
		return d
	}
	read := d.Retrieve
	d.Retrieve = func(ctx context.Context, scope thingScope) iter.Seq2[thingFound, error] {
		return func(yield func(thingFound, error) bool) {
			var seen []thingFound
			for f, err := range read(ctx, scope) {
				if err != nil {
					panic(err)
				}
				seen = append(seen, f)
			}
			if gate := s.gate.Load(); gate != nil && scope.All {
				<-*gate
			}
			for _, f := range seen {
				if !yield(f, nil) {
					return
				}
			}
		}
	}
	return d
}

// readUnderWay is a scheduler with a/1 in place, and a read of all of kind a that
// has seen it and tells of it once it may.
func readUnderWay(t *testing.T) (r *running, open func()) {
	s := &slowReads{}
	r = runKinds(t, scheduler.Options{}, s.over)
	r.want("a/1 v1")
	open = s.shut()
	r.Submit(lookA)
	synctest.Wait()
	return r, open
}

var lookA = scheduler.Txn{Look: []scheduler.Key{"a/"}}

// What a read saw before an operation began does not take back its outcome.
func TestReadThatComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, open := readUnderWay(t)
		r.want("a/1 v2", "a/2 v1")
		open()
		synctest.Wait()
		got := r.world.Lines()
		slices.Sort(got)
		if want := []string{"+ a/1=v1", "+ a/2=v1", "~ a/1=v2"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// Nor does it bring back what was deleted and forgotten meanwhile: what depends
// there now may be somebody else's.
func TestReadOfWhatHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, open := readUnderWay(t)
		r.want("a/1 -")
		r.world.Put("a/1", schedulertest.Thing{Text: "other"}, false)
		open()
		synctest.Wait()
		if got, want := r.world.Lines(), []string{"+ a/1=v1", "- a/1"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if all, err := r.List(ctx, "a/"); err != nil || len(all) > 0 {
			t.Errorf("a read from before tells %v, %v", all, err)
		}
	})
}

// Nor does it take back what a later read of the key alone has seen: of what moves
// while all is read, the read of all may have the older view.
func TestReadOfAllAfterOneOfAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, open := readUnderWay(t)
		r.world.SetForeign("a/2", schedulertest.Thing{Text: "other"})
		r.Submit(scheduler.Txn{Look: []scheduler.Key{"a/2"}})
		synctest.Wait()
		seen := func() (text string) {
			all, err := r.List(ctx, "a/")
			r.check(err)
			for _, s := range all {
				text += fmt.Sprintln(s.Key, s.State, s.Actual)
			}
			return text
		}
		before := seen()
		open()
		synctest.Wait()
		if got := seen(); got != before || !strings.Contains(got, "a/2 observed") {
			t.Errorf("seen\n%sand then\n%s", before, got)
		}
	})
}

// What is heard while all is read is read anew, also if the two come to the loop at
// the same time.
func TestHeardWithTheReadOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, busy := &slowReads{}, make(chan struct{})
		r := runKinds(t, scheduler.Options{}, func(d thingKind) thingKind {
			if d.Name == "b" { // keeps the loop
				d.Validate = func(scheduler.Key, schedulertest.Thing) error { <-busy; return nil }
			}
			return s.over(d)
		})
		r.want("a/1 v1")
		open := s.shut()
		r.Submit(lookA)
		synctest.Wait()
		r.Submit(scheduler.Txn{Want: changes("b/1 v1")})
		synctest.Wait()
		r.world.SetForeign("a/2", schedulertest.Thing{Text: "other"})
		r.world.Put("a/1", schedulertest.Thing{Text: "other"}, true)
		r.world.Put("a/2", schedulertest.Thing{Text: "other"}, true)
		open()
		synctest.Wait()
		close(busy)
		synctest.Wait()
		if got := r.world.String(); !strings.Contains(got, "a/1=v1") {
			t.Errorf("there is %q", got)
		}
		if s, err := r.Get(ctx, "a/2"); err != nil || s.Actual == nil {
			t.Errorf("a/2 is %v, %v", s.State, err)
		}
	})
}

// Who asks for a read while one is under way gets another one: the first may
// have seen too little.
func TestReadAskedForDuringARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, open := readUnderWay(t)
		r.world.Put("a/1", schedulertest.Thing{Text: "other"}, false)
		r.Submit(lookA)
		synctest.Wait()
		open()
		synctest.Wait()
		if got := r.world.String(); got != "a/1=v1\n" {
			t.Errorf("there is %q", got)
		}
	})
}

// What a broken watch did not tell is read.
func TestWatchThatBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := make(chan struct{}, 1)
		r := runKinds(t, scheduler.Options{}, func(d thingKind) thingKind {
			if d.Name != "a" {
				return d
			}
			d.Watch = func(ctx context.Context, _ func(...scheduler.Key)) error {
				select {
				case <-broken:
					return errors.New("the connection was lost")
				case <-ctx.Done():
					return nil
				}
			}
			return d
		})
		r.want("a/1 v1")
		r.world.Put("a/1", schedulertest.Thing{Text: "other"}, false)
		broken <- struct{}{}
		synctest.Wait()
		if got := r.world.String(); got != "a/1=v1\n" {
			t.Errorf("there is %q", got)
		}
	})
}

type boxed struct{ number int }

// Values behind pointers are equal when what they point to is: a read finds
// other pointers each time, and there is nothing to do.
func TestEqualValuesBehindPointers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{})
		operations := 0
		_, err := scheduler.Register(r.Scheduler, scheduler.Descriptor[*boxed, int]{Name: "box", Prefix: "box/",
			Create: func(context.Context, scheduler.Key, *boxed) (int, error) { operations++; return 0, nil },
			Update: func(context.Context, scheduler.Key, *boxed, *boxed, int) (int, error) {
				if operations++; operations > 5 {
					return 0, scheduler.Terminal(errors.New("this has no end"))
				}
				return 0, nil
			},
			Delete: func(context.Context, scheduler.Key, *boxed, int) error { operations++; return nil },
			Retrieve: func(_ context.Context, s scheduler.Scope[*boxed, int]) iter.Seq2[scheduler.Found[*boxed, int], error] {
				return func(yield func(scheduler.Found[*boxed, int], error) bool) {
					if operations > 0 {
						yield(scheduler.Found[*boxed, int]{Key: "box/1", Value: &boxed{7}}, nil)
					}
				}
			},
		})
		r.check(err)
		_, err = r.Apply(ctx, scheduler.Txn{Want: []scheduler.Change{scheduler.Set("box/1", &boxed{7})}})
		r.check(err)
		_, err = r.Apply(ctx, scheduler.Txn{Look: []scheduler.Key{"box/"}})
		r.check(err)
		synctest.Wait()
		if operations != 1 {
			t.Errorf("%d operations, want the one that made it", operations)
		}
	})
}

// A read of one key saw it before a read of all did, and ends after it: what the read
// of all saw is the newer.
func TestReadOfOneEndsAfterReadOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &ground{}
		slow := make(chan struct{})
		d := g.pots()
		d.Retrieve = func(_ context.Context, s scheduler.Scope[string, int]) iter.Seq2[scheduler.Found[string, int], error] {
			return func(yield func(scheduler.Found[string, int], error) bool) {
				g.mu.Lock()
				n := g.pot
				g.mu.Unlock()
				if !s.All {
					<-slow
				}
				if n != 0 {
					yield(scheduler.Found[string, int]{Key: "pot/x", Value: "v", Meta: n}, nil)
				}
			}
		}
		s := scheduler.New(scheduler.Options{Workers: 2})
		if _, err := scheduler.Register(s, d); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		defer func() { cancel(); <-done }()
		if _, err := s.Apply(ctx, scheduler.Txn{Want: []scheduler.Change{scheduler.Set("pot/x", "v")}}); err != nil {
			t.Fatal(err)
		}
		s.Submit(scheduler.Txn{Look: []scheduler.Key{"pot/x"}})
		synctest.Wait() // it was seen
		g.mu.Lock()
		g.pot = 0
		g.mu.Unlock()
		s.Submit(scheduler.Txn{LookAll: true})
		synctest.Wait()
		close(slow)
		synctest.Wait()
		if g.pot != 2 {
			t.Error("it is gone and was not made again: the older read was believed")
		}
	})
}

// TestReadBetweenLossAndReturn: the kernel tells that an address is gone before it removes
// the routes that go with it, and of those it does not tell. What was read in between is
// read again when its ground is back.
func TestReadBetweenLossAndReturn(t *testing.T) {
	for _, need := range []string{"b/1", "b/"} {
		synctest.Test(t, func(t *testing.T) {
			var stale atomic.Bool
			r := runKinds(t, scheduler.Options{}, func(d thingKind) thingKind {
				if d.Name != "a" {
					return d
				}
				read := d.Retrieve
				d.Retrieve = func(ctx context.Context, scope thingScope) iter.Seq2[thingFound, error] {
					if !stale.CompareAndSwap(true, false) {
						return read(ctx, scope)
					}
					return func(yield func(thingFound, error) bool) { // as it was a moment ago
						for _, kn := range scope.Known {
							if !yield(thingFound{Key: kn.Key, Value: kn.Value, Meta: kn.Meta}, nil) {
								return
							}
						}
					}
				}
				return d
			})
			r.want("b/1 v1", "a/1 v1 needs="+need)
			stale.Store(true)
			r.world.Take("a/1", false)
			r.world.Take("b/1", true)
			synctest.Wait()
			if objects := r.world.Objects(); len(objects) != 2 || stale.Load() {
				t.Errorf("needs %s: there is %v", need, objects)
			}
		})
	}
}

// What looks the same and has other metadata is another thing: a link that was deleted
// and made again has another index.
func TestReadOfAnotherThatLooksTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		another := 0
		r := runKinds(t, scheduler.Options{}, func(d thingKind) thingKind {
			if d.Name != "a" {
				return d
			}
			retrieve := d.Retrieve
			d.Retrieve = func(ctx context.Context, s thingScope) iter.Seq2[thingFound, error] {
				return func(yield func(thingFound, error) bool) {
					for f, err := range retrieve(ctx, s) {
						f.Meta += another
						if !yield(f, err) {
							return
						}
					}
				}
			}
			return d
		})
		r.want("a/1 v1")
		_, before, _ := r.a.Get("a/1")
		another = 100
		r.Submit(scheduler.Txn{LookAll: true})
		synctest.Wait()
		if _, m, ok := r.a.Get("a/1"); !ok || m != before+100 {
			t.Errorf("a/1 is there: %v, with metadata %d; before %d, read %d", ok, m, before, before+100)
		}
		r.check(r.stop())
	})
}

// TestReadIsToldWhatIsKnown: the read of a key whose creation or deletion has failed is told
// the value that may be there.
func TestReadIsToldWhatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		r := runKinds(t, scheduler.Options{}, func(d thingKind) thingKind {
			if d.Name != "a" {
				return d
			}
			read := d.Retrieve
			d.Retrieve = func(ctx context.Context, scope thingScope) iter.Seq2[thingFound, error] {
				for _, kn := range scope.Known {
					told = append(told, fmt.Sprint(kn.Key, "=", kn.Value.Text, " ", kn.InPlace))
				}
				return read(ctx, scope)
			}
			return d
		})
		r.want("a/2 v2")
		r.world.Order(schedulertest.Order{Op: "create", Target: "a/1", Fault: schedulertest.Fail, Times: 1})
		r.world.Order(schedulertest.Order{Op: "delete", Target: "a/2", Fault: schedulertest.Fail, Times: 1})
		r.want("a/1 v1")
		r.want("a/2 -")
		if want := []string{"a/1=v1 false", "a/2=v2 true"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}
