package container

import (
	"slices"
	"time"
)

// A death with the exit code of a kill is laid to one for want of memory of which
// nobody knows the victim, if that happened right before it, or, as clocks of log and
// runtime differ, after. Who lives on after a kill was not the victim.
const (
	killBefore = time.Second
	killAfter  = 2 * time.Second
	killedCode = 128 + 9
)

// sameKill is how far apart the kernel and the runtime may tell of one kill.
const sameKill = 5 * time.Second

// ReportOOM takes in what the kernel told of a process that it killed for want
// of memory. It may be called from any goroutine, also for containers that the
// tracker does not know; it never blocks.
func (t *Tracker) ReportOOM(k OOMKill) {
	t.killsMu.Lock()
	if len(t.kills) < mostReports {
		t.kills = append(t.kills, k)
	}
	t.killsMu.Unlock()
	t.wakeLoop()
}

// What is kept of reports that wait: for the loop, and for their containers.
const (
	mostReports = 10000
	mostEarly   = 16
)

func (t *Tracker) takeKills() []OOMKill {
	t.killsMu.Lock()
	defer t.killsMu.Unlock()
	all := t.kills
	t.kills = nil
	return all
}

// workKills gives each report to the container that it is about. Of one that is
// not known yet they wait a while; of none or a foreign one they are told as
// they are.
func (t *Tracker) workKills() {
	now := time.Now()
	waiting := t.early
	t.early = nil
	for _, k := range t.takeKills() {
		if k.At.IsZero() {
			k.At = now
		}
		waiting = append(waiting, k)
	}
	for _, k := range waiting {
		switch s, e := t.owner(k.Container); {
		case e != nil:
			s.tell(e, e.chronicle.oomReported(k))
			t.changed = true
		case k.Container == "" || now.Sub(k.At) >= sameKill || len(t.early) >= mostEarly:
			t.events = append(t.events, Event{Type: OOM, At: k.At, Seen: now, ID: k.Container, OOM: &k, Amends: k.Amends})
		default:
			t.early = append(t.early, k)
		}
	}
}

// owner finds a container by its full id, also one that was removed.
func (t *Tracker) owner(id string) (*source, *entry) {
	if id == "" {
		return nil, nil
	}
	for _, s := range t.sources {
		for known, e := range s.entries {
			if _, bare := scope("", known); bare == id && (e.view != unseen || e.chronicle.told) {
				return s, e
			}
		}
		if old := s.removed.find(id); old != nil && old.entry.chronicle.told {
			return s, old.entry
		}
	}
	return nil, nil
}

// oomReported tells of a kill by the kernel's word.
func (ch *chronicle) oomReported(k OOMKill) []Event {
	ch.noteKill(k)
	e := Event{Type: OOM, At: k.At, Run: ch.runs.Run, OOM: &k, Amends: k.Amends || pair(&ch.byRuntime, k.At)}
	ch.byKernel = noted(ch.byKernel, k.At)
	out := []Event{e}
	if ch.runs.Began() && !ch.runs.Alive() {
		x := ch.runs.Exit
		if x.Reason == OutOfMemory { // by the runtime's word, perhaps
			x.Reason = ""
			ch.wrong = ch.explain(x).Reason == ""
		}
		out = append(out, ch.end(x, x.FinishedAt)...)
	}
	return out
}

// oomHeard tells of a kill by the runtime's word, unless one was told of shortly
// before: a runtime may say several times that memory is out until somebody is
// killed, so its words are no count.
func (ch *chronicle) oomHeard(at time.Time) []Event {
	ch.noteKill(OOMKill{At: at})
	if slices.ContainsFunc(slices.Concat(ch.byKernel, ch.byRuntime), func(t time.Time) bool { return at.Sub(t).Abs() <= sameKill }) {
		return nil
	}
	ch.byRuntime = noted(ch.byRuntime, at)
	return []Event{{Type: OOM, At: at, Run: ch.runs.Run}}
}

func (ch *chronicle) noteKill(k OOMKill) {
	if k.Amends { // it is one of those without a name
		if i := slices.IndexFunc(ch.kills, func(o OOMKill) bool { return o.Source == fromCounter && k.At.Sub(o.At).Abs() <= sameKill }); i >= 0 {
			ch.kills = slices.Delete(ch.kills, i, i+1)
		}
	}
	ch.kills = append(ch.kills, k)
	if len(ch.kills) > mostKills {
		ch.kills = ch.kills[1:]
	}
}

func noted(times []time.Time, at time.Time) []time.Time {
	times = append(times, at)
	if len(times) > mostKills {
		times = times[1:]
	}
	return times
}

// pair takes away the time that is close to at, if there is one.
func pair(times *[]time.Time, at time.Time) bool {
	for i, t := range *times {
		if d := at.Sub(t); d.Abs() <= sameKill {
			*times = append((*times)[:i:i], (*times)[i+1:]...)
			return true
		}
	}
	return false
}

// fromCounter is the Source of kills of which only a counter tells.
const fromCounter = "cgroup"

// explain lays an end to a kill for want of memory, if that is what it was: if the
// first process was the victim, or all were. Where nobody knows the victim, a kill
// right before an end by the same signal is taken for it.
func (ch *chronicle) explain(x Exit) Exit {
	for _, k := range ch.killsOfRun() {
		if ch.ended1st(k) || ch.mayHaveEnded(k, x) {
			x.Reason = OutOfMemory
		}
	}
	return x
}

// killsOfRun are those that may be of the present run.
func (ch *chronicle) killsOfRun() (all []OOMKill) {
	for _, k := range ch.kills {
		if !k.At.Before(ch.runs.Run.StartedAt.Add(-killAfter)) {
			all = append(all, k)
		}
	}
	return all
}

// ended1st reports whether the first process was the victim.
func (ch *chronicle) ended1st(k OOMKill) bool { return k.Pid != 0 && k.Pid == ch.runs.Run.Pid }

// mayHaveEnded reports whether a kill that names no other process may have been that
// of the first one.
func (ch *chronicle) mayHaveEnded(k OOMKill, x Exit) bool {
	killed := x.Code == killedCode || x.Code == UnknownExit
	switch {
	case !killed || !near(x, k.At, ch.runs.Noticed):
		return false
	case k.All, k.Pid != 0 && ch.runs.Run.Pid == 0:
		return true
	case k.Pid != 0:
		return false // it was a child
	case k.Source == fromCounter:
		return true
	}
	// The runtime's word is one about a kill that the kernel tells of too.
	return !slices.ContainsFunc(ch.kills, func(o OOMKill) bool { return o.Source != "" && o.At.Sub(k.At).Abs() <= sameKill })
}

// near reports whether an end, which was noticed at a time, if it was, may come of
// something that happened at another.
func near(x Exit, at, noticed time.Time) bool {
	end := x.FinishedAt
	if !noticed.IsZero() && noticed.Before(end) {
		end = noticed
	}
	return at.After(end.Add(-killBefore)) && at.Before(end.Add(killAfter))
}

// bystander is the last kill in a run that did not end it, nil if there was none.
func (ch *chronicle) bystander(x Exit) *OOMKill {
	all := ch.killsOfRun()
	if x.Reason == OutOfMemory || len(all) == 0 {
		return nil
	}
	k := all[len(all)-1]
	for _, o := range slices.Backward(all) {
		if o.Source != "" { // the kernel tells more than the runtime
			k = o
			break
		}
	}
	return &k
}

// past gives a container that is seen for the first time the kills for want of memory
// from before the start.
func (s *source) past(e *entry) {
	_, bare := scope("", e.id)
	for _, k := range s.t.opts.Past {
		if k.Container == bare || k.Container == "" && k.Pid == e.chronicle.runs.Run.Pid && k.Pid != 0 {
			e.chronicle.noteKill(k)
		}
	}
}
