package assess

import (
	"maps"
	"slices"

	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
)

// MayDelete reports whether things may be deleted only because nobody wants
// them: every source must have synced, or had its time.
func (as *Assessor) MayDelete() bool { return as.Synced == len(as.Sources) || as.GraceExpired }

// AwaitsJudgement reports whether a node is a leftover of an earlier run that no source has
// withdrawn by name, while such leftovers were not judged as a whole.
func (as *Assessor) AwaitsJudgement(n *graph.Node) bool {
	return !as.Judged && !n.Wanted() && Has(n, FlagAdopted) && !Has(n, FlagWithdrawn)
}

// Unread reports whether something was never read so far, so that nobody knows what it
// depends on: all of a kind, or a key that could not be read when its kind was.
func (as *Assessor) Unread() bool { return len(as.UnreadNodes) > 0 || as.unreadKind() != nil }

func (as *Assessor) unreadKind() *kind.Kind {
	for _, k := range as.Kinds.All() {
		if k.Reads && k.Makes() && !k.Read {
			return k
		}
	}
	return nil
}

// NameUnread names what was never read, a kind or else the first key.
func (as *Assessor) NameUnread() string {
	if k := as.unreadKind(); k != nil {
		return "all of " + k.Name
	}
	if len(as.UnreadNodes) == 0 {
		return "something" // it was read meanwhile
	}
	return string(slices.MinFunc(slices.Collect(maps.Keys(as.UnreadNodes)), ByKey).Key)
}

// cannotRead reports whether something was never read, and not for want of trying.
func (as *Assessor) cannotRead() bool {
	for n := range as.UnreadNodes {
		if as.heldBy(n) != OnNothing || n.X != nil && n.X.Attempts+n.X.Lapses > 0 {
			return true
		}
	}
	return slices.ContainsFunc(as.Kinds.All(), func(k *kind.Kind) bool {
		return k.Reads && k.Makes() && !k.Read && k.Look.Attempts > 0
	})
}

// Unsynced names the sources that have not synced.
func (as *Assessor) Unsynced() (names []string) {
	for _, s := range as.Sources {
		switch {
		case s.Synced:
		case s.Name == "":
			names = append(names, "the source")
		default:
			names = append(names, s.Name)
		}
	}
	return names
}
