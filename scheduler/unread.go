package scheduler

import (
	"maps"
	"slices"
)

// mayDelete reports whether things may be deleted only because nobody wants
// them: every source must have spoken, or had its time.
func (e *engine) mayDelete() bool { return e.spoken == len(e.sources) || e.graceless }

// unread reports whether something was never read so far, so that nobody knows what it
// stands on: all of a kind, or a key that could not be read when its kind was.
func (e *engine) unread() bool { return len(e.unseen) > 0 || e.unreadKind() != nil }

// makes reports whether things come of the kind: it makes them, or derives what is made.
func (k *kind) makes() bool { return !k.Observed || k.derive != nil }

func (e *engine) unreadKind() *kind {
	for _, k := range e.kinds.all() {
		if k.Reads && k.makes() && !k.Read {
			return k
		}
	}
	return nil
}

// nameUnread names what was never read, a kind or else the first key.
func (e *engine) nameUnread() string {
	if k := e.unreadKind(); k != nil {
		return "all of " + k.Name
	}
	return string(slices.MinFunc(slices.Collect(maps.Keys(e.unseen)), byKey).Key)
}

// cannotRead reports whether something was never read, and not for want of trying.
func (e *engine) cannotRead() bool {
	for n := range e.unseen {
		if e.heldBy(n) != onNothing || n.X != nil && n.X.Attempts > 0 {
			return true
		}
	}
	return slices.ContainsFunc(e.kinds.all(), func(k *kind) bool {
		return k.Reads && k.makes() && !k.Read && k.look.attempts > 0
	})
}
