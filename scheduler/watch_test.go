package scheduler_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// Many watch, all, some or one: each hears what concerns it and nothing else, whether it
// reads at once or late, and who has stopped is forgotten.
func TestManyWatchers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{})
		r.want("a/0 v0", "b/0 v0")
		concerns := []string{"", "a/", "b/", "a/1"}
		var all []*scheduler.Watcher
		read := func(i int) (keys []string) {
			got, inSync, err := all[i].Next(ctx)
			r.check(err)
			for _, s := range got {
				keys = append(keys, string(s.Key)+" "+s.State.String())
			}
			if !inSync {
				t.Errorf("watcher %d is not in sync", i)
			}
			return keys
		}
		for i := range 300 {
			if of := concerns[i%4]; of == "" {
				all = append(all, r.Watch())
			} else {
				all = append(all, r.Watch(scheduler.Key(of)))
			}
			if i%8 < 4 { // the others have not read the first picture when things change
				read(i)
			}
		}
		r.want("a/1 v1")
		r.want("a/1 v2")
		r.want("b/0 -") // by itself: of two operations either may end first
		for i := range all {
			want := [][]string{{"a/1 configured", "b/0 removed"}, {"a/1 configured"}, {"b/0 removed"}, {"a/1 configured"}}[i%4]
			if i%8 >= 4 && i%4 < 2 { // a/0 is of the first picture
				want = append([]string{"a/0 configured"}, want...)
			}
			if got := read(i); !slices.Equal(got, want) {
				t.Errorf("watcher %d of %q heard %v, want %v", i, concerns[i%4], got, want)
			}
		}
		if n := scheduler.UnreadChanges(r.Scheduler); n != 0 {
			t.Errorf("%d changes are kept though all have read them", n)
		}
		for i, w := range all {
			w.Stop()
			w.Stop()
			if _, _, err := w.Next(ctx); !errors.Is(err, scheduler.ErrWatcherStopped) {
				t.Errorf("watcher %d, stopped, got %v", i, err)
			}
		}
	})
}

// Of what a watcher does not read the last change of each key is kept, and as many void ones.
func TestUnreadChangesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{})
		w := r.Watch()
		_, _, err := w.Next(ctx)
		r.check(err)
		for i := range 50_000 {
			r.want(fmt.Sprintf("a/%d v%d", i%10, i))
		}
		if n := scheduler.UnreadChanges(r.Scheduler); n > 17_000 {
			t.Errorf("%d changes of 10 keys are kept", n)
		}
		got, _, err := w.Next(ctx)
		if r.check(err); len(got) != 10 {
			t.Errorf("%d keys have changed, want 10", len(got))
		}
	})
}

// A reader that sleeps gets the last state of each key, and slows nobody. It is in sync with
// the last of many keys, whether they are its first picture or have come since.
func TestSlowWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{})
		early := r.Watch("a/")
		for i := range 1000 {
			r.want(fmt.Sprintf("a/%d v%d", i%300, i), fmt.Sprintf("b/%d v%d", i%300, i))
		}
		for name, w := range map[string]*scheduler.Watcher{"early": early, "late": r.Watch("a/")} {
			seen := map[scheduler.Key]string{}
			batches := 0
			for inSync := false; !inSync; batches++ {
				var got []scheduler.Status
				var err error
				got, inSync, err = w.Next(ctx)
				r.check(err)
				for _, s := range got {
					seen[s.Key] = s.Actual.(schedulertest.Thing).Text
				}
			}
			if len(seen) != 300 || batches != 2 || seen["a/5"] != "v905" {
				t.Errorf("%s saw %d keys in %d batches, a/5 last as %s", name, len(seen), batches, seen["a/5"])
			}
		}
	})
}
