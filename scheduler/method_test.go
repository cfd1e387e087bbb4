package scheduler_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/plumb-net/plumb/scheduler"
)

// login is a value with a method Equal of its own, which has its own idea of what counts.
type login struct{ User, Password string }

func (l login) Equal(o login) bool { return l.User == o.User }

// named are values behind an interface that has such a method.
type named interface{ Equal(named) bool }

type account struct{ User, Password string }

func (a *account) Equal(o named) bool { return a.User == o.(*account).User }

// loose is comparable as a type, and not always as a value.
type loose struct{ Any any }

// lastWish has a value wait for what it needs, change its mind, and be made: it must be
// made as it was wanted last.
func lastWish[V any](t *testing.T, first, last V, same func(a, b V) bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := scheduler.New(scheduler.Options{})
		var made []V
		_, err := scheduler.Register(s, scheduler.Descriptor[V, struct{}]{
			Name: "c", Prefix: "c/",
			Create: func(_ context.Context, _ scheduler.Key, v V) (struct{}, error) {
				made = append(made, v)
				return struct{}{}, nil
			},
			Delete: func(context.Context, scheduler.Key, V, struct{}) error { return nil },
			Needs:  func(scheduler.Key, V) []scheduler.Need { return []scheduler.Need{scheduler.On("d/1", "to stand on")} },
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := scheduler.Register(s, plain("d")); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		for _, c := range []scheduler.Change{scheduler.Set("c/x", first), scheduler.Set("c/x", last), scheduler.Set("d/1", "here")} {
			s.Submit(scheduler.Txn{Want: []scheduler.Change{c}})
			synctest.Wait()
		}
		cancel()
		<-ended
		if len(made) != 1 || !same(made[0], last) {
			t.Errorf("made %+v, want %+v", made, last)
		}
	})
}

// Whether a source asks for something new is told from the values, whatever a method
// Equal of theirs thinks of it.
func TestLastWishCounts(t *testing.T) {
	t.Run("method", func(t *testing.T) {
		lastWish(t, login{"u", "old"}, login{"u", "new"}, func(a, b login) bool { return a == b })
	})
	t.Run("interface", func(t *testing.T) {
		lastWish[named](t, &account{"u", "old"}, &account{"u", "new"}, func(a, b named) bool { return *a.(*account) == *b.(*account) })
	})
	t.Run("comparable only as a type", func(t *testing.T) {
		lastWish(t, loose{[]string{"old"}}, loose{[]string{"new"}}, func(a, b loose) bool { return a.Any.([]string)[0] == b.Any.([]string)[0] })
	})
}
