package container

import (
	"cmp"
	"slices"
	"time"
)

// Bounds of what is remembered of one container.
const (
	mostEvidence = 64
	mostPast     = 16
	mostKills    = 16
)

// life is what was told of a container, and what it takes to tell on. It makes
// events out of what inspects, the kernel and hints say, each thing once and
// only forward in time. It does nothing else: no clock, no I/O.
type life struct {
	// told: Discovered or Created was. existed: it may be older than the
	// tracker. resumed: an earlier tracker told of it, and this one has not seen
	// it yet. followed: its runs were told up to the last one of then.
	told, existed     bool
	resumed, followed bool
	created           time.Time
	name, image       string
	// run is the last run, if one began.
	began bool
	run   Run
	// dated is when the runtime says by now that the run began, if it forgot.
	dated  time.Time
	alive  bool // its Died was not told
	paused bool
	// startHeard and deathHeard: the hint of it was used up.
	startHeard, deathHeard bool
	// over is set when the run is known to have ended, but not yet how.
	over *ending
	// noticed is when that was.
	noticed time.Time
	// exit is how the last run ended, once Died was told; before is the run
	// before it, with its end.
	exit Exit
	// untold: that was no news. byEvent: it was told by the word of an event.
	// wrong: the engine tells otherwise.
	untold, byEvent, wrong bool
	before                 struct {
		run  Run
		exit Exit
	}
	// past are runs that have ended, the oldest first.
	past []Run
	// evidence not yet used, by time; all up to heard is used up.
	evidence []Hint
	heard    time.Time
	// buried is when another container of the same id had been removed.
	buried time.Time
	kills  []OOMKill
	// Kills that only one side told of so far: the runtime or the kernel.
	byRuntime, byKernel []time.Time
}

// ending is an end whose exit code is not known yet.
type ending struct {
	at  time.Time
	why string
}

// hint takes in what an event of the runtime told.
func (l *life) hint(h Hint) {
	if h.Says == Created && !l.buried.IsZero() && h.At.After(l.buried) {
		l.heard, l.buried = l.buried, time.Time{} // from here on it is about this one
	}
	if h.Says == "" || h.At.IsZero() || !h.At.After(l.heard) {
		return
	}
	same := func(o Hint) bool { return o.Says == h.Says && o.At.Equal(h.At) }
	if slices.ContainsFunc(l.evidence, same) {
		return
	}
	l.evidence = append(l.evidence, h)
	slices.SortStableFunc(l.evidence, func(a, b Hint) int { return a.At.Compare(b.At) })
	if len(l.evidence) > mostEvidence {
		l.evidence = l.evidence[1:]
	}
}

// lateness is how far the time of an end that was noticed may be from that
// which its hint tells.
const lateness = time.Second

// late amends what was told of an end of which the hint comes only now: the
// inspect that showed what came after was quicker.
func (l *life) late(h Hint) []Event {
	if h.Says != Died || h.At.IsZero() || h.Exit == UnknownExit {
		return nil
	}
	fits := func(r Run, x Exit) bool {
		return x.Code == UnknownExit && !h.At.Before(r.StartedAt) && h.At.Sub(x.FinishedAt).Abs() < lateness
	}
	switch {
	case l.began && !l.alive && fits(l.run, l.exit):
		l.startHeard, l.deathHeard = true, true
		l.use(h)
		l.evidence = slices.DeleteFunc(l.evidence, func(o Hint) bool { return o.Says != OOM && !o.At.After(h.At) })
		l.byEvent = true
		return l.end(Exit{Code: h.Exit, FinishedAt: h.At}, h.At)
	case l.began && h.At.Before(l.run.StartedAt) && fits(l.before.run, l.before.exit):
		l.before.exit.Code = h.Exit
		return []Event{diedEvent(l.before.run, Exit{Code: h.Exit, Reason: l.before.exit.Reason, FinishedAt: h.At}, h.At, true)}
	}
	return nil
}

// recall gives an answer the start that is known, if it is about the present run
// and its runtime has forgotten when that began: it tells no time, that of a run
// before, or another one. lives: the answer names the process that is held, and
// that lives.
func (l *life) recall(c Container, lives bool) Container {
	if !l.began || c.StartedAt.Equal(l.run.StartedAt) {
		return c
	}
	earlier := c.StartedAt.Before(l.run.StartedAt) && l.run.Pid != 0
	switch {
	case lives && l.alive:
	case !l.dated.IsZero() && c.StartedAt.Equal(l.dated):
	case earlier && c.Running && c.Pid == l.run.Pid:
	case earlier && !c.Running && c.FinishedAt.After(l.run.StartedAt):
	default:
		return c
	}
	l.dated, c.StartedAt = c.StartedAt, l.run.StartedAt
	return c
}

// behind reports whether an inspect shows what is known to be over: a runtime
// that has not noticed yet, or an answer from before.
func (l *life) behind(c Container) bool {
	if l.same(c) {
		return c.Running && (!l.alive || l.over != nil)
	}
	return c.ran() && slices.ContainsFunc(l.past, c.isOf)
}

// same reports whether c is of the run that was last told.
func (l *life) same(c Container) bool { return l.began && c.isOf(l.run) }

// ran reports whether there ever was a run.
func (c Container) ran() bool {
	return c.Running || !c.StartedAt.IsZero() || !c.FinishedAt.IsZero()
}

// isOf reports whether the container's last run is r. Of a run that is over the
// process is not known any more.
func (c Container) isOf(r Run) bool {
	if !c.StartedAt.Equal(r.StartedAt) {
		return false
	}
	return c.Pid == r.Pid || c.Pid == 0 || r.Pid == 0
}

// horizon bounds what is told of a container that was there already; it is zero for
// one that is new.
type horizon struct {
	// listened is when somebody listened first: no hint tells what was before.
	listened time.Time
	// news is since when all that was told is known.
	news time.Time
}

// see takes in what an inspect showed, which is not behind.
func (l *life) see(c Container, netns uint64, h horizon) []Event {
	var out []Event
	resumed := l.resumed
	l.resumed = false
	if !l.told {
		out = l.meet(c, netns, h)
	}
	switch {
	case !c.ran() && l.alive: // all trace of its run is gone
		out = append(out, l.replay(func(Hint) bool { return true })...)
		out = append(out, l.lost(time.Time{})...)
	case c.ran() && !l.same(c):
		out = append(out, l.replay(func(h Hint) bool { return h.At.Before(c.StartedAt) })...)
		out = append(out, l.lost(c.StartedAt)...)
		if c.overBefore(h.news) && !(resumed && l.followed) { // and the first answer was older still
			l.takeOver(c)
			break
		}
		out = append(out, l.begin(Run{StartedAt: c.StartedAt, Pid: c.Pid, Netns: netns}, c.StartedAt)...)
		// No hint tells what was before anybody listened.
		l.startHeard = c.StartedAt.Before(h.listened)
		l.deathHeard = l.startHeard && !c.Running && c.FinishedAt.Before(h.listened)
	}
	if c.Running {
		l.run.Pid, l.run.Netns = cmp.Or(l.run.Pid, c.Pid), cmp.Or(l.run.Netns, netns)
	}
	out = append(out, l.confirm(c)...)
	if c.ran() && !c.Running {
		l.correct(c)
		x := c.exit()
		if !l.alive && l.exit.Reason == OutOfMemory {
			x.Reason = OutOfMemory // what was told stays, though nobody else knows it
		}
		out = append(out, l.end(x, c.FinishedAt)...)
		l.byEvent = false
	}
	out = append(out, l.describe(c)...)
	if resumed { // after what leads to how it is now
		out = append(out, l.discovered(c))
	}
	return out
}

// discovered tells how a container is found.
func (l *life) discovered(c Container) Event {
	e := Event{Type: Discovered, State: c.State}
	switch {
	case l.alive:
		e.Run = l.run
	case l.began:
		x := l.exit
		x.StartedAt = l.run.StartedAt
		e.Exit = &x
	}
	return e
}

func (c Container) exit() Exit {
	return Exit{Code: c.ExitCode, Reason: c.Reason, FinishedAt: c.FinishedAt}
}

// meet tells of a container for the first time.
func (l *life) meet(c Container, netns uint64, h horizon) []Event {
	l.created, l.name, l.image = c.CreatedAt, c.Name, c.Image
	said := slices.ContainsFunc(l.evidence, func(h Hint) bool { return h.Says == Created })
	l.told = true
	var out []Event
	switch {
	case h.listened.IsZero() || said || !c.CreatedAt.IsZero() && !c.CreatedAt.Before(h.listened):
		return []Event{{Type: Created, At: c.CreatedAt}}
	case c.overBefore(h.listened):
		out = l.missed(c, h)
	case !c.ran() || !c.StartedAt.Before(h.listened): // what comes is told as it came
	default:
		l.take(Run{StartedAt: c.StartedAt, Pid: c.Pid, Netns: netns})
		l.startHeard = true // before anybody listened
	}
	return append(out, l.discovered(c))
}

// missed tells of a run that was over before anybody listened, as far as it is news.
func (l *life) missed(c Container, h horizon) (out []Event) {
	if c.overBefore(h.news) {
		l.takeOver(c)
		return nil
	}
	r := Run{StartedAt: c.StartedAt}
	if l.take(r); !c.StartedAt.Before(h.news) {
		out = append(out, Event{Type: Started, At: c.StartedAt, Run: r})
	}
	out = append(out, l.end(c.exit(), c.FinishedAt)...)
	l.startHeard, l.deathHeard = true, true
	return out
}

// overBefore reports whether the container's last run was over before a time.
func (c Container) overBefore(t time.Time) bool {
	return !c.Running && c.ran() && c.StartedAt.Before(t) && c.FinishedAt.Before(t)
}

// takeOver makes a run the present one of which nothing is told, as it is no news.
func (l *life) takeOver(c Container) {
	l.take(Run{StartedAt: c.StartedAt})
	l.bury(c.exit())
	l.startHeard, l.deathHeard, l.untold = true, true, true
}

// take makes r the present run.
func (l *life) take(r Run) {
	l.before.run, l.before.exit = l.run, l.exit
	l.began, l.run, l.alive, l.paused, l.over = true, r, true, false, nil
	l.startHeard, l.deathHeard, l.dated = false, false, time.Time{}
	l.untold, l.byEvent, l.wrong, l.noticed = false, false, false, time.Time{}
}

// bury notes how the present run ended.
func (l *life) bury(x Exit) {
	l.alive, l.paused, l.over, l.exit = false, false, nil, x
	l.past = append(l.past, l.run)
	if len(l.past) > mostPast {
		l.past = l.past[1:]
	}
}

// begin tells of a new run.
func (l *life) begin(r Run, at time.Time) []Event {
	l.take(r)
	return []Event{{Type: Started, At: at, Run: r}}
}

// sameMoment is how far the time of an end by its event may be from that which the
// engine has written down.
const sameMoment = 10 * time.Millisecond

// correct notes whether what was told of the end is not what the engine has written
// down. That it was noticed, or that an event came, may have been later; and what an
// event tells of a run whose shim was killed is only that. A start that failed, which
// has a reason, says nothing of the run before it.
func (l *life) correct(c Container) {
	if l.alive || !l.began {
		return
	}
	misdated := !c.FinishedAt.IsZero() && l.exit.FinishedAt.Sub(c.FinishedAt).Abs() >= sameMoment
	code := l.byEvent && c.ExitCode != UnknownExit && c.ExitCode != l.exit.Code && c.Reason == ""
	l.wrong = misdated || code
}

// end tells that the present run is over, or amends what was told of that.
func (l *life) end(x Exit, at time.Time) []Event {
	x = l.explain(x)
	switch {
	case !l.began:
		return nil
	case l.alive:
		l.bury(x)
		return []Event{l.died(x, at, false)}
	}
	return l.amend(x, at)
}

// amend tells more of an end, if there is more to tell.
func (l *life) amend(x Exit, at time.Time) []Event {
	known := l.exit.Code == UnknownExit && x.Code != UnknownExit
	explained := l.exit.Reason != OutOfMemory && x.Reason == OutOfMemory
	if !known && !explained && !l.wrong {
		return nil
	}
	l.wrong, l.exit = false, x
	if l.untold {
		return nil
	}
	return []Event{l.died(x, at, true)}
}

func (l *life) died(x Exit, at time.Time, amends bool) Event {
	e := diedEvent(l.run, x, at, amends)
	e.OOM = l.bystander(x)
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
func (l *life) lost(before time.Time) []Event {
	if !l.alive {
		return nil
	}
	o := ending{at: before}
	if l.over != nil {
		o = *l.over
	}
	return l.end(Exit{Code: UnknownExit, Reason: o.why, FinishedAt: o.at}, o.at)
}

// replay tells what the evidence proves that comes before something: runs that
// no inspect saw, and how the present one ended.
func (l *life) replay(before func(Hint) bool) []Event {
	var out []Event
	for len(l.evidence) > 0 && before(l.evidence[0]) {
		h := l.evidence[0]
		l.evidence = l.evidence[1:]
		l.use(h)
		out = append(out, l.prove(h)...)
	}
	return out
}

// use notes that evidence is used up: what comes later and is older is stale.
func (l *life) use(h Hint) {
	if h.At.After(l.heard) {
		l.heard = h.At
	}
}

// prove tells what one piece of evidence proves.
func (l *life) prove(h Hint) []Event {
	out := l.introduce(h)
	if h.Says != OOM && l.began && h.At.Before(l.run.StartedAt) {
		return out // late, and of a run before
	}
	switch h.Says {
	case Started:
		if l.began && !l.startHeard {
			l.startHeard = true
			return out
		}
		out = append(out, l.lost(h.At)...)
		out = append(out, l.begin(Run{StartedAt: h.At}, h.At)...)
		l.startHeard = true
	case Died:
		if l.began && !l.deathHeard {
			out = append(out, l.end(Exit{Code: h.Exit, FinishedAt: h.At}, h.At)...)
			l.startHeard, l.deathHeard, l.byEvent = true, true, true
		}
	case OOM:
		out = append(out, l.oomHeard(h.At)...)
	}
	return out
}

// introduce tells of a container that no inspect ever saw.
func (l *life) introduce(h Hint) []Event {
	if l.told || h.Says != Created && h.Says != Started {
		return nil
	}
	l.told, l.name, l.image = true, h.Name, h.Image
	if h.Says == Started && (l.existed || !l.buried.IsZero()) {
		return []Event{{Type: Discovered, At: h.At}}
	}
	return []Event{{Type: Created, At: h.At}}
}

// confirm uses up the evidence of what the inspect shows anyway.
func (l *life) confirm(c Container) []Event {
	var out []Event
	var later []Hint
	for _, h := range l.evidence {
		switch {
		case h.Says == OOM:
			out = append(out, l.oomHeard(h.At)...)
		case h.Says == Created, c.ran() && h.At.Before(c.StartedAt):
		case h.Says == Started && c.ran() && !l.startHeard:
			l.startHeard = true
		case h.Says == Died && c.ran() && !c.Running && !l.deathHeard:
			l.startHeard, l.deathHeard = true, true
		default:
			later = append(later, h)
			continue
		}
		l.use(h)
	}
	l.evidence = later
	return out
}

// describe tells of what may change while a run lasts.
func (l *life) describe(c Container) []Event {
	var out []Event
	if paused := l.alive && c.State == "paused"; paused != l.paused {
		l.paused = paused
		e := Event{Type: Unpaused, Run: l.run}
		if paused {
			e.Type = Paused
		}
		out = append(out, e)
	}
	if c.Name != l.name {
		out = append(out, Event{Type: Renamed, OldName: l.name})
		l.name = c.Name
	}
	if c.Image != l.image {
		out = append(out, Event{Type: ImageChanged, OldImage: l.image})
		l.image = c.Image
	}
	return out
}

// ended takes in that the present run is over, before it is known how.
func (l *life) ended(at time.Time, why string) {
	if l.alive && l.over == nil {
		l.over, l.noticed = &ending{at: at, why: why}, at
	}
}

// endKnown reports whether a hint says how the run ended that is known to be over.
func (l *life) endKnown() bool {
	return l.over != nil && slices.ContainsFunc(l.evidence, func(h Hint) bool {
		return h.Says == Died && h.Exit != UnknownExit && !h.At.Before(l.run.StartedAt)
	})
}

// giveUp tells of an end of which nothing more was learnt in time.
func (l *life) giveUp() []Event {
	if l.over == nil {
		return nil
	}
	out := l.replay(func(h Hint) bool { return l.over != nil && (h.Says != Started || !l.startHeard) })
	return append(out, l.lost(time.Time{})...)
}

// gone takes in that the container was removed. When that was nobody knows of one
// that was not there any more when it was looked for first.
func (l *life) gone(at time.Time) []Event {
	if l.resumed {
		at = time.Time{}
	}
	for _, h := range l.evidence {
		if h.Says == Removed {
			at = h.At
		}
	}
	out := l.replay(func(Hint) bool { return true })
	if !l.told {
		return nil
	}
	l.ended(at, "it was removed")
	out = append(out, l.giveUp()...)
	return append(out, Event{Type: Removed, At: at})
}
