package owned_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// teller is a kernel that tells these events, and names whoever has a port.
type teller struct {
	kernel.Kernel
	events []kernel.Event
	asked  int
}

func (k *teller) Watch(_ context.Context, f func(kernel.Event)) error {
	for _, e := range k.events {
		f(e)
	}
	return nil
}

func (k *teller) Who(_ kernel.NS, a kernel.Actor) string {
	k.asked++
	return fmt.Sprintf("ip (process %d)", a.Port)
}

// by is an event that somebody caused, about the key whose number is the index of a port.
func by(port uint32, key int) kernel.Event {
	return kernel.Event{NS: 1, Port: key, Actor: kernel.Actor{Port: port}}
}

func follow(t *testing.T, k *teller) *owned.Objects[*models.Route, string] {
	t.Helper()
	o := &owned.Objects[*models.Route, string]{}
	err := o.Follow(t.Context(), k, func(e kernel.Event) owned.News {
		if e.Port == 0 {
			return owned.News{All: e.Lost}
		}
		return owned.NewsOf(scheduler.Key(fmt.Sprintf("route/%d", e.Port)))
	}, func(...scheduler.Key) {})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// A key is put down to whoever made the last change of it, once, and not for long.
func TestChangedBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &teller{events: []kernel.Event{by(7, 1), by(8, 2), by(9, 2), by(7, 3), by(0, 3), by(7, 4)}}
		o := follow(t, k)
		for key, want := range map[scheduler.Key]string{"route/1": "ip (process 7)", "route/2": "ip (process 9)", "route/3": "", "route/5": ""} {
			if got, again := o.ChangedBy(key), o.ChangedBy(key); got != want || again != "" {
				t.Errorf("%s: %q, then %q, want %q", key, got, again, want)
			}
		}
		time.Sleep(time.Minute)
		if got := o.ChangedBy("route/4"); got != "" {
			t.Errorf("a minute later: %q", got)
		}
		o = follow(t, &teller{events: []kernel.Event{by(7, 1), {NS: 1, Lost: true}}})
		if got := o.ChangedBy("route/1"); got != "" {
			t.Errorf("after events were lost: %q", got)
		}
	})
}

// What others do to what is none of ours asks nobody; of very much only the newest is kept.
func TestActorsAreBounded(t *testing.T) {
	k := &teller{}
	for range 50000 {
		k.events = append(k.events, by(7, 0))
	}
	if follow(t, k); k.asked != 0 {
		t.Errorf("asked %d times", k.asked)
	}
	k.events = nil
	for i := range 50000 {
		k.events = append(k.events, by(7, i+1))
	}
	o, known := follow(t, k), 0
	for i := range k.events {
		if o.ChangedBy(scheduler.Key(fmt.Sprintf("route/%d", i+1))) != "" {
			known++
		}
	}
	if known < 4096 || known > 2*4096 {
		t.Errorf("%d are kept", known)
	}
}
