package container

import (
	"errors"
	"slices"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/container/lifecycle"
)

// view is whose word it is what is known of a container.
type view int

const (
	unseen    view = iota // no inspect succeeded yet
	inspected             // the runtime's
	vanished              // the runtime's, which says that it runs; the process is not there
	over                  // the kernel's: it ended, and no inspect has told more
)

// entry is what is known of one container.
type entry struct {
	id    string
	view  view
	last  Container
	label string
	// noLabel says why it has none though it bears one.
	noLabel string
	// addresses are those it had when it last ran.
	addresses []string
	// process is the container's process while it lives.
	process *processHandle

	chronicle chronicle // makes the events

	key string // <runtime>:<id>
	// shown is its value in the snapshot, until something is learnt.
	shown *models.Container

	// listed is how the last list showed it; unlisted, how many since did not.
	listed   Summary
	unlisted int
	// hinted: a hint came since the last list.
	hinted bool

	inspecting
}

// Words that a failing inspect must not hold up for ever.
const (
	// mostTries is how many failures in a row it takes until the word of the
	// list is enough for an end.
	mostTries = 3
	// exitGrace is how long a Died waits for an inspect to tell the exit code.
	exitGrace = 2 * time.Second
)

var (
	errStale    = errors.New("the runtime tells what was before")
	errVanished = errors.New("its process is not visible; does the agent run in the pid namespace of the host?")
)

// entry returns what is known of the container, at first nothing.
func (s *source) entry(id string) *entry {
	e := s.entries[id]
	if e == nil {
		e = &entry{id: id, chronicle: chronicle{existed: !s.wasKnown}}
		if old := s.removed.find(id); old != nil {
			// What is said of that one comes too late.
			e.chronicle.buried, e.chronicle.heard = old.at, old.at.Add(lateness)
		}
		if f := s.former[id]; f != nil {
			e.chronicle, e.last.Labels, e.label = f.chronicle, f.labels, f.label
			delete(s.former, id)
		}
		s.entries[id] = e
	}
	return e
}

// inspected takes in the outcome of an inspect.
func (s *source) inspected(e *entry, seen inspection, err error) {
	again := s.inspectDone(e)
	s.takeHints() // what led to what the inspect shows is told before it

	if s.entries[e.id] != e { // dropped meanwhile
		s.release(seen.process)
		return
	}
	switch {
	case errors.Is(err, ErrNotFound):
		s.drop(e)
		return
	case err == nil:
		err = s.settle(e, seen)
	}
	if err != nil {
		s.recordFailure(e, err)
	} else {
		s.recovered(e)
	}
	if again {
		s.want(e.id)
	}
}

// settle takes in an inspection. Its error means that the truth is not yet told.
func (s *source) settle(e *entry, seen inspection) error {
	// An answer from before the removal; but what is listed since is there.
	if e.listed.ID == "" && s.removed.has(e.id, seen.Container) {
		s.release(seen.process)
		return errStale
	}
	s.replaced(e, seen.Container)
	now := seen.run()
	lives := e.process != nil && e.process.run != now && e.process.Lives()
	seen.StartedAt = e.chronicle.runs.StartOf(seen.answer(), lives && now.pid == e.process.run.pid)
	if e.chronicle.resumed && seen.process != nil && e.chronicle.runs.Stale(seen.answer()) {
		e.chronicle = chronicle{existed: true} // it was taken for dead, and lives
	}
	if forgot := lives && !seen.answer().Ran(); forgot || e.chronicle.runs.Stale(seen.answer()) {
		s.release(seen.process)
		return errStale
	}
	if e.process != nil && e.process.run != now {
		s.release(e.process)
		e.process = nil
	}
	if seen.process != nil {
		e.process = seen.process
	}
	s.show(e, seen)
	first, h := e.chronicle.resumed || !e.chronicle.told, s.horizon(e)
	if first {
		s.past(e)
	}
	events := e.chronicle.observe(e.last, e.netns(), h)
	if first {
		foundLater(events, h.listened)
	}
	s.tell(e, events)
	switch {
	case e.process != nil && e.process.ended: // while the answer was on its way
		s.end(e, "its process ended")
		return errStale
	case e.view == vanished:
		return errVanished
	}
	return nil
}

// key names the container everywhere.
func (s *source) key(e *entry) string {
	if e.key == "" {
		e.key = s.rt.Name() + ":" + e.id
	}
	return e.key
}

// show puts an inspection into the snapshot.
func (s *source) show(e *entry, seen inspection) {
	e.shown = nil
	e.last = seen.Container
	e.last.Env = nil
	e.label, e.noLabel = serviceLabel(seen.Container, s.t.opts.LabelEnv, s.t.opts.LabelKey)
	if e.last.Running {
		e.addresses = e.last.Addresses
	}
	e.view = inspected
	if seen.vanished {
		e.view = vanished
	}
	s.t.changed = true
}

// replaced notes that another container bears the id now.
func (s *source) replaced(e *entry, c Container) {
	old := e.chronicle.created
	if !e.chronicle.told || old.IsZero() || c.CreatedAt.IsZero() || old.Equal(c.CreatedAt) {
		return
	}
	s.tell(e, e.chronicle.gone(time.Now()))
	e.chronicle, e.addresses = chronicle{}, nil
}

// horizon bounds what is told of the container. Where its own time is not known, it
// is new if it was not in the first lists.
func (s *source) horizon(e *entry) horizon {
	if s.removed.has(e.id, e.last) { // it was taken for removed
		at := s.removed.find(e.id).at
		return horizon{listened: at, news: at}
	}
	if e.last.CreatedAt.IsZero() && !e.chronicle.existed {
		return horizon{}
	}
	return horizon{listened: s.firstConnect, news: s.t.news}
}

func (e *entry) netns() uint64 {
	if e.process == nil {
		return 0
	}
	return e.process.Netns
}

// processEnded comes from the kernel, also when the runtime is silent.
func (s *source) processEnded(id string, h *processHandle) {
	h.ended = true
	if e := s.entries[id]; e != nil && e.process == h {
		s.end(e, "its process ended")
		s.takeHints()
		s.tellEnd(e)
		s.want(id)
	}
}

// tellEnd tells of an end that the kernel and a hint agree on. An inspect would
// have to wait until the runtime has cleared up behind the container.
func (s *source) tellEnd(e *entry) {
	if e.chronicle.endKnown() {
		s.tell(e, e.chronicle.giveUp())
	}
	s.showEnd(e)
}

// showEnd has the snapshot show what was told of an end while no inspect tells it.
func (s *source) showEnd(e *entry) {
	x := e.chronicle.runs.Exit
	if e.view != over || e.chronicle.runs.Alive() || !e.chronicle.runs.Same(e.last.answer()) || x.Code == UnknownExit || x.Code == e.last.ExitCode {
		return
	}
	e.last.ExitCode, e.last.Reason, e.last.FinishedAt = x.Code, x.Reason, x.FinishedAt
	e.shown, s.t.changed = nil, true
}

// end notes that a container's process is over, before its runtime tells more.
func (s *source) end(e *entry, why string) {
	s.release(e.process)
	e.process, e.shown = nil, nil
	e.view, s.timed[e] = over, true
	now := time.Now()
	e.chronicle.runs.End(now, why)
	e.last.State, e.last.Running, e.last.Pid = "exited", false, 0
	e.last.FinishedAt = now
	e.last.ExitCode, e.last.Reason = UnknownExit, why
	e.last.Addresses, e.last.Digest = nil, ""
	s.t.changed = true
}

// drop forgets a container that is gone.
func (s *source) drop(e *entry) {
	events := e.chronicle.gone(time.Now())
	if e.chronicle.resumed {
		foundLater(events, s.firstConnect)
	}
	s.tell(e, events)
	s.removed.add(e)
	s.forget(e)
}

// forget drops a container without a word about it.
func (s *source) forget(e *entry) {
	s.release(e.process)
	e.turn = idle
	s.aged = append(s.aged, e)
	delete(s.entries, e.id)
	delete(s.timed, e)
	delete(s.first, e.id)
	s.t.changed = true
}

// tell has events told once the snapshot shows what they say.
func (s *source) tell(e *entry, events []Event) {
	now := time.Now()
	for _, ev := range events {
		ev.Seen = now
		ev.Runtime, ev.ID = scope(s.rt.Name(), e.id)
		ev.Name, ev.Image = e.chronicle.name, e.chronicle.image
		ev.Labels, ev.Microservice = e.last.Labels, e.label
		if ev.At.IsZero() {
			ev.At = now
		}
		s.t.events = append(s.t.events, ev)
	}
}

// tellLate tells of ends of which no inspect told more in time.
func (s *source) tellLate(now time.Time) {
	for e := range s.timed {
		if at := e.lateAt(); !at.IsZero() && !now.Before(at) {
			s.tell(e, e.chronicle.giveUp())
			s.showEnd(e)
		}
	}
}

// lateAt is when the end of the container is told as it stands, zero if none is.
func (e *entry) lateAt() time.Time {
	if e.chronicle.runs.State != lifecycle.Ending {
		return time.Time{}
	}
	return e.chronicle.runs.Noticed.Add(exitGrace)
}

// reason is why the container's last run ended, as far as anybody knows.
func (e *entry) reason() string {
	if e.last.Reason == "" && !e.last.Running && !e.chronicle.runs.Alive() && e.chronicle.runs.Same(e.last.answer()) {
		return e.chronicle.runs.Exit.Reason
	}
	return e.last.Reason
}

// members are the containers that can be spoken of, and those of them that
// ended while nobody could say what came after.
func (s *source) members() (all, ended []*member) {
	sure := s.phase == known || s.phase == reading
	for _, e := range s.entries {
		if known := sure || e.process != nil || e.view == over; !known || e.view == unseen {
			continue
		}
		m := &member{key: s.key(e), former: e.shown, Container: e.last, label: e.label, barred: e.noLabel, netns: e.netns(), failure: e.err}
		m.runtime, m.ID = scope(s.rt.Name(), e.id)
		m.Reason = e.reason()
		if !m.Running {
			m.lastAddresses = e.addresses
		}
		if e.process == nil && e.view == vanished {
			m.trouble = errVanished.Error()
		}
		all = append(all, m)
		if e.view == over {
			ended = append(ended, m)
		}
	}
	return all, ended
}

// removed remembers containers that were removed, for what is said of them late.
type removed struct {
	byID  map[string]*removedEntry
	order []string
}

// removedEntry is a container that was removed.
type removedEntry struct {
	entry *entry
	at    time.Time
}

const maxRemoved = 1024

func (rs *removed) add(e *entry) {
	if rs.byID == nil {
		rs.byID = map[string]*removedEntry{}
	}
	if old := rs.byID[e.id]; old == nil {
		rs.order = append(rs.order, e.id)
	} else if e.view == unseen { // nothing more is known of it
		e.chronicle.created = old.entry.chronicle.created
	}
	rs.byID[e.id] = &removedEntry{entry: e, at: time.Now()}
	if len(rs.order) > maxRemoved {
		delete(rs.byID, rs.order[0])
		rs.order = slices.Clone(rs.order[1:])
	}
}

func (rs *removed) find(id string) *removedEntry { return rs.byID[id] }

// has reports whether the container is one that was removed: an answer from
// before.
func (rs *removed) has(id string, c Container) bool {
	t := rs.byID[id]
	return t != nil && !c.CreatedAt.IsZero() && t.entry.chronicle.created.Equal(c.CreatedAt)
}
