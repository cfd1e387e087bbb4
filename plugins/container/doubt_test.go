package container

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Of what a runtime in trouble leaves in doubt.

// TestKnownToBeWrong: of what a list shows to be wrong, because it was never
// read, began anew or ended, the error may be as old as it will: once inspects work, two
// lists later it is known.
func TestKnownToBeWrong(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(w *story) // while inspects work
		behind func(w *story) // while they fail, and no hint comes
	}{
		{"never read", func(w *story) {}, func(w *story) { w.add("web") }},
		{"ran again", func(w *story) { w.add("web"); w.engine.exit("web", 3) }, func(w *story) {
			w.engine.start("web")
			w.engine.exit("web", 3)
		}},
		{"ended, nobody knows how", func(w *story) { w.add("web") }, func(w *story) {
			process := w.engine.processes[101]
			delete(w.engine.processes, 101)
			w.engine.exit("web", 3)
			time.Sleep(time.Second)
			process.ended[0]() // the kernel is the last to tell
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *story) {
				c.before(w)
				time.Sleep(time.Minute)
				w.engine.set(func() {
					w.engine.badInspect["web"] = errors.New("internal error")
					w.engine.mute = true
				})
				c.behind(w)
				time.Sleep(11 * time.Minute)
				w.engine.set(func() { clear(w.engine.badInspect) })
				time.Sleep(2 * 45 * time.Second)
				is, _ := w.engine.Inspect(t.Context(), "web")
				known, err := w.tracker.Container("web")
				if known.GetStartedAt() != timeText(is.StartedAt) || int(known.GetExitCode()) != is.ExitCode || known.GetError() != "" {
					t.Errorf("known is %v (%v), it is %+v", known, err, is)
				}
			})
		})
	}
}

// leftOut has lists leave out a container and its inspects fail for two minutes.
func (w *story) leftOut(id string) {
	w.engine.set(func() {
		w.engine.badInspect[id] = errors.New("internal error")
		w.engine.unlisted[id] = true
	})
	time.Sleep(2 * time.Minute)
}

// TestLeftOutAlive: a container whose process lives is there, also when lists
// leave it out and no inspect of it succeeds.
func TestLeftOutAlive(t *testing.T) {
	inBubble(t, func(t *testing.T, w *story) {
		w.add("web", "env=web")
		synctest.Wait()
		w.takeEvents()
		w.leftOut("web")
		if all, err := w.tracker.Microservices(); all["web"].GetPid() != 101 || err != nil {
			t.Errorf("the service is %v (%v)", all["web"], err)
		}
		if told := w.takeEvents(); told != "" {
			t.Errorf("told was %s", told)
		}
		w.engine.set(func() { w.engine.end(101)[0]() })
		w.leftOut("web")
		if all, _ := w.tracker.Containers(); len(all) > 0 {
			t.Errorf("its process has ended; known is %v", all)
		}
	})
}

// TestFoundAgain: one that does not run is taken for removed then. If it was
// not, it is discovered: it is no new container, and its past is no news.
func TestFoundAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *story) {
		w.add("web")
		w.engine.exit("web", 3)
		time.Sleep(time.Second)
		w.takeEvents()
		w.leftOut("web")
		w.engine.set(func() {
			clear(w.engine.badInspect)
			clear(w.engine.unlisted)
		})
		time.Sleep(time.Minute)
		w.engine.start("web")
		synctest.Wait()
		var types []string
		for line := range strings.Lines(w.takeEvents()) {
			types = append(types, strings.Fields(line)[0])
		}
		if got := strings.Join(types, " "); got != "removed discovered started" {
			t.Errorf("told was %s", got)
		}
	})
}

// TestOldAnswer: the first inspect tells of a time before the container's run,
// which was over before the tracker came. That run is no news.
func TestOldAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStory(t)
		w.engine.create(newContainer([]string{"web"}))
		old := *w.engine.containers["web"]
		w.engine.start("web")
		w.engine.exit("web", 3)
		time.Sleep(time.Second)
		w.engine.stale["web"] = []Container{old}
		w.start()
		time.Sleep(2 * time.Minute)
		w.stop()
		if told := w.takeEvents(); told != "discovered docker:web created\n" {
			t.Errorf("told was %s", told)
		}
	})
}

// TestToldAndShown: where a list tells that a container ended and a hint how,
// while no inspect of it succeeds, the snapshot shows what the events tell.
func TestToldAndShown(t *testing.T) {
	inBubble(t, func(t *testing.T, w *story) {
		w.engine.create(newContainer([]string{"web"}))
		synctest.Wait()
		w.engine.set(func() {
			w.engine.startLocked("web")
			w.engine.end(101) // and nobody noticed
		})
		time.Sleep(10 * time.Second)
		w.engine.set(func() { w.engine.badInspect["web"] = errors.New("internal error") })
		w.engine.exit("web", 137)
		time.Sleep(2 * time.Minute)
		if told := w.takeEvents(); !strings.Contains(told, "exit=137") {
			t.Errorf("told was %s", told)
		}
		if c, err := w.tracker.Container("web"); c.GetState() != "exited" || c.GetExitCode() != 137 {
			t.Errorf("known is %v (%v)", c, err)
		}
	})
}
