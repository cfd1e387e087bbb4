package engine

import (
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/plumb-net/plumb/scheduler/internal/assess"
	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// looked takes what a read found into the graph.
func (e *observer) looked(o *kind.Op) {
	e.Reading--
	switch {
	case !e.Kinds.Registered(o.Kind):
		e.lookedInVain(o)
		return
	case o.LookAll:
		e.lookedAll(o)
		return
	}
	byKey := make(map[kv.Key]kind.Found, len(o.Found))
	for _, f := range o.Found {
		byKey[f.Key] = f
	}
	for _, n := range o.Nodes {
		e.G.EndRead(n)
		if n.Dropped() {
			continue
		}
		err := o.Err
		if err == nil {
			err = o.Unread[n.Key]
		}
		f, there := byKey[n.Key]
		e.CausedBy(n.Cause, n, func() { e.seen(n, f, there, err) })
		if look := &o.Kind.Look; err == nil && o.Kind.Blind != 0 || look.Running && o.Stamp >= look.Stamp {
			e.stamp++
			n.Stamp = e.stamp // a read of all may have seen less, or nothing
			e.G.Refresh(n)
		}
		e.lookAgain(n)
	}
}

// lookedInVain: the kind was unregistered while it was read. Another may have
// its keys now.
func (e *observer) lookedInVain(o *kind.Op) {
	e.AllMoved = true
	e.wakeWaiting(o.Kind)
	for _, n := range o.Nodes {
		e.G.EndRead(n)
		if !n.Dropped() {
			e.markForRead(n)
			e.G.Wake(n)
		}
	}
}

func (e *observer) lookAgain(n *graph.Node) {
	if assess.Has(n, assess.FlagLookAgain) {
		e.SetFlag(n, assess.FlagLookAgain, false)
		e.markForRead(n)
	}
}

// lookedAll takes in a read of a whole kind. Nodes that were operated on or read
// by themselves since it began know better.
func (e *observer) lookedAll(o *kind.Op) {
	k := o.Kind
	k.Look.Running = false
	e.AllMoved = true
	e.wakeWaiting(k)
	if k.Look.Again {
		k.Look.Again = false
		e.CausedBy(k.Look.Cause, nil, func() { e.lookAtKind(k) })
	}
	if o.Err != nil {
		e.kindUnreadable(k, o.Err)
		return
	}
	first, wasBlind := !k.Read, k.Blind != 0
	if first || wasBlind {
		e.readAgainAfter(k)
	}
	k.Look.Attempts, k.Look.Err = 0, nil
	k.Read, k.Blind = true, 0
	for _, s := range e.sightings(o) {
		n := s.n
		knowsBetter := n.Busy() || n.Stamp > o.Stamp // it was operated on, or read by itself, since
		notLookedFor := !s.there && k.OnDemand && n.Presence == graph.Unknown
		if knowsBetter || notLookedFor {
			if first && (n.Presence == graph.Unknown || n.Busy() && n.Presence == graph.Absent) {
				e.UnreadNodes[n] = true // until a read of its own tells
			}
			if n.Busy() { // what is under way may have ended before this was read
				e.SetFlag(n, assess.FlagLookAgain, true)
			}
			continue
		}
		heard := assess.Has(n, assess.FlagNeedsRead)
		if heard && !first {
			continue // it is about to be read by itself
		}
		if !s.there && o.Unread[n.Key] == nil && n.Presence == graph.Absent {
			e.SetFlag(n, assess.FlagNeedsRead, false)
			continue
		}
		cause := o.Cause
		if cause == 0 {
			cause = n.Cause
		}
		e.CausedBy(cause, n, func() { e.seen(n, s.found, s.there, o.Unread[n.Key]) })
		if first && o.Unread[n.Key] != nil {
			e.UnreadNodes[n] = true
		}
		if heard {
			e.markForRead(n)
		}
	}
	if first || wasBlind {
		e.G.KindChanged(k.Prefix)
	}
	if first {
		e.wakeAdopted()
	}
}

// wakeWaiting: a read of all of a kind has ended, and keeps nobody any more.
func (e *observer) wakeWaiting(k *kind.Kind) {
	for _, n := range k.Look.Waiting {
		e.G.Wake(n)
	}
	k.Look.Waiting = nil
}

// sighting is what a read of a whole kind says of one node.
type sighting struct {
	n     *graph.Node
	found kind.Found
	there bool
}

// sightings are what is news in a read of a whole kind, sorted by key: most of
// what is found is as it was believed to be.
func (e *observer) sightings(o *kind.Op) []sighting {
	var news []sighting
	e.NewPass()
	for _, f := range o.Found {
		if !strings.HasPrefix(string(f.Key), string(o.Kind.Prefix)) {
			continue
		}
		n := e.G.Node(f.Key)
		twice := n.Mark == e.Mark
		n.Mark = e.Mark
		if twice || o.Unread[f.Key] != nil || !asBelieved(n, o.Kind, f) {
			news = append(news, sighting{n, f, true})
		}
	}
	for key := range o.Unread { // also of what nobody wants: something stands there
		if strings.HasPrefix(string(key), string(o.Kind.Prefix)) {
			e.G.Node(key)
		}
	}
	e.G.Below(o.Kind.Prefix, func(n *graph.Node) bool {
		if n.Mark != e.Mark {
			news = append(news, sighting{n: n})
		}
		return true
	})
	slices.SortStableFunc(news, func(a, b sighting) int { return assess.ByKey(a.n, b.n) })
	last := news[:0]
	for i, s := range news { // of what was found twice, the last counts
		if i+1 == len(news) || news[i+1].n != s.n {
			last = append(last, s)
		}
	}
	return last
}

// asBelieved reports whether a read shows nothing new of a node, and that nothing
// waits to be read.
func asBelieved(n *graph.Node, k *kind.Kind, f kind.Found) bool {
	const restless = assess.FlagNeedsRead | assess.FlagStale | assess.FlagDrifted | assess.FlagLookAgain
	return n.Presence == graph.Present && n.Foreign == (f.Foreign || k.Observed) && n.Flags&restless == 0 && n.Held() == graph.NotHeld &&
		(k.Observed || assess.Has(n, assess.FlagSame)) && (n.X == nil || n.X.Err == nil && n.X.Invalid == nil) &&
		k.Identical(n.Actual, f.Value) && k.SameMeta(n.Meta, f.Meta)
}

// wakeAdopted: what was found may go once all that may depend on it was read.
func (e *observer) wakeAdopted() {
	if e.Unread() {
		return
	}
	var found []*graph.Node
	e.G.All(func(n *graph.Node) bool {
		if assess.Has(n, assess.FlagAdopted) && (!assess.Has(n, assess.FlagSame) || n.Goal() == nil || n.Needs() == graph.Missing) {
			found = append(found, n)
		}
		return true
	})
	slices.SortFunc(found, assess.ByKey)
	for _, n := range found {
		e.G.Wake(n)
	}
}

// kindUnreadable: unknown is not empty. What was seen stays, but nothing new builds on
// it until it is read.
func (e *observer) kindUnreadable(k *kind.Kind, err error) {
	k.Look.Attempts++
	k.Look.Err = err
	k.Blind = k.Look.Stamp
	e.G.KindChanged(k.Prefix)
	level := slog.LevelWarn
	if !k.Read && k.Look.Attempts == 1 {
		level = slog.LevelDebug // whom it asks may just have been started
	}
	e.logf(level, "cannot read the actual state", "kind", k.Name, "error", err)
	e.Retries.addKind(e.Now.Add(e.Backoff(k.Look.Attempts)), k)
	e.Arm()
}

// seen takes in what a read says of one node.
func (e *observer) seen(n *graph.Node, f kind.Found, there bool, err error) {
	e.Out.Touch(n)
	e.SetFlag(n, assess.FlagNeedsRead, false)
	presence, same, was := n.Presence, assess.Has(n, assess.FlagSame), assess.ActualOf(n)
	drifted := assess.Has(n, assess.FlagDrifted)
	if err == nil && e.movedSinceFailure(n, f, there) {
		e.clearHold(n)
	}
	switch {
	case err != nil:
		e.noteUnreadable(n, fmt.Errorf("it cannot be read now: %w", err))
		e.G.SetActual(n, graph.ActualState{Presence: graph.Unknown, Actual: n.Actual, Meta: n.Meta}, true)
	case there:
		e.seenThere(n, f)
	default:
		e.SeenGone(n)
	}
	if err == nil && e.UnreadNodes[n] {
		delete(e.UnreadNodes, n)
		defer e.wakeAdopted() // when this one's ground is known
	}
	if !same && assess.Has(n, assess.FlagDrifted) && kind.Differ(kind.Of(n), n.Key, was, assess.ActualOf(n)) {
		e.blame(n) // it was not repaired yet, and somebody has changed it once more
	}
	e.recordObserved(n, was, same)
	if n.Cause != e.G.Cause && (n.Presence != presence || assess.Has(n, assess.FlagSame) != same) {
		e.G.Save(n)
		n.Cause, n.Via = e.G.Cause, nil // the look found what had moved
	}
	if !drifted && assess.Has(n, assess.FlagDrifted) {
		kind.Of(n).Drift.Found++
	}
	e.G.Wake(n)
}

// noteUnreadable notes why a node cannot be read. The statuses of values that wait for an observed
// one contain that.
func (e *observer) noteUnreadable(n *graph.Node, err error) {
	same := n.X != nil && kv.FirstLine(n.X.Err) == kv.FirstLine(err)
	e.noteFailure(n, kv.OpLook, err)
	if same || !kind.Of(n).Observed {
		return
	}
	n.EachIncoming(func(edge *graph.Edge) {
		if edge.OfDesired() && edge.State != graph.Satisfied {
			e.Out.Touch(edge.From)
		}
	})
}

// movedSinceFailure reports whether what a read found is not what the operation left that
// failed, so that it is worth another try at once; or that it was only a read.
func (e *observer) movedSinceFailure(n *graph.Node, f kind.Found, there bool) bool {
	switch {
	case n.X == nil || n.X.Err == nil || n.X.GoneAt != 0:
		return false
	case kv.Operation(n.X.LastOp) == kv.OpLook:
		return true
	case n.Presence == graph.Unknown:
		return false // this is what it left
	case there != (n.Presence == graph.Present):
		return true
	}
	return there && (n.Foreign != f.Foreign || kind.Differ(kind.Of(n), n.Key, n.Actual, f.Value))
}

func (e *observer) seenThere(n *graph.Node, f kind.Found) {
	k := kind.Of(n)
	e.back(n)
	wasSame := assess.Has(n, assess.FlagSame)
	if k.Observed && n.Presence == graph.Present {
		same := false
		e.Guard(n, func() { same = k.Compare(n.Key, n.Actual, f.Value).Change == kv.Same })
		if same && reflect.DeepEqual(n.Meta, f.Meta) { // others may be built with what is in Meta
			return
		}
	}
	if k.Observed {
		e.SetFlag(n, assess.FlagDerive, true)
	}
	foreign := f.Foreign || k.Observed
	e.SetFlag(n, assess.FlagSame, false)
	if foreign {
		e.SetFlag(n, assess.FlagStale, false)
	}
	if f.Foreign {
		e.setTaken(n, false, nil)
	}
	if foreign && !n.Foreign && !k.Observed {
		e.G.SetActualNeeds(n, nil) // it is no longer ours, and depends on its own
	}
	e.SetFlag(n, assess.FlagAdopted, !foreign && (assess.Has(n, assess.FlagAdopted) || n.Presence != graph.Present))
	a := graph.ActualState{Presence: graph.Present, Actual: f.Value, Meta: f.Meta, Foreign: foreign}
	// What it depends on comes first: others are judged by it at once.
	if !foreign && !e.IsSame(n, k, f.Value) {
		e.Guard(n, func() { e.G.SetActualNeeds(n, f.Value) })
		a.Change, a.Then = e.toCome(n, k, f.Value, wasSame)
	}
	owner := n.Foreign != foreign
	stale := e.G.SetActual(n, a, true)
	if owner && assess.Has(n, assess.FlagUntried) {
		e.wakeDerived(n) // it depends on what somebody else made, whatever that is
	}
	if n.X != nil && n.X.Invalid != nil && !foreign {
		defer e.recordDesired(n, desiredOf(n))
		e.keepLastValid(n)
	}
	e.noteSame(n)
	e.G.NoteBuiltWith(n)
	if wasSame && !assess.Has(n, assess.FlagSame) && !foreign && !assess.Has(n, assess.FlagStale) {
		e.drifted(n)
	}
	if !wasSame || !assess.Has(n, assess.FlagSame) {
		e.retryAbove(n)
	}
	for _, s := range stale {
		if !assess.Has(s.Node, assess.FlagStale) {
			e.markForRead(s.Node) // it may have gone with what it was made with
		}
	}
	e.rebuild(stale)
}

// toCome returns the change that is to come of a node that was found with a value that is not the
// desired one. If it had that before, it is repaired to what it was.
func (e *observer) toCome(n *graph.Node, k *kind.Kind, found any, wasSame bool) (change graph.ToCome, then any) {
	switch {
	case e.G.Changing(n) && n.Presence == graph.Present && !kind.Differ(k, n.Key, n.Actual, found):
		return graph.AsAnnounced, nil
	case n.Goal() == nil:
		return graph.NoChange, nil
	case wasSame:
		return graph.FromThis, n.Actual
	}
	return graph.FromThis, nil
}

// SeenGone: a read says that it is gone. What depended on it is probably gone too, and is
// read before anything is done about it.
func (e *observer) SeenGone(n *graph.Node) {
	if e.heldDown(n) {
		return
	}
	was := n.Presence
	if was == graph.Present && n.Goal() != nil && assess.Has(n, assess.FlagSame) {
		e.drifted(n)
	}
	var standing []*graph.Node
	if was == graph.Present {
		n.EachDependent(func(d *graph.Node) bool { standing = append(standing, d); return true })
		for _, edge := range n.In {
			if edge.Together() && edge.OfActual() {
				standing = append(standing, edge.From)
			}
		}
	}
	e.gone(n, true)
	for _, d := range standing {
		if d.Presence == graph.Present {
			e.markForRead(d)
		}
	}
}

// gone: it is not there any more, as an operation or, if it was seen, a read says.
func (e *observer) gone(n *graph.Node, seen bool) {
	was := n.Presence
	e.SetFlag(n, assess.FlagSame, false)
	e.SetFlag(n, assess.FlagStale, false)
	e.setTaken(n, false, nil)
	e.applied(n, kind.Of(n), nil)
	e.G.SetActual(n, graph.ActualState{}, seen)
	if was != graph.Absent {
		e.Out.Unblock(n)
	}
}

const (
	repairsPerMinute = 3
	// fightWait is the first wait after that, which doubles. It is short, for one command
	// can be several changes: `ip addr flush` deletes until it finds nothing left.
	fightWait = 50 * time.Millisecond
)

// drifted notes that somebody changed what was as wanted. The first repairs in
// a minute are made at once, further ones are held back: somebody is fighting.
func (e *observer) drifted(n *graph.Node) {
	if n.Needs() != graph.Satisfied {
		e.Out.Flapped(n)
		return // not drift: what it needs went, and took it along
	}
	e.SetFlag(n, assess.FlagDrifted, true)
	news := e.blame(n)
	if p := e.Policies.Drift(n.Key); p != kv.DriftRepair {
		e.leaveDrifted(n, p)
		return
	}
	x := e.G.Extra(n)
	x.Repairs = e.onceMore(x.Repairs, repairWindow)
	switch over := len(x.Repairs) - repairsPerMinute; {
	case over > 0:
		x.Err = errFight(x.By)
		x.Attempts = over
		d := e.delay(over, kv.Retries{Min: fightWait})
		e.hold(n, d)
		e.logf(slog.LevelWarn, "somebody else changes it again and again", append(aboutDrift(n), "next_try_in", d)...)
	case news: // of each look, each once: one may have changed thousands of keys
		e.logf(slog.LevelInfo, "somebody else changed it", aboutDrift(n)...)
	}
}

// blame notes who made a node drift, if that is known, and reports whether that is news in
// the record of what found it.
func (e *observer) blame(n *graph.Node) bool {
	x := e.G.Extra(n)
	x.By = e.Out.ChangedBy(n)
	return e.recordBy(x.By)
}

func errFight(by string) error {
	if by == "" {
		return fmt.Errorf("changed more than %d times within a minute by something else", repairsPerMinute)
	}
	return fmt.Errorf("changed more than %d times within a minute, last by %s", repairsPerMinute, by)
}
