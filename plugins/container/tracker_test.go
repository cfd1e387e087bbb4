package container

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/plumb-net/plumb/models"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inBubble runs f with a tracker that works, on a clock that is not real.
func inBubble(t *testing.T, f func(t *testing.T, w *story)) {
	synctest.Test(t, func(t *testing.T) {
		w := newStory(t)
		w.start()
		synctest.Wait()
		defer func() {
			w.stop()
			if w.engine.open != 0 {
				t.Errorf("%d processes are still held", w.engine.open)
			}
		}()
		f(t, w)
	})
}

func (w *story) add(id string, args ...string) {
	w.engine.create(newContainer(append([]string{id}, args...)))
	w.engine.start(id)
}

// TestHangingInspects: more containers hang than inspects may run at once, and
// a new one is seen nevertheless before any of them comes to its deadline twice.
func TestHangingInspects(t *testing.T) {
	inBubble(t, func(t *testing.T, w *story) {
		for i := range 40 {
			id := fmt.Sprintf("bad%02d", i)
			w.engine.set(func() { w.engine.hungInspect[id] = true })
			w.add(id)
		}
		time.Sleep(2 * time.Minute) // all have failed by now
		for i := range 20 {
			began := time.Now()
			w.add(fmt.Sprintf("good%02d", i), fmt.Sprintf("env=web%02d", i))
			synctest.Wait()
			all, _ := w.tracker.Microservices()
			if all[fmt.Sprintf("web%02d", i)] == nil {
				t.Fatalf("container %d was not seen at once, %v after the start", i, time.Since(began))
			}
			time.Sleep(7 * time.Second)
		}
	})
}

// TestBackoffSchedule: the waits between inspects that fail grow from one second
// to five minutes, with jitter on top.
func TestBackoffSchedule(t *testing.T) {
	want := []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300}
	for i, seconds := range want {
		low := backoff(i+1, firstReinspect, mostReinspect, 0)
		high := backoff(i+1, firstReinspect, mostReinspect, 0.999)
		if low != seconds*time.Second || high < low || high > low+low/4 {
			t.Errorf("failure %d: %v to %v, want about %v s", i+1, low, high, int(seconds))
		}
	}
	if d := backoff(1000000, firstReinspect, mostReinspect, 0); d != mostReinspect {
		t.Errorf("after very many failures: %v", d)
	}
}

// TestSlowWatcher: a watcher that does not come back delays nobody, costs
// bounded memory and hears of the last state.
func TestSlowWatcher(t *testing.T) {
	inBubble(t, func(t *testing.T, w *story) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		calls := make(chan []string)
		done := make(chan error)
		go func() { done <- w.tracker.Watch(ctx, func(keys ...string) { calls <- keys }) }()
		if keys := <-calls; len(keys) != 0 {
			t.Fatalf("the first call names %v, want none", keys)
		}
		w.add("x") // this call now hangs
		synctest.Wait()
		for range 3 {
			for i := range 50 {
				w.add(fmt.Sprintf("c%d", i), "env=web")
			}
			synctest.Wait()
			for i := range 50 {
				w.engine.remove(fmt.Sprintf("c%d", i))
			}
			synctest.Wait()
		}
		if keys := <-calls; !slices.Equal(keys, []string{"container/docker:x"}) {
			t.Fatalf("second call: %v", keys)
		}
		if keys := <-calls; len(keys) != 51 {
			t.Fatalf("third call names %d keys, want all 50 containers and the microservice", len(keys))
		}
		synctest.Wait()
		select {
		case keys := <-calls:
			t.Fatalf("called again with %v", keys)
		default:
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	})
}

// TestManyChanges: a watcher that sleeps through very many changes is told that
// anything may have changed.
func TestManyChanges(t *testing.T) {
	w := &watcher{wake: make(chan struct{}, 1), pending: map[string]bool{}}
	for i := range 2 * maxPending {
		w.add([]string{fmt.Sprint(i)}, false)
	}
	if len(w.pending) > maxPending {
		t.Errorf("%d keys are kept", len(w.pending))
	}
	if keys, any := w.take(); !any || len(keys) != 0 {
		t.Errorf("took %d keys, %v", len(keys), any)
	}
	if _, any := w.take(); any {
		t.Error("there is something left to take")
	}
}

// TestCopies: readers may do with what they get as they like.
func TestCopies(t *testing.T) {
	inBubble(t, func(t *testing.T, w *story) {
		w.add("web", "env=web")
		synctest.Wait()
		spoil := func() (*models.Container, *models.Microservice) {
			c, _ := w.tracker.Containers()
			m, _ := w.tracker.Microservices()
			h := w.tracker.Health()
			h[0].Details["version"] = "spoilt"
			return c["docker:web"], m["web"]
		}
		c, m := spoil()
		c.Labels = map[string]string{"spoilt": "yes"}
		c.State, m.Netns = "spoilt", 0
		if c, m := spoil(); c.State != "running" || m.Netns == 0 || len(c.Labels) > 0 {
			t.Error("a reader changed what others read")
		}
		if w.tracker.Health()[0].Details["version"] == "spoilt" {
			t.Error("a reader changed the health that others read")
		}
	})
}

// TestReadersWhileMoving lets the race detector look at readers, watchers and
// the loop while containers come and go.
func TestReadersWhileMoving(t *testing.T) {
	inBubble(t, func(t *testing.T, w *story) {
		stop := make(chan struct{})
		var readers sync.WaitGroup
		for range 3 {
			readers.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Millisecond):
					}
					_, _ = w.tracker.Containers()
					_, _ = w.tracker.Microservices()
					w.tracker.Health()
				}
			})
		}
		for i := range 200 {
			id := fmt.Sprintf("c%d", i%20)
			w.add(id, "env="+id)
			time.Sleep(time.Millisecond)
			if i%3 == 0 {
				w.engine.kill(id)
			}
			if i%7 == 0 {
				w.engine.cut()
			}
		}
		close(stop)
		readers.Wait()
	})
}

// TestBurst: very many containers at once are all known soon, each inspected a
// few times at most.
func TestBurst(t *testing.T) {
	inBubble(t, func(t *testing.T, w *story) {
		for i := range 900 {
			w.add(fmt.Sprintf("c%03d", i), fmt.Sprintf("env=s%03d", i))
		}
		synctest.Wait()
		all, err := w.tracker.Microservices()
		if err != nil || len(all) != 900 {
			t.Fatalf("%d microservices, %v", len(all), err)
		}
		for id, n := range w.engine.inspects {
			if n > 3 {
				t.Errorf("container %s was inspected %d times", id, n)
			}
		}
	})
}

// TestHintsLost: without any event, what happened is seen within the longest wait.
func TestHintsLost(t *testing.T) {
	inBubble(t, func(t *testing.T, w *story) {
		w.engine.set(func() { w.engine.mute = true })
		for i := range 10 {
			w.add(fmt.Sprintf("c%d", i), fmt.Sprintf("env=s%d", i))
			time.Sleep(45 * time.Second)
			if all, _ := w.tracker.Microservices(); all[fmt.Sprintf("s%d", i)] == nil {
				t.Fatalf("container %d is not known", i)
			}
		}
	})
}

// TestStopped: a tracker that has ended says that it knows nothing.
func TestStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStory(t)
		w.add("web", "env=web")
		w.start()
		synctest.Wait()
		w.stop()
		all, err := w.tracker.Microservices()
		if len(all) != 0 || !errors.Is(err, ErrUnknown) {
			t.Errorf("%v, %v", all, err)
		}
	})
}

// TestStopDuringInspects: what jobs bring when the tracker ends is let go.
func TestStopDuringInspects(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			w := newStory(t)
			for i := range 100 {
				id := fmt.Sprintf("c%d", i)
				w.engine.slowInspect[id] = true
				w.add(id)
			}
			w.start()
			time.Sleep(time.Second) // when the first answers come
			w.stop()
			if w.engine.open != 0 {
				t.Fatalf("%d processes are still held", w.engine.open)
			}
		})
	}
}

// TestTwoRuntimes: one that does not answer takes nothing from the other.
func TestTwoRuntimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newEngine(), newEngine()
		b.down = true
		tracker, err := New(Options{Processes: a}, a, renamed{b, "containerd:x"})
		if err != nil {
			t.Fatal(err)
		}
		w := &story{engine: a, tracker: tracker}
		w.add("web", "env=web")
		(&story{engine: b}).add("web") // the same id and name
		w.start()
		synctest.Wait()
		all, err := tracker.Microservices()
		if all["web"] == nil {
			t.Error("the container of the runtime that answers is not known")
		}
		if !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "containerd:x: does not answer: connection refused") {
			t.Errorf("error %v", err)
		}
		b.set(func() { b.down = false })
		time.Sleep(10 * time.Second)
		if _, err := tracker.Microservices(); err != nil {
			t.Error(err)
		}
		if all, _ := tracker.Containers(); len(all) != 2 || all["docker:web"] == nil || all["containerd:x:web"] == nil {
			t.Errorf("known are %v", all)
		}
		if c, err := tracker.Container("containerd:x:web"); c.GetRuntime() != "containerd:x" {
			t.Error(c, err)
		}
		if _, err := tracker.Container("web"); !errors.Is(err, ErrAmbiguous) {
			t.Errorf("web: %v", err)
		}
		w.stop()
	})
	if _, err := New(Options{}, newEngine(), newEngine()); err == nil {
		t.Error("two runtimes of one name were taken")
	}
}

// renamed is an engine under another name.
type renamed struct {
	*engine
	name string
}

func (r renamed) Name() string { return r.name }

// slowSnapshots is a kernel that is asked for our namespace once for each snapshot, and
// takes its time.
type slowSnapshots struct {
	*engine
	took  time.Duration
	drawn int
}

func (k *slowSnapshots) OwnNetns() uint64 {
	k.drawn++
	time.Sleep(k.took)
	return k.engine.OwnNetns()
}

// TestFewPictures: snapshots of what is being read for the first time take a
// hundredth of the time that the reading does, but come once a second at least.
func TestFewPictures(t *testing.T) {
	for _, c := range []struct {
		took        time.Duration // a snapshot
		read        time.Duration // 200 containers, 16 at once, of which each takes a second
		drawnAtMost int
	}{
		{time.Millisecond, 13 * time.Second, 140},
		{50 * time.Millisecond, 14 * time.Second, 20},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newStory(t)
			k := &slowSnapshots{engine: w.engine}
			w.tracker.opts.Processes = k
			for i := range 200 {
				id := fmt.Sprintf("c%03d", i)
				w.add(id)
				w.engine.slowInspect[id] = true
			}
			k.took = c.took
			began := time.Now()
			w.start()
			for last := 0; !w.tracker.Synced(); {
				time.Sleep(2 * time.Second)
				synctest.Wait()
				all, _ := w.tracker.Containers()
				if len(all) <= last && len(all) < 200 {
					t.Errorf("%d containers are shown, there were %d two seconds ago", len(all), last)
				}
				last = len(all)
			}
			if d := time.Since(began); d > c.read+2*time.Second || k.drawn > c.drawnAtMost {
				t.Errorf("%d pictures of %v in %v", k.drawn, c.took, d)
			}
			w.stop()
		})
	}
}

// TestFirstPicture: it waits for an inspect that hangs, but no longer than one
// call may take, and for one that fails a few times.
func TestFirstPicture(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func(e *engine)
		after time.Duration
	}{
		{"none", func(*engine) {}, 0},
		{"hangs", func(e *engine) { e.hungInspect["bad"] = true }, 10 * time.Second},
		{"fails", func(e *engine) { e.badInspect["bad"] = errors.New("internal error") }, 3375 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newStory(t)
			w.add("bad", "env=bad")
			w.add("good", "env=good")
			c.fault(w.engine)
			w.start()
			synctest.Wait()
			began := time.Now()
			for !w.tracker.Synced() && time.Since(began) < time.Minute {
				if all, err := w.tracker.Microservices(); err == nil || all["good"] == nil {
					t.Errorf("%s: before the picture is complete: %v, %v", c.name, all, err)
				}
				time.Sleep(25 * time.Millisecond)
				synctest.Wait()
			}
			if d := time.Since(began); d != c.after {
				t.Errorf("%s: known after %v, want %v", c.name, d, c.after)
			}
			if _, err := w.tracker.Microservices(); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			w.stop()
		})
	}
}
