package scheduler

import (
	"maps"
	"slices"
)

// mayDelete reports whether things may be deleted only because nobody wants
// them: every source must have spoken, or had its time.
func (as *assessor) mayDelete() bool { return as.spoken == len(as.sources) || as.graceless }

// unread reports whether something was never read so far, so that nobody knows what it
// stands on: all of a kind, or a key that could not be read when its kind was.
func (as *assessor) unread() bool { return len(as.unseen) > 0 || as.unreadKind() != nil }

func (as *assessor) unreadKind() *kind {
	for _, k := range as.kinds.all() {
		if k.Reads && k.makes() && !k.Read {
			return k
		}
	}
	return nil
}

// nameUnread names what was never read, a kind or else the first key.
func (as *assessor) nameUnread() string {
	if k := as.unreadKind(); k != nil {
		return "all of " + k.Name
	}
	return string(slices.MinFunc(slices.Collect(maps.Keys(as.unseen)), byKey).Key)
}

// cannotRead reports whether something was never read, and not for want of trying.
func (as *assessor) cannotRead() bool {
	for n := range as.unseen {
		if as.heldBy(n) != onNothing || n.X != nil && n.X.Attempts > 0 {
			return true
		}
	}
	return slices.ContainsFunc(as.kinds.all(), func(k *kind) bool {
		return k.Reads && k.makes() && !k.Read && k.look.attempts > 0
	})
}

// unspoken names the sources that have not synced.
func (as *assessor) unspoken() (names []string) {
	for _, s := range as.sources {
		switch {
		case s.spoken:
		case s.name == "":
			names = append(names, "the source")
		default:
			names = append(names, s.name)
		}
	}
	return names
}
