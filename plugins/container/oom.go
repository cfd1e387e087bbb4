package container

import (
	"slices"
	"time"
)

// A death with the exit code of a kill is laid to one for want of memory that
// happened shortly before it, or, as clocks of log and runtime differ, after.
const (
	killBefore = 10 * time.Second
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
	t.rouse()
}

// mostReports bounds the reports that wait for the loop.
const mostReports = 10000

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
			s.tell(e, e.life.oomReported(k))
			t.changed = true
		case k.Container == "" || now.Sub(k.At) >= sameKill || len(t.early) >= mostPast:
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
			if _, bare := scope("", known); bare == id && (e.seen || e.life.told) {
				return s, e
			}
		}
		if old := s.tombs.find(id); old != nil && old.entry.life.told {
			return s, old.entry
		}
	}
	return nil, nil
}

// oomReported tells of a kill by the kernel's word.
func (l *life) oomReported(k OOMKill) []Event {
	l.noteKill(k)
	e := Event{Type: OOM, At: k.At, Run: l.run, OOM: &k, Amends: k.Amends || pair(&l.byRuntime, k.At)}
	l.byKernel = noted(l.byKernel, k.At)
	out := []Event{e}
	if l.began && !l.alive {
		out = append(out, l.end(l.exit, l.exit.FinishedAt)...)
	}
	return out
}

// oomHeard tells of a kill by the runtime's word, unless one was told of shortly
// before: a runtime may say several times that memory is out until somebody is
// killed, so its words are no count.
func (l *life) oomHeard(at time.Time) []Event {
	l.noteKill(OOMKill{At: at})
	if slices.ContainsFunc(slices.Concat(l.byKernel, l.byRuntime), func(t time.Time) bool { return at.Sub(t).Abs() <= sameKill }) {
		return nil
	}
	l.byRuntime = noted(l.byRuntime, at)
	return []Event{{Type: OOM, At: at, Run: l.run}}
}

func (l *life) noteKill(k OOMKill) {
	l.kills = append(l.kills, k)
	if len(l.kills) > mostKills {
		l.kills = l.kills[1:]
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

// explain lays an end to a kill for want of memory, if that is what it was.
func (l *life) explain(x Exit) Exit {
	for _, k := range l.kills {
		if k.At.Before(l.run.StartedAt.Add(-killAfter)) {
			continue // that was a run before
		}
		killed := x.Code == killedCode || x.Code == UnknownExit
		if k.Pid != 0 && k.Pid == l.run.Pid || killed && x.near(k.At) {
			x.Reason = OutOfMemory
		}
	}
	return x
}

// near tells whether the end may come of something that happened at a time.
func (x Exit) near(at time.Time) bool {
	return at.After(x.FinishedAt.Add(-killBefore)) && at.Before(x.FinishedAt.Add(killAfter))
}
