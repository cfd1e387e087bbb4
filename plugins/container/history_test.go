package container

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var histories = flag.Int("histories", 150, "how many random histories TestRandomHistory plays")

// TestRandomHistory has containers and their engine go through random lives and
// faults. When the faults are over and two relist periods have passed, the
// snapshot is the truth; and of each container a sound story was told.
func TestRandomHistory(t *testing.T) {
	for seed := range *histories {
		for kind := range 4 {
			lossy, restarts := kind&1 > 0, kind&2 > 0
			ok := t.Run(fmt.Sprintf("seed=%d,lossy=%v,restarts=%v", seed, lossy, restarts), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { playHistory(t, uint64(seed), lossy, restarts) })
			})
			if !ok {
				return
			}
		}
	}
}

// history is a runtime that changes at random, with a record of what really happened.
type history struct {
	*story
	t     *testing.T
	rand  *rand.Rand
	lossy bool // hints may be lost, doubled, late, and the engine away
	// restarts: the agent goes away and comes back.
	restarts bool
	forgot   bool // the engine did, a start
	ids      []string
	made     int
	truth    map[string]*biography
	log      []string
	// unnoticed are containers whose process ended behind the engine's back.
	unnoticed map[string]bool
	// began are when the trackers were made, listened when they did so first.
	began, listened []time.Time
}

// biography is what really happened to a container.
type biography struct {
	created time.Time
	before  bool // it was there before the tracker
	// restarted is when the second tracker began, zero if there was one.
	restarted time.Time
	runs      []realRun
	gone      bool
	// doubted: lists left it out while it could not be inspected, so that it
	// looked as if it were gone.
	doubted bool
}

type realRun struct {
	started, ended time.Time // ended as the engine has it
	dead           time.Time // when its process ended
	pid            int
	exit           int  // noExit while it runs
	before         bool // it began before the tracker could know of it
	over           bool // and ended before that
}

const noExit = -2

func playHistory(t *testing.T, seed uint64, lossy, restarts bool) {
	h := &history{
		story: newStory(t), t: t, rand: rand.New(rand.NewPCG(seed, 1)), lossy: lossy, restarts: restarts,
		truth: map[string]*biography{}, unnoticed: map[string]bool{},
	}
	defer func() {
		if t.Failed() {
			t.Log(strings.Join(h.log, "\n"))
		}
	}()
	h.engine.prompt = !lossy
	for range h.rand.IntN(6) {
		h.act()
	}
	time.Sleep(time.Second)
	maps.DeleteFunc(h.truth, func(id string, b *biography) bool {
		if b.gone {
			delete(h.engine.stale, id)
		}
		return b.gone
	})
	h.engine.slowList = h.rand.IntN(2) == 0
	h.begin()
	time.Sleep(time.Millisecond)
	for range 20 + h.rand.IntN(60) {
		if h.rand.IntN(3) == 0 {
			h.fault()
		}
		h.act()
		switch n := h.rand.IntN(16); {
		case n == 1 && h.restarts && h.rand.IntN(2) == 0:
			h.restart()
		case n == 0: // a few lists
			time.Sleep(time.Duration(h.rand.IntN(100)) * time.Second)
		case n > 3:
			time.Sleep(time.Duration(h.rand.IntN(1500)) * time.Millisecond)
		}
		if h.rand.IntN(2) == 0 {
			synctest.Wait()
		}
	}
	h.calm()
	time.Sleep(2 * 45 * time.Second)
	h.comparePicture()
	h.awaitRetries()
	synctest.Wait()
	h.comparePicture()
	h.compareErrors()
	h.end()
	h.splitBefore()
	h.compareEvents()
}

// begin starts the tracker, after what came before it.
func (h *history) begin() {
	h.began = append(h.began, time.Now())
	if err := h.renew(); err != nil {
		h.t.Fatal(err)
	}
	h.told = append(h.told, Event{Type: "agent_started", Seen: time.Now()})
	h.start()
	synctest.Wait()
}

// end stops the tracker, which lets go of everything.
func (h *history) end() {
	h.stop()
	h.listened = append(h.listened, h.tracker.sources[0].firstConnect)
	if h.engine.open != 0 {
		h.t.Errorf("%d processes are still held", h.engine.open)
	}
}

// restart has the agent go away and come back while things happen. One that is
// killed has not written what it told last: if the engine has forgotten a start,
// nobody knows it then.
func (h *history) restart() {
	h.end()
	if lost := h.rand.IntN(4); !h.forgot && h.rand.IntN(2) == 0 {
		for len(h.told) > 0 && lost > 0 && time.Since(h.told[len(h.told)-1].Seen) < lateness {
			h.told, lost = h.told[:len(h.told)-1], lost-1
		}
	}
	h.note("the agent is away")
	time.Sleep(time.Duration(h.rand.IntN(3)) * time.Second)
	for range h.rand.IntN(10) {
		h.act()
		time.Sleep(time.Duration(h.rand.IntN(1500)) * time.Millisecond)
	}
	h.engine.set(func() { h.engine.kept = nil }) // they were on their way to the one before
	h.note("the agent starts")
	h.begin()
}

// splitBefore notes what was before the tracker could know of it.
func (h *history) splitBefore() {
	for _, b := range h.truth {
		b.before = b.created.Before(h.listened[0])
		if len(h.began) > 1 {
			b.restarted = h.began[1]
		}
		for i := range b.runs {
			r := &b.runs[i]
			r.before = r.started.Before(h.listened[0])
			r.over = r.exit != noExit && r.ended.Before(h.began[0])
		}
	}
}

func (h *history) note(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf(format, args...))
}

func (h *history) pick() string { return h.ids[h.rand.IntN(len(h.ids))] }

// act has one thing happen to one container.
func (h *history) act() {
	if len(h.ids) == 0 || len(h.ids) < 8 && h.rand.IntN(4) == 0 {
		h.create()
		return
	}
	id := h.pick()
	c := h.engine.containers[id]
	if h.rand.IntN(5) == 0 {
		h.maybeStale(id)
	}
	switch n := h.rand.IntN(12); {
	case h.unnoticed[id]:
		h.note("notice %s", id)
		delete(h.unnoticed, id)
		h.exit(id, 137)
	case n < 4 && !c.Running:
		h.note("start %s", id)
		h.startOne(id)
	case n < 4:
		h.note("exit %s", id)
		h.exit(id, h.rand.IntN(3))
	case n < 5 && c.Running:
		h.note("restart %s", id)
		h.exit(id, 1)
		h.startOne(id)
	case n < 6 && !c.Running:
		h.note("flash %s", id)
		for range 1 + h.rand.IntN(3) {
			h.startOne(id)
			h.exit(id, h.rand.IntN(200))
		}
	case n < 7:
		h.note("rm %s", id)
		if c.Running {
			h.exit(id, 137)
		}
		h.engine.remove(id)
		h.truth[id].gone = true
		h.ids = slices.DeleteFunc(h.ids, func(o string) bool { return o == id })
	case n < 9:
		name := fmt.Sprintf("name%d", h.rand.IntN(4))
		h.note("rename %s %s", id, name)
		h.engine.change(id, func(c *Container) { c.Name = name })
	case n < 10 && c.Running:
		state := map[string]string{"running": "paused", "paused": "running"}[c.State]
		h.note("%s %s", state, id)
		h.engine.change(id, func(c *Container) { c.State = state })
	case n < 11 && c.Running:
		h.note("process of %s ends", id)
		h.unnoticed[id] = true
		h.truth[id].runs[len(h.truth[id].runs)-1].dead = time.Now()
		h.engine.mu.Lock()
		for _, f := range h.engine.end(c.Pid) {
			go f()
		}
		h.engine.mu.Unlock()
	}
}

func (h *history) create() {
	h.made++
	id := fmt.Sprintf("c%02d", h.made)
	h.note("create %s", id)
	h.engine.create(newContainer([]string{id, "env=" + fmt.Sprint("s", h.rand.IntN(3))}))
	h.ids = append(h.ids, id)
	h.truth[id] = &biography{created: h.engine.containers[id].CreatedAt}
}

func (h *history) startOne(id string) {
	h.engine.start(id)
	c := h.engine.containers[id]
	b := h.truth[id]
	b.runs = append(b.runs, realRun{started: c.StartedAt, pid: c.Pid, exit: noExit})
}

func (h *history) exit(id string, code int) {
	h.engine.set(func() {
		down, hung := h.engine.down, h.engine.hung
		h.engine.down, h.engine.hung = false, false // what the engine does while it cannot be reached
		h.engine.exitLocked(id, code)
		h.engine.down, h.engine.hung = down, hung
	})
	runs := h.truth[id].runs
	r := &runs[len(runs)-1]
	r.exit, r.ended = code, time.Now()
	if r.dead.IsZero() {
		r.dead = r.ended
	}
	delete(h.unnoticed, id)
}

// maybeStale has the next inspects answer what is so now.
func (h *history) maybeStale(id string) {
	n := 1 + h.rand.IntN(3)
	h.note("%d stale answers of %s", n, id)
	h.engine.set(func() { h.engine.stale[id] = slices.Repeat([]Container{*h.engine.containers[id]}, n) })
}

// fault begins or ends a fault.
func (h *history) fault() {
	e := h.engine
	id := "c01"
	if len(h.ids) > 0 {
		id = h.pick()
	}
	kinds := []string{"fails", "hangs", "slow", "works", "nolist", "slowlist", "unlisted", "lists", "hint", "forgets"}
	if h.lossy {
		kinds = append(kinds, "cut", "lost", "held", "back", "down", "hung", "up", "up")
	}
	kind := kinds[h.rand.IntN(len(kinds))]
	h.note("fault %s %s", kind, id)
	if kind == "forgets" {
		h.forget(id)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch kind {
	case "fails":
		e.badInspect[id] = errors.New("internal error")
	case "hangs":
		e.hungInspect[id] = true
	case "slow":
		e.slowInspect[id] = true
	case "works":
		clear(e.badInspect)
		clear(e.hungInspect)
		clear(e.slowInspect)
	case "nolist":
		e.listErr = errors.New("internal error")
	case "slowlist":
		e.slowList = true
	case "unlisted":
		e.unlisted[id] = true
	case "lists":
		e.listErr, e.slowList = nil, false
		clear(e.unlisted)
	case "hint":
		e.tell(Hint{ID: id})
	case "lost":
		e.mute = true
	case "held":
		e.keep = true
	case "back":
		e.mute = false
		h.releaseHeld()
	case "cut":
		h.cutLocked()
	case "down", "hung":
		e.down, e.hung = kind == "down", kind == "hung"
		h.cutLocked()
	case "up":
		e.down, e.hung = false, false
	}
	if b := h.truth[id]; b != nil && e.unlisted[id] && (e.badInspect[id] != nil || e.hungInspect[id]) {
		b.doubted = true
	}
}

// forget has the engine forget when a run began. What the tracker never knew of
// it, it cannot remember.
func (h *history) forget(id string) {
	known, _ := h.tracker.Container(id)
	if c := h.engine.containers[id]; c != nil && c.Running && known.GetPid() == uint32(c.Pid) && !h.unnoticed[id] {
		// A time that is later, of a run that ends before anybody looks, is that
		// of another run.
		says := []string{"none", "former"}[h.rand.IntN(2)]
		h.note("start of %s: %s", id, says)
		h.forgot = h.engine.forget(id, says) == nil
	}
}

func (h *history) releaseHeld() {
	e := h.engine
	e.keep = false
	h.rand.Shuffle(len(e.kept), func(i, j int) { e.kept[i], e.kept[j] = e.kept[j], e.kept[i] })
	for _, k := range e.kept {
		e.tell(k)
		e.tell(k)
	}
	e.kept = nil
}

func (h *history) cutLocked() {
	if h.engine.sub != nil {
		close(h.engine.sub.broken)
	}
	h.engine.sub = nil
}

// calm ends all faults.
func (h *history) calm() {
	for _, id := range slices.Sorted(maps.Keys(h.unnoticed)) {
		h.note("notice %s", id)
		h.exit(id, 137)
	}
	e := h.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.badInspect)
	clear(e.hungInspect)
	clear(e.slowInspect)
	clear(e.stale)
	clear(e.unlisted)
	e.listErr, e.slowList, e.mute, e.down, e.hung = nil, false, false, false, false
	h.releaseHeld()
}

// awaitRetries waits for what failed so often that it is not due yet; of that
// there must be an error to see.
func (h *history) awaitRetries() {
	for _, e := range h.tracker.Runtimes()[0].Errors {
		time.Sleep(time.Until(e.NextTry))
	}
}

// comparePicture holds the snapshot against the engine.
func (h *history) comparePicture() {
	found, err := h.tracker.Containers()
	if err != nil {
		h.t.Errorf("not known: %v", err)
	}
	line := func(name, state string, pid int, started string, exit int) string {
		return fmt.Sprintln(name, state, pid, started, exit)
	}
	got, want := map[string]string{}, map[string]string{}
	for id, c := range found {
		got[id] = line(c.Name, c.State, int(c.Pid), c.StartedAt, int(c.ExitCode))
	}
	for id, c := range h.engine.containers {
		b, key := h.truth[id], "docker:"+id
		started := timeText(c.StartedAt)
		if len(b.runs) > 0 { // the engine may have forgotten it
			real := timeText(b.runs[len(b.runs)-1].started)
			if !b.doubted || found[key].GetStartedAt() == real {
				started = real
			}
		}
		want[key] = line(c.Name, c.State, c.Pid, started, c.ExitCode)
	}
	for id := range want {
		if got[id] != want[id] {
			h.t.Errorf("%s is %q, known is %q", id, want[id], got[id])
		}
	}
	for id := range got {
		if want[id] == "" {
			h.t.Errorf("%s is gone, known is %q", id, got[id])
		}
	}
}

// compareErrors: nothing fails any more.
func (h *history) compareErrors() {
	found, _ := h.tracker.Containers()
	for id, c := range found {
		if c.Error != "" {
			h.t.Errorf("%s: %s", id, c.Error)
		}
	}
}

// compareEvents holds what was told of each container against what happened.
func (h *history) compareEvents() {
	told := map[string][]Event{}
	for _, e := range h.told {
		told[e.ID] = append(told[e.ID], e)
	}
	delete(told, "") // of the agent
	for _, id := range slices.Sorted(maps.Keys(h.truth)) {
		b := h.truth[id]
		if err := b.check(told[id], h.lossy || len(h.began) > 1); err != nil {
			h.t.Errorf("%s: %v; told was\n%s\nhappened %+v", id, err, eventText(told[id]), *b)
		}
		delete(told, id)
	}
	for id := range told {
		h.t.Errorf("events of %s, which never was", id)
	}
}

func eventText(all []Event) string {
	var out strings.Builder
	for _, e := range all {
		fmt.Fprintln(&out, e.Seen.Sub(epoch).Seconds(), e, e.Run.StartedAt.Sub(epoch).Nanoseconds())
	}
	return out.String()
}

// epoch is when the time in a bubble begins.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// check tells what is wrong with the events of a container. Of one that looked as
// if it were gone it may have been told that it is, if it was found again.
func (b *biography) check(events []Event, lossy bool) error {
	lossy = lossy || b.doubted
	s := storyOf{alive: -1}
	for i, e := range events {
		if err := b.step(&s, e, i == 0, lossy); err != nil {
			return fmt.Errorf("event %d (%v): %w", i, e, err)
		}
	}
	seen := len(events) > 0
	switch {
	case !seen && b.gone && (lossy || b.before):
		return nil // nobody could know
	case !seen:
		return errors.New("nothing was told")
	case seen && b.gone != s.removed:
		return fmt.Errorf("removed: %v, told: %v", b.gone, s.removed)
	}
	if lossy {
		return b.lastRun(&s)
	}
	for i, r := range b.runs {
		if !r.before && s.exits[i] == nil {
			return fmt.Errorf("run %d was not told", i)
		}
		if s.exits[i] != nil && *s.exits[i] != r.exit {
			return fmt.Errorf("run %d ended with %d, told was %d", i, r.exit, *s.exits[i])
		}
	}
	return nil
}

// storyOf is how far the story of a container is told.
type storyOf struct {
	exits   map[int]*int // of the runs that were told, how they ended
	alive   int          // the run that lives, -1: none
	last    int
	paused  bool
	removed bool
	again   bool // it was told to be removed, and is there
}

func (b *biography) step(s *storyOf, e Event, first, lossy bool) error {
	if s.exits == nil {
		s.exits, s.last = map[int]*int{}, -1
	}
	if s.removed && b.doubted && !e.Amends && (e.Type == Created || e.Type == Discovered || e.FoundLater) {
		first, s.removed, s.last, s.again = true, false, -1, true
	}
	again := !b.restarted.IsZero() && !e.Seen.Before(b.restarted)
	if again && e.Type == Discovered { // as each tracker finds it
		if e.Run == (Run{}) && s.alive >= 0 {
			return errors.New("a run lives")
		}
		if s.alive >= 0 && e.Run.StartedAt.Equal(b.runs[s.alive].started) {
			return nil
		}
	}
	if first != (e.Type == Created || e.Type == Discovered) && !again {
		return errors.New("Created or Discovered comes first, and once")
	}
	if s.removed && !e.Amends {
		return errors.New("it was removed")
	}
	switch e.Type {
	case Discovered:
		unseen := lossy && e.State == "" // by a hint alone
		if !b.before && !s.again && !unseen && !again {
			return errors.New("it is new")
		}
		if e.Run != (Run{}) {
			return b.begin(s, e, again)
		}
	case Created:
		if b.before {
			return errors.New("it was there before")
		}
	case Started:
		if s.alive >= 0 {
			return errors.New("a run lives")
		}
		return b.begin(s, e, again)
	case Died:
		if e.FoundLater && s.alive < 0 { // of its start nobody had told
			if err := b.begin(s, e, again); err != nil {
				return err
			}
		}
		return b.end(s, e, lossy)
	case Paused, Unpaused:
		if s.alive < 0 || s.paused == (e.Type == Paused) {
			return errors.New("out of turn")
		}
		s.paused = e.Type == Paused
	case Removed:
		if s.alive >= 0 {
			return errors.New("a run lives")
		}
		s.removed = true
	}
	return nil
}

// begin finds the run that the event is about. By a hint its time is a little
// later than by an inspect.
func (b *biography) begin(s *storyOf, e Event, again bool) error {
	i := slices.IndexFunc(b.runs, func(r realRun) bool {
		d := e.Run.StartedAt.Sub(r.started)
		return d == 0 || d == time.Nanosecond
	})
	switch {
	case i < 0:
		return errors.New("there was no such run")
	case i <= s.last:
		return fmt.Errorf("run %d comes after run %d", i, s.last)
	case e.Type == Started && b.runs[i].over:
		return fmt.Errorf("run %d was over before", i)
	case e.Type == Discovered && !b.runs[i].before && !s.again && !again:
		return fmt.Errorf("run %d is new", i)
	}
	code := noExit
	s.exits[i] = &code
	s.alive, s.last, s.paused = i, i, false
	return nil
}

func (b *biography) end(s *storyOf, e Event, lossy bool) error {
	if e.Amends {
		return b.amend(s, e, lossy)
	}
	switch {
	case s.alive < 0:
		return errors.New("no run lives")
	case s.last < 0:
		return errors.New("of which run?")
	case !b.mayEnd(s.last, e.Exit.Code, lossy):
		return fmt.Errorf("run %d ended with %d", s.last, b.runs[s.last].exit)
	case b.doubted && e.Run.Pid == 0: // nobody could know
	case b.runs[s.last].dead.IsZero() || b.runs[s.last].dead.After(e.Seen):
		return fmt.Errorf("run %d lives", s.last)
	}
	*s.exits[s.last] = e.Exit.Code
	s.alive = -1
	return nil
}

// amend is about a run that was told to be over, of which the code was unknown.
// Where hints are lost, that of another run may be taken for its.
func (b *biography) amend(s *storyOf, e Event, lossy bool) error {
	for i, r := range b.runs {
		d := e.Run.StartedAt.Sub(r.started)
		if x := s.exits[i]; x != nil && (d == 0 || d == time.Nanosecond) {
			dated := *x == e.Exit.Code && e.Exit.FinishedAt.Sub(r.ended).Abs() < sameMoment // by the engine's word
			if *x != UnknownExit && !dated || !b.mayEnd(i, e.Exit.Code, lossy) {
				return fmt.Errorf("run %d ended with %d, told was %d", i, r.exit, *x)
			}
			*x = e.Exit.Code
			return nil
		}
	}
	return errors.New("no such run was told")
}

// mayEnd reports whether a run may be told to have ended with a code. Where hints
// are lost, that of a later run may be taken for its, never that of one before.
func (b *biography) mayEnd(i, code int, lossy bool) bool {
	own := b.runs[i].exit
	return code == UnknownExit || code == own ||
		lossy && slices.ContainsFunc(b.runs[i+1:], func(r realRun) bool { return r.exit == code })
}

// lastRun holds the end of the story against the truth: whatever was lost, a
// container that is there ends up told as it is.
func (b *biography) lastRun(s *storyOf) error {
	if b.gone || len(b.runs) == 0 {
		return nil
	}
	i := len(b.runs) - 1
	r := b.runs[i]
	switch x := s.exits[i]; {
	case x == nil && (r.over || s.again && r.exit != noExit): // no news when it was found
	case x == nil:
		return errors.New("its last run was not told")
	case b.doubted && *x == UnknownExit: // told when it was taken for removed
	case r.exit != *x:
		return fmt.Errorf("its last run ended with %d, told was %d", r.exit, *x)
	}
	return nil
}
