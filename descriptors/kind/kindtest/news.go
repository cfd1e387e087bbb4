package kindtest

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/scheduler"
)

// patience is how long news may take.
const patience = 2 * time.Minute

// News are the keys that the Watch of a kind tells of.
type News struct {
	t     testing.TB
	told  chan []scheduler.Key
	heard []scheduler.Key // and not taken yet
}

// Watch reads all of a kind of which there is nothing yet, and watches it until the test
// ends. It returns when the watch is in place.
func Watch[V proto.Message, M any](t testing.TB, d scheduler.Descriptor[V, M]) *News {
	t.Helper()
	n := &News{t: t, told: make(chan []scheduler.Key, 1000)} // notify never blocks
	ctx, cancel := context.WithCancel(context.Background())
	for range d.Retrieve(ctx, scheduler.Scope[V, M]{All: true}) {
		t.Error("something was found")
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = d.Watch(ctx, func(keys ...scheduler.Key) {
			select {
			case n.told <- slices.Clone(keys):
			case <-ctx.Done():
			}
		})
	}()
	t.Cleanup(func() { cancel(); <-ended })
	for ready := false; !ready; {
		ready = len(n.next("the watch to be in place")) == 0 // that is how it says so
	}
	return n
}

func (n *News) next(what string) []scheduler.Key {
	n.t.Helper()
	select {
	case keys := <-n.told:
		return keys
	case <-time.After(patience):
		n.t.Fatalf("waited in vain for %s; told of %v", what, n.heard)
		return nil
	}
}

// Of waits until so many keys were told of, or until one was that is named, and takes all
// that was told since the last time.
func (n *News) Of(what string, enough func(heard []scheduler.Key) bool) []scheduler.Key {
	n.t.Helper()
	for !enough(n.heard) {
		n.heard = append(n.heard, n.next(what)...)
	}
	heard := n.heard
	n.heard = nil
	return heard
}

// Key waits until a key was told of, and takes all that was told since the last time.
func (n *News) Key(what string, k scheduler.Key) []scheduler.Key {
	n.t.Helper()
	return n.Of(what, func(heard []scheduler.Key) bool { return slices.Contains(heard, k) })
}
