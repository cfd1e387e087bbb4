package scheduler_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// TestHeldBackAfterARestart: what an earlier process made and a store that lost its keys
// does not want any more is judged as a whole, when all is known: all of it at once, or what
// is left of it, is held back.
func TestHeldBackAfterARestart(t *testing.T) {
	for _, c := range []struct {
		limit string
		wants []string
		held  string
	}{
		{"3", nil, "4 of 4 a would go, and 3 may, 10 of 10 b would go, and 3 may; 14 keys"},
		{"100", nil, "all 14 would go, for nothing is wanted any more; 14 keys"},
		{"100", []string{"a/1 v1"}, ""},
		{"off", nil, ""},
		{"50%", []string{"a/1 v1"}, ""}, // they are few
	} {
		synctest.Test(t, func(t *testing.T) {
			first := run(t, scheduler.Options{})
			lines := []string{"a/1 v1", "a/2 v1", "a/3 v1", "a/4 v1"}
			for i := range 10 {
				lines = append(lines, fmt.Sprintf("b/%d v1 needs=a/1", i))
			}
			first.want(lines...)
			first.check(first.stop())

			d, err := scheduler.ParseDeletions(c.limit)
			first.check(err)
			first.world.NewProcess()
			r := startOn(t, first.world, scheduler.Options{Policies: []scheduler.Policy{{Deletions: d}}},
				func(d scheduler.Descriptor[schedulertest.Thing, int]) scheduler.Descriptor[schedulertest.Thing, int] {
					return d
				})
			if _, err := r.Apply(ctx, scheduler.Txn{Want: changes(c.wants...), Complete: true}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			held, err := r.HeldBack()
			r.check(err)
			got := ""
			for _, h := range held {
				got += fmt.Sprintf("%s; %d keys", h.Reason, len(h.Keys))
			}
			if got != c.held {
				t.Errorf("with %s and %v is held back %q, want %q", c.limit, c.wants, got, c.held)
			}
			left := len(r.world.Objects())
			if c.held != "" && left != 14 {
				t.Errorf("%d things are left", left)
			}
			if c.held == "" && left != len(c.wants) {
				t.Errorf("%d things are left of %v", left, c.wants)
			}
			if c.held != "" {
				r.check(r.Release(""))
				synctest.Wait()
				if left := r.world.Objects(); len(left) != 0 {
					t.Errorf("left after the release: %v", left)
				}
			}
		})
	}
}

// TestTakeBack: what is announced to be taken back goes, however much it is: as long as that
// is not over, and after that if it is seen late. What is wanted anew is held back as ever.
func TestTakeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{Policies: []scheduler.Policy{{Deletions: scheduler.Deletions{Most: 1}}}})
		keys := []scheduler.Key{"a/1", "a/2", "a/3"}
		make := func() { r.want("a/1 v1", "a/2 v1", "a/3 v1", "b/1 v1") }
		is := func(when string, left, held int) {
			t.Helper()
			synctest.Wait()
			all, err := r.HeldBack()
			r.check(err)
			n := 0
			for _, h := range all {
				n += len(h.Keys)
			}
			if got := len(r.world.Objects()); got != left || n != held {
				t.Errorf("%s: %d things are left and %d are held back, want %d and %d", when, got, n, left, held)
			}
		}
		take := func() { r.want("a/1 -", "a/2 -", "a/3 -") }

		make()
		end, err := r.TakeBack(keys...)
		r.check(err)
		take()
		is("meanwhile", 1, 0)
		end()

		make()
		is("made anew", 4, 0)
		take()
		is("as ever", 4, 3)
		r.check(r.Release(""))
		is("released", 1, 0)

		make()
		end, err = r.TakeBack(keys...)
		r.check(err)
		again, err := r.TakeBack("a/1")
		r.check(err)
		end() // they stay, but for one
		take()
		is("it is over for two", 3, 2)
		again()
	})
}

// TestDeletionsText: limits are read as they are written, and what is none is refused.
func TestDeletionsText(t *testing.T) {
	for _, text := range []string{"off", "200", "50%", "200,50%"} {
		if d, err := scheduler.ParseDeletions(text); err != nil || d.String() != text {
			t.Errorf("%s: %s, %v", text, d, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "101%", "50%,50%", "1,2", "many", "1 %"} {
		if d, err := scheduler.ParseDeletions(text); err == nil {
			t.Errorf("%q is read as %s", text, d)
		}
	}
}

// TestOwnerTakesBackOnce: what the owner of keys says of them counts until they are wanted again,
// and only of those that it names and that no other source wants.
func TestOwnerTakesBackOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{Sources: []string{"", "other"}, Policies: []scheduler.Policy{{Deletions: scheduler.Deletions{Most: 1}}}})
		r.Submit(scheduler.Txn{Source: "other", Complete: true, Want: changes("b/1 v1")})
		gone := changes("a/1 -", "a/2 -", "a/3 -")
		is := func(when string, left, held int) {
			t.Helper()
			synctest.Wait()
			all, err := r.HeldBack()
			r.check(err)
			n := 0
			for _, h := range all {
				n += len(h.Keys)
			}
			if got := len(r.world.Objects()); got != left || n != held {
				t.Errorf("%s: %d things are left and %d are held back, want %d and %d", when, got, n, left, held)
			}
		}
		r.want("a/1 v1", "a/2 v1", "a/3 v1")
		is("made", 4, 0)
		r.Submit(scheduler.Txn{ByOwner: true, Want: gone})
		is("taken back by the owner", 1, 0)

		r.want("a/1 v1", "a/2 v1", "a/3 v1")
		r.Submit(scheduler.Txn{Want: gone})
		is("withdrawn by anybody", 4, 3)
		r.Submit(scheduler.Txn{ByOwner: true, Want: changes("a/1 -")})
		is("one taken back by the owner", 3, 2)
		r.want("a/1 v1", "a/2 v1", "a/3 v1")

		// What its owner takes back is not held any more, though it cannot be removed yet; then
		// it is wanted again.
		r.Submit(scheduler.Txn{Want: gone})
		is("withdrawn by anybody once more", 4, 3)
		order, err := schedulertest.ParseOrder("delete a/: fail")
		r.check(err)
		r.world.Order(order)
		r.Submit(scheduler.Txn{ByOwner: true, Want: gone})
		is("taken back by the owner, and cannot go", 4, 0)
		r.want("a/1 v1", "a/2 v1", "a/3 v1")
		r.world.NoFaults()
		synctest.Wait()
		r.Submit(scheduler.Txn{Want: gone})
		is("wanted again and withdrawn by anybody", 4, 3)
		r.check(r.Release(""))
		is("released", 1, 0)

		r.want("a/1 v1", "a/2 v1", "a/3 v1")
		r.Submit(scheduler.Txn{ByOwner: true, Complete: true, Want: changes("a/1 v1")})
		is("not named by the owner", 4, 2)
		r.check(r.Release(""))
		is("released", 2, 0)

		r.Submit(scheduler.Txn{Source: "other", Want: changes("a/1 v1")})
		r.Submit(scheduler.Txn{ByOwner: true, Want: changes("a/1 -")})
		is("wanted by another source", 2, 0)
	})
}

// TestHeldBackOutlastsItsKind: what is held back stays so when its kind is registered anew.
func TestHeldBackOutlastsItsKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{Policies: []scheduler.Policy{{Deletions: scheduler.Deletions{Most: 1}}}})
		r.want("b/1 v1", "b/2 v1", "a/1 v1")
		r.want("b/1 -", "b/2 -")
		r.check(r.Unregister("b"))
		synctest.Wait()
		_, err := scheduler.Register(r.Scheduler, r.world.Kind("b", schedulertest.Options{}))
		r.check(err)
		synctest.Wait()
		held, err := r.HeldBack()
		r.check(err)
		if len(held) != 1 || len(held[0].Keys) != 2 || len(r.world.Objects()) != 3 {
			t.Errorf("held back is %v, and there is\n%v", held, r.world)
		}
		r.check(r.Release(""))
		synctest.Wait()
		if left := r.world.Objects(); len(left) != 1 {
			t.Errorf("left after the release: %v", left)
		}
	})
}
