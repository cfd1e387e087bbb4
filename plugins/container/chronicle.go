package container

import (
	"slices"
	"time"

	"github.com/plumb-net/plumb/plugins/container/lifecycle"
)

// Bounds of what is remembered of one container.
const (
	mostEvidence = 64
	mostKills    = 16
)

// chronicle is what was told of a container, and what it takes to tell on. It makes
// events out of what inspects, the kernel and hints say, each thing once and
// only forward in time. It does nothing else: no clock, no I/O.
type chronicle struct {
	// runs is how far the runs of the container are.
	runs lifecycle.Lifecycle
	account
	// told: Discovered or Created was. existed: it may be older than the
	// tracker. resumed: an earlier tracker told of it, and this one has not seen
	// it yet. followed: its runs were told up to the last one of then.
	told, existed     bool
	resumed, followed bool
	created           time.Time
	name, image       string
	// evidence not yet used, by time; all up to heard is used up.
	evidence []Hint
	heard    time.Time
	// buried is when another container of the same id had been removed.
	buried time.Time
	kills  []OOMKill
	// Kills that only one side told of so far: the runtime or the kernel.
	byRuntime, byKernel []time.Time
}

// account is what was told of the last run.
type account struct {
	// startHeard and deathHeard: the hint of it was used up.
	startHeard, deathHeard bool
	// untold: its end was no news. byEvent: it was told by the word of an event.
	// wrong: the engine tells otherwise.
	untold, byEvent, wrong bool
}

// horizon bounds what is told of a container that was there already; it is zero for
// one that is new.
type horizon struct {
	// listened is when somebody listened first: no hint tells what was before.
	listened time.Time
	// news is since when all that was told is known.
	news time.Time
}

// observe takes in what an inspect showed, which is not stale.
func (ch *chronicle) observe(c Container, netns uint64, h horizon) []Event {
	var out []Event
	a, resumed := c.answer(), ch.resumed
	ch.resumed = false
	if !ch.told {
		out = ch.firstSeen(c, netns, h)
	}
	switch {
	case !a.Ran() && ch.runs.Alive(): // all trace of its run is gone
		out = append(out, ch.replay(func(Hint) bool { return true })...)
		out = append(out, ch.lost(time.Time{})...)
	case a.Ran() && !ch.runs.Same(a):
		out = append(out, ch.replay(func(h Hint) bool { return h.At.Before(c.StartedAt) })...)
		out = append(out, ch.lost(c.StartedAt)...)
		if a.OverBefore(h.news) && !(resumed && ch.followed) { // and the first answer was older still
			ch.takeOver(c)
			break
		}
		out = append(out, ch.tellStart(Run{StartedAt: c.StartedAt, Pid: c.Pid, Netns: netns}, c.StartedAt)...)
		// No hint tells what was before anybody listened.
		ch.startHeard = c.StartedAt.Before(h.listened)
		ch.deathHeard = ch.startHeard && !c.Running && c.FinishedAt.Before(h.listened)
	}
	if c.Running {
		ch.runs.Identify(c.Pid, netns)
	}
	out = append(out, ch.confirm(c)...)
	if a.Ran() && !c.Running {
		ch.correct(c)
		x := c.exit()
		if !ch.runs.Alive() && ch.runs.Exit.Reason == OutOfMemory {
			x.Reason = OutOfMemory // what was told stays, though nobody else knows it
		}
		out = append(out, ch.end(x, c.FinishedAt)...)
		ch.byEvent = false
	}
	out = append(out, ch.describe(c)...)
	if resumed { // after what leads to how it is now
		out = append(out, ch.discovered(c))
	}
	return out
}

// discovered tells how a container is found.
func (ch *chronicle) discovered(c Container) Event {
	e := Event{Type: Discovered, State: c.State}
	switch {
	case ch.runs.Alive():
		e.Run = ch.runs.Run
	case ch.runs.Began():
		x := ch.runs.Exit
		x.StartedAt = ch.runs.Run.StartedAt
		e.Exit = &x
	}
	return e
}

// answer is what an inspect says of the last run.
func (c Container) answer() lifecycle.Answer {
	return lifecycle.Answer{Running: c.Running, Pid: c.Pid, StartedAt: c.StartedAt, FinishedAt: c.FinishedAt}
}

func (c Container) exit() Exit {
	return Exit{Code: c.ExitCode, Reason: c.Reason, FinishedAt: c.FinishedAt}
}

// firstSeen tells of a container for the first time.
func (ch *chronicle) firstSeen(c Container, netns uint64, h horizon) []Event {
	ch.created, ch.name, ch.image = c.CreatedAt, c.Name, c.Image
	said := slices.ContainsFunc(ch.evidence, func(h Hint) bool { return h.Says == Created })
	ch.told = true
	a := c.answer()
	var out []Event
	switch {
	case h.listened.IsZero() || said || !c.CreatedAt.IsZero() && !c.CreatedAt.Before(h.listened):
		return []Event{{Type: Created, At: c.CreatedAt}}
	case a.OverBefore(h.listened):
		out = ch.missed(c, h)
	case !a.Ran() || !c.StartedAt.Before(h.listened): // what comes is told as it came
	default:
		ch.begin(Run{StartedAt: c.StartedAt, Pid: c.Pid, Netns: netns})
		ch.startHeard = true // before anybody listened
	}
	return append(out, ch.discovered(c))
}

// missed tells of a run that was over before anybody listened, as far as it is news.
func (ch *chronicle) missed(c Container, h horizon) (out []Event) {
	if c.answer().OverBefore(h.news) {
		ch.takeOver(c)
		return nil
	}
	r := Run{StartedAt: c.StartedAt}
	if ch.begin(r); !c.StartedAt.Before(h.news) {
		out = append(out, Event{Type: Started, At: c.StartedAt, Run: r})
	}
	out = append(out, ch.end(c.exit(), c.FinishedAt)...)
	ch.startHeard, ch.deathHeard = true, true
	return out
}

// takeOver makes a run the present one of which nothing is told, as it is no news.
func (ch *chronicle) takeOver(c Container) {
	ch.begin(Run{StartedAt: c.StartedAt})
	ch.runs.RecordExit(c.exit())
	ch.startHeard, ch.deathHeard, ch.untold = true, true, true
}

// begin makes r the present run.
func (ch *chronicle) begin(r Run) {
	ch.runs.Begin(r)
	ch.account = account{}
}

// tellStart tells of a new run.
func (ch *chronicle) tellStart(r Run, at time.Time) []Event {
	ch.begin(r)
	return []Event{{Type: Started, At: at, Run: r}}
}

// sameMoment is how far the time of an end by its event may be from that which the
// engine has written down.
const sameMoment = 10 * time.Millisecond

// correct notes whether what was told of the end is not what the engine has written
// down. That it was noticed, or that an event came, may have been later; and what an
// event tells of a run whose shim was killed is only that. A start that failed, which
// has a reason, says nothing of the run before it.
func (ch *chronicle) correct(c Container) {
	if ch.runs.Alive() || !ch.runs.Began() {
		return
	}
	misdated := !c.FinishedAt.IsZero() && ch.runs.Exit.FinishedAt.Sub(c.FinishedAt).Abs() >= sameMoment
	code := ch.byEvent && c.ExitCode != UnknownExit && c.ExitCode != ch.runs.Exit.Code && c.Reason == ""
	ch.wrong = misdated || code
}

// end tells that the present run is over, or amends what was told of that.
func (ch *chronicle) end(x Exit, at time.Time) []Event {
	x = ch.explain(x)
	switch {
	case !ch.runs.Began():
		return nil
	case ch.runs.Alive():
		ch.runs.RecordExit(x)
		return []Event{ch.died(x, at, false)}
	}
	return ch.amend(x, at)
}

// amend tells more of an end, if there is more to tell.
func (ch *chronicle) amend(x Exit, at time.Time) []Event {
	known := ch.runs.Exit.Code == UnknownExit && x.Code != UnknownExit
	explained := ch.runs.Exit.Reason != OutOfMemory && x.Reason == OutOfMemory
	if !known && !explained && !ch.wrong {
		return nil
	}
	ch.wrong = false
	ch.runs.Amend(x)
	if ch.untold {
		return nil
	}
	return []Event{ch.died(x, at, true)}
}

func (ch *chronicle) died(x Exit, at time.Time, amends bool) Event {
	e := diedEvent(ch.runs.Run, x, at, amends)
	e.OOM = ch.bystander(x)
	return e
}

func diedEvent(r Run, x Exit, at time.Time, amends bool) Event {
	if x.Code > 128 && x.Code <= 128+64 {
		x.Signal = x.Code - 128
	}
	x.StartedAt = r.StartedAt
	return Event{Type: Died, At: at, Run: r, Exit: &x, Amends: amends}
}

// lost tells of an end of which only the kernel told, or nobody: it was before
// the time.
func (ch *chronicle) lost(before time.Time) []Event {
	if !ch.runs.Alive() {
		return nil
	}
	at := before
	if ch.runs.State == lifecycle.Ending {
		at = ch.runs.Noticed
	}
	return ch.end(Exit{Code: UnknownExit, Reason: ch.runs.Why, FinishedAt: at}, at)
}

// describe tells of what may change while a run lasts.
func (ch *chronicle) describe(c Container) []Event {
	var out []Event
	switch paused := c.State == "paused"; {
	case paused && ch.runs.State == lifecycle.Running:
		ch.runs.Pause()
		out = append(out, Event{Type: Paused, Run: ch.runs.Run})
	case !paused && ch.runs.State == lifecycle.Paused:
		ch.runs.Resume()
		out = append(out, Event{Type: Unpaused, Run: ch.runs.Run})
	}
	if c.Name != ch.name {
		out = append(out, Event{Type: Renamed, OldName: ch.name})
		ch.name = c.Name
	}
	if c.Image != ch.image {
		out = append(out, Event{Type: ImageChanged, OldImage: ch.image})
		ch.image = c.Image
	}
	return out
}

// giveUp tells of an end of which nothing more was learnt in time.
func (ch *chronicle) giveUp() []Event {
	if ch.runs.State != lifecycle.Ending {
		return nil
	}
	out := ch.replay(func(h Hint) bool { return ch.runs.State == lifecycle.Ending && (h.Says != Started || !ch.startHeard) })
	return append(out, ch.lost(time.Time{})...)
}

// gone takes in that the container was removed. When that was nobody knows of one
// that was not there any more when it was looked for first.
func (ch *chronicle) gone(at time.Time) []Event {
	if ch.resumed {
		at = time.Time{}
	}
	for _, h := range ch.evidence {
		if h.Says == Removed {
			at = h.At
		}
	}
	out := ch.replay(func(Hint) bool { return true })
	if !ch.told {
		return nil
	}
	ch.runs.End(at, "it was removed")
	out = append(out, ch.giveUp()...)
	return append(out, Event{Type: Removed, At: at})
}
