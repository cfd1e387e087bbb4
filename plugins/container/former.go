package container

import "time"

// former is what earlier trackers told of a container and did not take back.
type former struct {
	life   life
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
				f = &former{life: life{told: true, existed: true, resumed: true}}
				all[id] = f
			}
			f.life.name, f.life.image = e.Name, e.Image
			f.labels, f.label = e.Labels, e.Microservice
			f.life.replayed(e)
		}
	}
	return all
}

// replayed takes in what an earlier tracker told, in its order.
func (l *life) replayed(e Event) {
	same := l.began && e.Run.StartedAt.Equal(l.run.StartedAt)
	l.followed = l.followed || e.Type == Created || e.Run != (Run{}) || e.Exit != nil
	switch e.Type {
	case Started, Discovered:
		switch {
		case e.Exit != nil && l.began && e.Exit.StartedAt.Equal(l.run.StartedAt): // as was told
		case e.Exit != nil: // over when it was found
			l.take(Run{StartedAt: e.Exit.StartedAt})
			l.bury(*e.Exit)
			l.untold = true
		case e.Run != (Run{}) && !(same && l.alive):
			l.take(e.Run)
		}
		l.startHeard, l.deathHeard = l.began, l.began && !l.alive
		l.paused = l.alive && e.State == "paused"
	case Died:
		switch {
		case e.Exit == nil:
		case same && !e.Amends:
			l.bury(*e.Exit)
			l.deathHeard, l.byEvent = true, true // perhaps
		case same:
			l.exit = *e.Exit
		}
	case Paused, Unpaused:
		l.paused = l.alive && e.Type == Paused
	case OOM:
		if e.OOM != nil && same {
			l.noteKill(*e.OOM)
		}
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
