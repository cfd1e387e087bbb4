package container

import (
	"slices"
	"time"

	"github.com/plumb-net/plumb/plugins/container/lifecycle"
)

// hint takes in what an event of the runtime told.
func (ch *chronicle) hint(h Hint) {
	if h.Says == Created && !ch.buried.IsZero() && h.At.After(ch.buried) {
		ch.heard, ch.buried = ch.buried, time.Time{} // from here on it is about this one
	}
	if h.Says == "" || h.At.IsZero() || !h.At.After(ch.heard) {
		return
	}
	same := func(o Hint) bool { return o.Says == h.Says && o.At.Equal(h.At) }
	if slices.ContainsFunc(ch.evidence, same) {
		return
	}
	ch.evidence = append(ch.evidence, h)
	slices.SortStableFunc(ch.evidence, func(a, b Hint) int { return a.At.Compare(b.At) })
	if len(ch.evidence) > mostEvidence {
		ch.evidence = ch.evidence[1:]
	}
}

// lateness is how far the time of an end that was noticed may be from that
// which its hint tells.
const lateness = time.Second

// late amends what was told of an end of which the hint comes only now: the
// inspect that showed what came after was quicker.
func (ch *chronicle) late(h Hint) []Event {
	if h.Says != Died || h.At.IsZero() || h.Exit == UnknownExit {
		return nil
	}
	fits := func(r Run, x Exit) bool {
		return x.Code == UnknownExit && !h.At.Before(r.StartedAt) && h.At.Sub(x.FinishedAt).Abs() < lateness
	}
	switch {
	case ch.runs.Began() && !ch.runs.Alive() && fits(ch.runs.Run, ch.runs.Exit):
		ch.startHeard, ch.deathHeard = true, true
		ch.use(h)
		ch.evidence = slices.DeleteFunc(ch.evidence, func(o Hint) bool { return o.Says != OOM && !o.At.After(h.At) })
		ch.byEvent = true
		return ch.end(Exit{Code: h.Exit, FinishedAt: h.At}, h.At)
	case ch.runs.Began() && h.At.Before(ch.runs.Run.StartedAt) && fits(ch.runs.Before.Run, ch.runs.Before.Exit):
		ch.runs.AmendBefore(h.Exit)
		return []Event{diedEvent(ch.runs.Before.Run, Exit{Code: h.Exit, Reason: ch.runs.Before.Exit.Reason, FinishedAt: h.At}, h.At, true)}
	}
	return nil
}

// replay tells what the evidence proves that comes before something: runs that
// no inspect saw, and how the present one ended.
func (ch *chronicle) replay(before func(Hint) bool) []Event {
	var out []Event
	for len(ch.evidence) > 0 && before(ch.evidence[0]) {
		h := ch.evidence[0]
		ch.evidence = ch.evidence[1:]
		ch.use(h)
		out = append(out, ch.applyEvent(h)...)
	}
	return out
}

// use notes that evidence is used up: what comes later and is older is stale.
func (ch *chronicle) use(h Hint) {
	if h.At.After(ch.heard) {
		ch.heard = h.At
	}
}

// applyEvent tells what one piece of evidence proves.
func (ch *chronicle) applyEvent(h Hint) []Event {
	out := ch.introduce(h)
	if h.Says != OOM && ch.runs.Began() && h.At.Before(ch.runs.Run.StartedAt) {
		return out // late, and of a run before
	}
	switch h.Says {
	case Started:
		if ch.runs.Began() && !ch.startHeard {
			ch.startHeard = true
			return out
		}
		out = append(out, ch.lost(h.At)...)
		out = append(out, ch.tellStart(Run{StartedAt: h.At}, h.At)...)
		ch.startHeard = true
	case Died:
		if ch.runs.Began() && !ch.deathHeard {
			out = append(out, ch.end(Exit{Code: h.Exit, FinishedAt: h.At}, h.At)...)
			ch.startHeard, ch.deathHeard, ch.byEvent = true, true, true
		}
	case OOM:
		out = append(out, ch.oomHeard(h.At)...)
	}
	return out
}

// introduce tells of a container that no inspect ever saw.
func (ch *chronicle) introduce(h Hint) []Event {
	if ch.told || h.Says != Created && h.Says != Started {
		return nil
	}
	ch.told, ch.name, ch.image = true, h.Name, h.Image
	if h.Says == Started && (ch.existed || !ch.buried.IsZero()) {
		return []Event{{Type: Discovered, At: h.At}}
	}
	return []Event{{Type: Created, At: h.At}}
}

// confirm uses up the evidence of what the inspect shows anyway.
func (ch *chronicle) confirm(c Container) []Event {
	a := c.answer()
	var out []Event
	var later []Hint
	for _, h := range ch.evidence {
		switch {
		case h.Says == OOM:
			out = append(out, ch.oomHeard(h.At)...)
		case h.Says == Created, a.Ran() && h.At.Before(c.StartedAt):
		case h.Says == Started && a.Ran() && !ch.startHeard:
			ch.startHeard = true
		case h.Says == Died && a.Ran() && !c.Running && !ch.deathHeard:
			ch.startHeard, ch.deathHeard = true, true
		default:
			later = append(later, h)
			continue
		}
		ch.use(h)
	}
	ch.evidence = later
	return out
}

// endKnown reports whether a hint says how the run ended that is known to be over.
func (ch *chronicle) endKnown() bool {
	return ch.runs.State == lifecycle.Ending && slices.ContainsFunc(ch.evidence, func(h Hint) bool {
		return h.Says == Died && h.Exit != UnknownExit && !h.At.Before(ch.runs.Run.StartedAt)
	})
}
