package container

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/models"
)

// TestRelist: lists come by themselves, about every period, with jitter,
// and never before the last one has ended.
func TestRelist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &countingLists{engine: newEngine(), took: 3 * time.Second}
		var jitter atomic.Int64
		tracker, err := New(Options{Processes: e, Relist: 2 * time.Second, Spread: func() float64 {
			return float64(jitter.Add(1)%3) / 3
		}}, e)
		if err != nil {
			t.Fatal(err)
		}
		w := &story{engine: e.engine, tracker: tracker}
		w.start()
		time.Sleep(time.Minute)
		w.stop()
		if e.most != 1 {
			t.Errorf("%d lists at once", e.most)
		}
		if n := len(e.began); n < 9 || n > 18 {
			t.Errorf("%d lists in a minute", n)
		}
		gaps := map[time.Duration]bool{}
		for i := range len(e.began) - 1 {
			gap := e.began[i+1].Sub(e.began[i]) - e.took
			gaps[gap] = true
			if gap < time.Second || gap > 3*time.Second {
				t.Errorf("%v between the end of a list and the next one", gap)
			}
		}
		if len(gaps) < 2 {
			t.Error("no jitter")
		}
	})
}

// countingLists is an engine whose lists take a while.
type countingLists struct {
	*engine
	took      time.Duration
	mu        sync.Mutex
	now, most int
	began     []time.Time
}

func (e *countingLists) List(ctx context.Context) ([]Summary, error) {
	e.mu.Lock()
	e.now++
	e.most = max(e.most, e.now)
	e.began = append(e.began, time.Now())
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.now--
	}()
	pause(ctx, e.took)
	return e.engine.List(ctx)
}

// TestSparedInspects: lists of what did not change cost no inspects, and
// what changed one.
func TestSparedInspects(t *testing.T) {
	inBubble(t, func(t *testing.T, w *story) {
		for i := range 100 {
			id := fmt.Sprintf("c%03d", i)
			w.add(id)
			if i%3 == 0 {
				w.engine.kill(id)
			}
		}
		time.Sleep(2 * time.Minute)
		count := func() (n int) {
			w.engine.set(func() {
				for _, k := range w.engine.inspects {
					n += k
				}
			})
			return n
		}
		before, lists := count(), w.tracker.Runtimes()[0].Lists
		time.Sleep(10 * time.Minute)
		if n := w.tracker.Runtimes()[0].Lists - lists; n < 10 {
			t.Fatalf("%d lists in ten minutes", n)
		}
		if n := count() - before; n != 0 {
			t.Errorf("%d inspects in ten minutes of peace", n)
		}
		w.engine.set(func() { w.engine.mute = true })
		w.engine.kill("c001")
		time.Sleep(5 * time.Minute)
		if n := count() - before; n < 1 || n > 2 {
			t.Errorf("%d inspects for one change", n)
		}
	})
}

// TestCacheBeforeEvent: who reads when told of an event sees that state or
// a later one.
func TestCacheBeforeEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &story{engine: newEngine()}
		told := 0
		check := func(e Event) {
			c, err := w.tracker.Container(e.ID)
			told++
			switch e.Type {
			case Removed:
				if !errors.Is(err, ErrNotFound) {
					t.Errorf("%v, but it is there: %v", e, c)
				}
			case Started:
				if e.Run.Pid != 0 && c.GetState() != "running" {
					t.Errorf("%v, but it is %v (%v)", e, c, err)
				}
			case Died:
				if c.GetState() != "exited" || int(c.GetExitCode()) != e.Exit.Code {
					t.Errorf("%v, but it is %v (%v)", e, c, err)
				}
			case Renamed:
				if c.GetName() != e.Name {
					t.Errorf("%v, but it is %v (%v)", e, c, err)
				}
			}
		}
		var err error
		if w.tracker, err = New(Options{Processes: w.engine, Observer: check}, w.engine); err != nil {
			t.Fatal(err)
		}
		w.start()
		synctest.Wait()
		for range 10 {
			w.add("web")
			synctest.Wait()
			w.engine.change("web", func(c *Container) { c.Name = "front" })
			synctest.Wait()
			w.engine.exit("web", 3)
			synctest.Wait()
			w.engine.remove("web")
			synctest.Wait()
		}
		w.stop()
		if told != 50 {
			t.Errorf("%d events, want 50", told)
		}
	})
}

// TestSince: a read that wants news waits for an inspect that began after
// the time, and no longer than its context.
func TestSince(t *testing.T) {
	inBubble(t, func(t *testing.T, w *story) {
		w.add("web")
		synctest.Wait()
		w.engine.set(func() { w.engine.mute = true })
		time.Sleep(time.Second)
		w.engine.exit("web", 5)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		c, err := w.tracker.Since(ctx, "web", time.Now())
		if err != nil || c.GetExitCode() != 5 {
			t.Errorf("%v, %v", c, err)
		}
		// What is new enough costs no question.
		synctest.Wait()
		n := w.engine.seen("web")
		if _, err := w.tracker.Since(ctx, "web", time.Now().Add(-time.Millisecond)); err != nil || w.engine.seen("web") != n {
			t.Errorf("asked again: %v", err)
		}
		// Unknown ones are looked for by a list: there, and not there.
		time.Sleep(time.Second)
		w.add("new")
		if c, err := w.tracker.Since(ctx, "new", time.Now()); err != nil || c.GetState() != "running" {
			t.Errorf("new: %v, %v", c, err)
		}
		time.Sleep(time.Second)
		if c, err := w.tracker.Since(ctx, "nobody", time.Now()); err != nil || c != nil {
			t.Errorf("nobody: %v, %v", c, err)
		}
		w.engine.remove("new")
		if c, err := w.tracker.Since(ctx, "new", time.Now().Add(time.Nanosecond)); err == nil && c != nil {
			t.Errorf("removed: %v, %v", c, err)
		}
		// An engine that hangs holds up nobody for longer than wanted.
		w.engine.set(func() { w.engine.hung = true })
		began := time.Now()
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.tracker.Since(ctx, "web", time.Now().Add(time.Second)); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		w.engine.set(func() { w.engine.hung = false })
	})
}

// TestCoalesced: a burst of hints is one inspect or two, and is counted.
func TestCoalesced(t *testing.T) {
	inBubble(t, func(t *testing.T, w *story) {
		w.engine.set(func() { w.engine.slowInspect["web"] = true })
		w.add("web")
		synctest.Wait()
		for range 5000 {
			w.engine.set(func() { w.engine.tell(Hint{ID: "web"}) })
		}
		time.Sleep(10 * time.Second)
		if n := w.engine.seen("web"); n > 4 {
			t.Errorf("%d inspects", n)
		}
		if h := w.tracker.Runtimes()[0]; h.Hints != 5002 || h.Coalesced < 4000 {
			t.Errorf("%d hints, %d of them coalesced", h.Hints, h.Coalesced)
		}
	})
}

// TestHealth: each thing that stands against relying on a runtime is a
// reason of its own.
func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStory(t)
		reasons := func() string {
			synctest.Wait()
			return strings.Join(w.tracker.Runtimes()[0].Unready(time.Now(), 3*time.Minute), "; ")
		}
		expect := func(when, want string) {
			t.Helper()
			if got := reasons(); got != want {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
		}
		expect("before", "was never read: was not reached yet")
		w.engine.down = true
		w.start()
		expect("down", "was never read: does not answer: connection refused")
		w.engine.set(func() { w.engine.down = false })
		time.Sleep(10 * time.Second)
		expect("up", "")
		w.engine.set(func() { w.engine.badInspect["web"] = errors.New("internal error") })
		w.add("web")
		expect("an inspect fails", "1 containers cannot be inspected, one of them web: internal error")
		w.engine.set(func() { delete(w.engine.badInspect, "web"); w.engine.listErr = errors.New("disk") })
		time.Sleep(2 * time.Minute)
		expect("lists fail", "does not answer: list: disk")
		time.Sleep(2 * time.Minute)
		if got := reasons(); !strings.HasPrefix(got, "does not answer: list: disk; the last list is 4m") {
			t.Errorf("lists fail for long: %q", got)
		}
		w.engine.set(func() { w.engine.listErr = nil })
		time.Sleep(time.Minute)
		expect("lists again", "")
		w.engine.set(func() { w.engine.noStream = true })
		w.engine.cut()
		expect("no stream", "there is no stream of events")
		h := w.tracker.Runtimes()[0]
		if h.Relists["connected"] != 1 || h.Relists["period"] == 0 || h.Relists["failed"] == 0 || h.ListFails == 0 || h.InspectFails == 0 {
			t.Errorf("%+v", h)
		}
		w.stop()
	})
}

// TestWaitFor: who waits for a condition is woken by it, and told at once
// if it holds.
func TestWaitFor(t *testing.T) {
	inBubble(t, func(t *testing.T, w *story) {
		running := func(c *models.Container) bool { return c.GetState() == "running" }
		gone := func(c *models.Container) bool { return c == nil }
		if c, err := w.tracker.WaitFor(t.Context(), "web", gone); err != nil || c != nil {
			t.Errorf("%v, %v", c, err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := w.tracker.WaitFor(t.Context(), "web", running)
			done <- err
		}()
		synctest.Wait()
		w.engine.create(newContainer([]string{"web"}))
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("it came back before the container ran")
		default:
		}
		w.engine.start("web")
		if err := <-done; err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.tracker.WaitFor(ctx, "web", gone); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		// While it cannot be told, nothing is said to be gone.
		w.engine.set(func() { w.engine.down = true })
		w.engine.cut()
		time.Sleep(time.Second)
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.tracker.WaitFor(ctx, "nobody", gone); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// TestWaitSynced: the wait for the first snapshot ends with it, or with its
// context.
func TestWaitSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStory(t)
		w.engine.down = true
		w.start()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.tracker.WaitSynced(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		w.engine.set(func() { w.engine.down = false })
		if err := w.tracker.WaitSynced(t.Context()); err != nil || !w.tracker.Synced() {
			t.Error(err)
		}
		w.stop()
	})
}

// TestNames: a name leads to who bears it now, whatever was renamed,
// removed or named again, in whatever order it became known.
func TestNames(t *testing.T) {
	inBubble(t, func(t *testing.T, w *story) {
		expect := func(word, want string) {
			t.Helper()
			synctest.Wait()
			c, err := w.tracker.Container(word)
			if c.GetContainerId() != want || (want == "") != errors.Is(err, ErrNotFound) {
				t.Errorf("%s is %q (%v), want %q", word, c.GetContainerId(), err, want)
			}
		}
		rename := func(id, name string) { w.engine.change(id, func(c *Container) { c.Name = name }) }
		w.add("one")
		rename("one", "web")
		expect("web", "one")
		expect("docker:web", "one")
		// Another one takes the name, and the old one goes only then.
		w.add("two")
		rename("one", "old")
		rename("two", "web")
		expect("web", "two")
		w.engine.remove("one")
		expect("web", "two")
		expect("old", "")
		// Names are swapped while one answer hangs.
		w.add("three")
		rename("three", "db")
		expect("db", "three")
		w.engine.set(func() { w.engine.slowInspect["two"] = true })
		rename("two", "tmp")
		rename("three", "web")
		rename("two", "db")
		time.Sleep(5 * time.Second)
		expect("web", "three")
		expect("db", "two")
		expect("tmp", "")
	})
}

// TestPrefix: the beginning of an id is enough if no other begins so.
func TestPrefix(t *testing.T) {
	inBubble(t, func(t *testing.T, w *story) {
		w.add("abc123")
		w.add("abd456")
		w.add("ab") // exact goes before beginning
		synctest.Wait()
		for word, want := range map[string]string{
			"abc": "abc123", "abd456": "abd456", "docker:abc": "abc123", "ab": "ab", "docker:ab": "ab",
		} {
			if c, err := w.tracker.Container(word); c.GetContainerId() != want {
				t.Errorf("%s: %v, %v", word, c, err)
			}
		}
		w.engine.remove("ab")
		synctest.Wait()
		if _, err := w.tracker.Container("ab"); !errors.Is(err, ErrAmbiguous) {
			t.Errorf("ab: %v", err)
		}
		for _, word := range []string{"", "x", "docker:", "dock"} {
			if _, err := w.tracker.Container(word); err == nil {
				t.Errorf("%q was found", word)
			}
		}
		all, err := w.tracker.Labelled("plumb.microservice", "")
		if err != nil || len(all) != 0 {
			t.Errorf("%v, %v", all, err)
		}
		w.add("x", "label=web")
		synctest.Wait()
		if all, err := w.tracker.Labelled("plumb.microservice", "web"); err != nil || len(all) != 1 {
			t.Errorf("%v, %v", all, err)
		}
	})
}

// TestPartialAnswers: what fails for one is told of that one, and what
// takes long is measured.
func TestPartialAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &countingLists{engine: newEngine(), took: 3 * time.Second}
		tracker, err := New(Options{Processes: e}, e)
		if err != nil {
			t.Fatal(err)
		}
		w := &story{engine: e.engine, tracker: tracker}
		for i := range 10 {
			w.add(fmt.Sprint("c", i))
		}
		e.badInspect["c3"] = errors.New("internal error")
		w.start()
		time.Sleep(time.Minute)
		all, err := tracker.Containers()
		if err != nil || len(all) != 9 {
			t.Errorf("%d containers, %v", len(all), err)
		}
		h := tracker.Runtimes()[0]
		if h.InError != 1 || h.Errors[0].ID != "c3" || h.SlowLists == 0 || h.ListTook != e.took {
			t.Errorf("%+v", h)
		}
		w.stop()
	})
}

// TestStopEndsAll: whatever hangs, the tracker ends at once, and leaves nothing.
func TestStopEndsAll(t *testing.T) {
	before := runtime.NumGoroutine()
	synctest.Test(t, func(t *testing.T) {
		for _, fault := range []func(e *engine){
			func(*engine) {},
			func(e *engine) { e.hung = true },
			func(e *engine) { e.hungInspect["web"] = true },
			func(e *engine) { e.slowList = true },
			func(e *engine) { e.down = true },
		} {
			w := newStory(t)
			w.add("web", "env=web")
			w.start()
			synctest.Wait()
			w.engine.set(func() { fault(w.engine) })
			w.engine.set(func() { w.engine.says("", "web", 0) })
			time.Sleep(time.Second)
			began := time.Now()
			w.stop()
			w.stop()
			if d := time.Since(began); d > 2*time.Second {
				t.Errorf("it took %v", d)
			}
			if w.engine.open != 0 {
				t.Errorf("%d processes are still held", w.engine.open)
			}
		}
	})
	// The goroutine of the bubble ends after Test has returned.
	for i := 0; i < 5000 && runtime.NumGoroutine() > before; i++ {
		time.Sleep(time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines, there were %d", n, before)
	}
}

// TestOrder: what happens to one container is told in its order, also
// while inspects of it and of others fail and hang.
func TestOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, w *story) {
		w.engine.set(func() {
			w.engine.badInspect["bad"] = errors.New("internal error")
			w.engine.hungInspect["hung"] = true
		})
		for _, id := range []string{"bad", "hung", "good"} {
			w.add(id)
			for code := range 3 {
				synctest.Wait()
				w.engine.exit(id, code)
				synctest.Wait()
				w.engine.start(id)
			}
		}
		synctest.Wait()
		if c, err := w.tracker.Container("good"); c.GetState() != "running" {
			t.Fatalf("good: %v, %v", c, err)
		}
		w.engine.set(func() { clear(w.engine.badInspect); clear(w.engine.hungInspect) })
		time.Sleep(2 * time.Minute)
		told := map[string]string{}
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, e := range w.events {
			told[e.ID] += string(e.Type)
			if e.Exit != nil {
				told[e.ID] += fmt.Sprint(e.Exit.Code)
			}
			told[e.ID] += " "
		}
		for id, got := range told {
			if want := "created started died0 started died1 started died2 started "; got != want {
				t.Errorf("%s: %s", id, got)
			}
		}
	})
}

// TestChangedMeanwhile: what changes while an inspect is under way is seen
// after it, without waiting for a list.
func TestChangedMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T, w *story) {
		w.add("web")
		synctest.Wait()
		w.engine.set(func() { w.engine.slowInspect["web"] = true })
		for _, name := range []string{"a", "b", "c"} {
			w.engine.change("web", func(c *Container) { c.Name = name })
			synctest.Wait()
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if c, err := w.tracker.Container("web"); c.GetName() != "c" {
			t.Errorf("%v, %v", c, err)
		}
	})
}

// TestBackoff: a container whose inspects fail is tried after 1, 2, 4 …
// 300 s, whatever lists come that show it as it is known; that shows, others do
// not notice, success ends it.
func TestBackoff(t *testing.T) {
	inBubble(t, func(t *testing.T, w *story) {
		w.engine.create(newContainer([]string{"bad"}))
		synctest.Wait()
		w.engine.set(func() { w.engine.badInspect["bad"] = errors.New("internal error") })
		w.engine.change("bad", func(*Container) {})
		synctest.Wait()
		want := []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300}
		for i, seconds := range want {
			e := w.tracker.Runtimes()[0].Errors
			wait := time.Duration(seconds) * time.Second * 9 / 8 // by half the jitter
			if len(e) != 1 || e[0].Attempts != i+1 || time.Until(e[0].NextTry) != wait {
				t.Fatalf("failure %d: %+v, want the next try in %v", i+1, e, wait)
			}
			time.Sleep(time.Until(e[0].NextTry))
			synctest.Wait()
		}
		w.add("good")
		synctest.Wait()
		if c, _ := w.tracker.Container("good"); c == nil {
			t.Error("another container was not seen at once")
		}
		w.engine.set(func() { clear(w.engine.badInspect) })
		time.Sleep(6 * time.Minute)
		if h := w.tracker.Runtimes()[0]; h.InError != 0 {
			t.Errorf("%+v", h.Errors)
		}
		if c, _ := w.tracker.Container("bad"); c.GetError() != "" || c.GetState() != "created" {
			t.Errorf("%v", c)
		}
	})
}

// TestDeadline: an inspect that hangs ends after its deadline and counts
// as failed.
func TestDeadline(t *testing.T) {
	inBubble(t, func(t *testing.T, w *story) {
		w.engine.set(func() { w.engine.hungInspect["hung"] = true })
		w.add("hung")
		time.Sleep(9 * time.Second)
		if h := w.tracker.Runtimes()[0]; h.InError != 0 {
			t.Errorf("after 9 s: %+v", h.Errors)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if h := w.tracker.Runtimes()[0]; h.InError != 1 || !strings.Contains(h.Errors[0].Error, "deadline") {
			t.Errorf("after 10 s: %+v", h.Errors)
		}
	})
}

// TestForward: whatever an engine answers late, no run that was told to be
// over comes back, and the first word about an end stays.
func TestForward(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	running := Container{ID: "x", State: "running", Running: true, Pid: 7, CreatedAt: start, StartedAt: at(1)}
	exited := Container{ID: "x", State: "exited", CreatedAt: start, StartedAt: at(1), FinishedAt: at(2), ExitCode: 3}
	again := Container{ID: "x", State: "running", Running: true, Pid: 8, CreatedAt: start, StartedAt: at(0)} // the clock went back
	var ch chronicle
	told := func(c Container) string {
		var out []string
		if ch.runs.Stale(c.answer()) {
			return "stale"
		}
		for _, e := range ch.observe(c, 1, horizon{}) {
			out = append(out, string(e.Type))
		}
		return strings.Join(out, " ")
	}
	changed := exited
	changed.ExitCode = 4
	for i, step := range []struct {
		c    Container
		want string
	}{
		{running, "created started"}, {running, ""}, {exited, "died"}, {running, "stale"}, {exited, ""}, {changed, ""},
		{again, "started"}, {exited, "stale"}, {running, "stale"}, {again, ""},
	} {
		if got := told(step.c); got != step.want {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
}

// TestRunningHasNoEnd: a runtime that still tells when the last run ended, as Docker does, and
// then calls its exit code 0, does not make that the exit code of a container that runs.
func TestRunningHasNoEnd(t *testing.T) {
	start := time.Unix(1000, 0)
	c := Container{ID: "x", State: "running", Running: true, Pid: 7, StartedAt: start, FinishedAt: start.Add(-time.Second)}
	if told := (&member{Container: c}).container(""); told.FinishedAt != "" || told.ExitCode != 0 {
		t.Errorf("running: finished %q, exit code %d", told.FinishedAt, told.ExitCode)
	}
	c.State, c.Running, c.Pid, c.FinishedAt, c.ExitCode = "exited", false, 0, start.Add(time.Second), 137
	if told := (&member{Container: c}).container(""); told.FinishedAt == "" || told.ExitCode != 137 {
		t.Errorf("exited: finished %q, exit code %d", told.FinishedAt, told.ExitCode)
	}
}
