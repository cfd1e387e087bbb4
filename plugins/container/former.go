package container

import "time"

// former is what earlier trackers told of a container and did not take back.
type former struct {
	chronicle
	labels map[string]string
	label  string
}

// formerLives gathers, by id, what earlier trackers told of the containers of a
// runtime that were not removed.
func formerLives(runtime string, earlier []Event) map[string]*former {
	all := map[string]*former{}
	for _, e := range earlier {
		id, ours := unscope(runtime, e.Runtime, e.ID)
		switch {
		case !ours || e.ID == "":
		case e.Type == Removed:
			delete(all, id)
		case all[id] == nil && (e.Amends || e.Type == OOM): // of one that was removed
		default:
			f := all[id]
			if f == nil || e.Type == Created {
				f = &former{chronicle: chronicle{told: true, existed: true, resumed: true}}
				all[id] = f
			}
			f.name, f.image = e.Name, e.Image
			f.labels, f.label = e.Labels, e.Microservice
			f.replayed(e)
		}
	}
	return all
}

// replayed takes in what an earlier tracker told, in its order.
func (ch *chronicle) replayed(e Event) {
	same := ch.runs.Began() && e.Run.StartedAt.Equal(ch.runs.Run.StartedAt)
	ch.followed = ch.followed || e.Type == Created || e.Run != (Run{}) || e.Exit != nil
	switch e.Type {
	case Started, Discovered:
		switch {
		case e.Exit != nil && ch.runs.Began() && e.Exit.StartedAt.Equal(ch.runs.Run.StartedAt): // as was told
		case e.Exit != nil: // over when it was found
			ch.begin(Run{StartedAt: e.Exit.StartedAt})
			ch.runs.RecordExit(*e.Exit)
			ch.untold = true
		case e.Run != (Run{}) && !(same && ch.runs.Alive()):
			ch.begin(e.Run)
		}
		ch.startHeard, ch.deathHeard = ch.runs.Began(), ch.runs.Began() && !ch.runs.Alive()
		ch.setPaused(e.State == "paused")
	case Died:
		switch {
		case e.Exit == nil:
		case same && !e.Amends:
			ch.runs.RecordExit(*e.Exit)
			ch.runs.Amend(*e.Exit)
			ch.deathHeard, ch.byEvent = true, true // perhaps
		case same:
			ch.runs.Amend(*e.Exit)
		}
	case Paused, Unpaused:
		ch.setPaused(e.Type == Paused)
	case OOM:
		if e.OOM != nil && same {
			ch.noteKill(*e.OOM)
		}
	}
}

func (ch *chronicle) setPaused(paused bool) {
	if paused {
		ch.runs.Pause()
	} else {
		ch.runs.Resume()
	}
}

// heardFrom is since when all that was told is known, zero if nothing is. What ended
// later and was told of would be among it.
func heardFrom(earlier []Event) (first time.Time) {
	for _, e := range earlier {
		if first.IsZero() || e.Seen.Before(first) {
			first = e.Seen
		}
	}
	return first
}

// foundLater marks what happened before anybody listened, and is told all the same.
// Where it is not known when it happened, it did before.
func foundLater(events []Event, listened time.Time) {
	for i := range events {
		e := &events[i]
		news := e.Type == Created || e.Type == Discovered || e.Amends
		e.FoundLater = !news && (e.At.IsZero() || e.At.Before(listened))
	}
}
