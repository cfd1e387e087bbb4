package events

import (
	"slices"
	"strings"

	"github.com/plumb-net/plumb/plugins/container"
)

// wants reports whether the query means events of the type.
func (q *Query) wants(t Type) bool { return len(q.Types) == 0 || slices.Contains(q.Types, t) }

// matches reports whether the query means the event, but for its type and number.
func (q *Query) matches(e *Event) bool {
	return (q.Since.IsZero() || !e.At.Before(q.Since)) &&
		(q.Until.IsZero() || !e.At.After(q.Until)) &&
		(q.Container == "" || e.named(q.Container) || q.ids[e.ID]) &&
		e.labelled(q.Labels)
}

// renamed notes that a container bore the name, if the event tells so: all of its events
// are meant then, by whatever name.
func (q *Query) renamed(e *Event) {
	if e.Type != container.Renamed || q.Container == "" || e.ID == "" || q.Container != e.Name && q.Container != e.OldName {
		return
	}
	if q.ids == nil {
		q.ids = map[string]bool{}
	}
	q.ids[e.ID] = true
}

func (e *Event) named(word string) bool {
	if word == e.Name || word == e.OldName {
		return true
	}
	if e.ID == "" {
		return false
	}
	return strings.HasPrefix(e.ID, word) || e.Runtime != "" &&
		strings.HasPrefix(word, e.Runtime+":") && strings.HasPrefix(e.ID, word[len(e.Runtime)+1:])
}

func (e *Event) labelled(labels []string) bool {
	for _, l := range labels {
		name, want, valued := strings.Cut(l, "=")
		got, there := e.Labels[name]
		if !there || valued && got != want {
			return false
		}
	}
	return true
}
