package scheduler

import (
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/plumb-net/plumb/scheduler/graph"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// lookAt asks for keys, or all below a key that ends in "/", to be read,
// together with all that stands on what turns out to have changed. Who asks for a
// look asks for another try also; who only tells of an event does not, if nothing
// turns out to have moved.
func (e *engine) lookAt(keys []Key, asked bool) []*graph.Node {
	var touched []*graph.Node
	for _, key := range keys {
		if !kv.IsPrefix(key) {
			if n := e.suspectKey(key, asked); n != nil {
				touched = append(touched, n)
			}
			continue
		}
		for _, k := range e.kinds.all() {
			if strings.HasPrefix(string(k.Prefix), string(key)) {
				e.lookAtKind(k)
			}
		}
		if e.kinds.find(key) != nil && e.kinds.find(key).Prefix != key {
			var under []*graph.Node
			e.g.Below(key, func(n *graph.Node) bool { under = append(under, n); return true })
			slices.SortFunc(under, byKey)
			for _, n := range under {
				e.suspect(n)
				touched = append(touched, n)
			}
		}
	}
	return touched
}

func (e *engine) suspectKey(key Key, asked bool) *graph.Node {
	if e.kinds.find(key) == nil {
		return nil
	}
	n := e.g.Node(key)
	if asked {
		e.clearHold(n)
	}
	e.suspect(n)
	return n
}

// suspect has the node read before anything is done to it.
func (e *engine) suspect(n *graph.Node) {
	if k := kindOf(n); k == nil || k.retrieve == nil {
		return
	}
	if has(n, flagRunning) || n.Moving {
		e.setFlag(n, flagLookAgain, true)
		return
	}
	e.setFlag(n, flagSuspect, true)
	e.g.Wake(n)
}

// lookAtAll re-reads the world; what had failed is tried again.
func (e *engine) lookAtAll() {
	var held []*graph.Node
	e.g.All(func(n *graph.Node) bool {
		if has(n, flagHeld) {
			held = append(held, n)
		}
		return true
	})
	slices.SortFunc(held, byKey)
	for _, n := range held {
		e.release(n)
	}
	for _, k := range e.kinds.all() {
		e.lookAtKind(k)
	}
}

func (e *engine) lookAtKind(k *kind) {
	if k.retrieve == nil {
		return
	}
	k.look.cause = e.g.Cause
	if k.look.running {
		k.look.again = true
		return
	}
	k.look.all = true
	e.listLook(k)
}

func (e *engine) listLook(k *kind) {
	if !k.look.listed {
		k.look.listed = true
		e.looks = append(e.looks, k)
	}
}

func (e *engine) queueLook(n *graph.Node) {
	k := kindOf(n)
	if has(n, flagLookQueued) {
		return
	}
	n.Flags |= flagLookQueued
	n.Flags &^= flagSuspect
	e.g.SetMoving(n, true, false)
	k.look.queued = append(k.look.queued, n)
	e.listLook(k)
}

// flushLooks makes one read per kind of all that waits to be read.
func (e *engine) flushLooks() {
	later := e.looks[:0]
	for _, k := range e.looks {
		if e.readsFirst(k) {
			later = append(later, k)
			continue
		}
		k.look.listed = false
		refused := e.unreadBefore(k)
		if k.look.all {
			k.look.all, k.look.running = false, true
			e.stamp++
			k.look.stamp = e.stamp
			e.reading++
			e.ready = append(e.ready, &op{kind: k, what: OpLook, cause: k.look.cause, reading: &reading{lookAll: true, stamp: e.stamp, refused: refused,
				scope: lookScope{all: true, known: e.knownOf(k)}}})
		}
		if len(k.look.queued) == 0 {
			continue
		}
		nodes := k.look.queued
		k.look.queued = nil
		o := &op{kind: k, what: OpLook, reading: &reading{nodes: nodes, stamp: e.stamp, refused: refused}}
		for _, n := range nodes {
			n.Flags &^= flagLookQueued
			o.scope.keys = append(o.scope.keys, n.Key)
			if n.Actual != nil || n.Goal() != nil {
				o.scope.known = append(o.scope.known, knownNode(n))
			}
		}
		e.reading++
		slices.Sort(o.scope.keys)
		e.ready = append(e.ready, o)
	}
	e.looks = later
}

// readsFirst reports whether all of a kind is about to be read that k is read after.
func (e *engine) readsFirst(k *kind) bool {
	return slices.ContainsFunc(k.readAfter, func(name string) bool {
		o := e.kinds.named(name)
		return o != nil && (o.look.all || o.look.running)
	})
}

// unreadBefore says why k cannot be read: a kind that it is read after never was.
func (e *engine) unreadBefore(k *kind) error {
	for _, name := range k.readAfter {
		if o := e.kinds.named(name); o != nil && o.Reads && !o.Read {
			return fmt.Errorf("%s is read after %s, which cannot be read: %s", k.Name, name, kv.FirstLine(o.look.err))
		}
	}
	return nil
}

// readAgainAfter has those kinds read again that are read after k: it was read for the
// first time, or again after it could not be, or has come.
func (e *engine) readAgainAfter(k *kind) {
	for _, o := range e.kinds.all() {
		if slices.Contains(o.readAfter, k.Name) {
			e.lookAtKind(o)
		}
	}
}

// looked takes what a read found into the graph.
func (e *engine) looked(o *op) {
	e.reading--
	switch {
	case !e.kinds.registered(o.kind):
		e.lookedInVain(o)
		return
	case o.lookAll:
		e.lookedAll(o)
		return
	}
	byKey := make(map[Key]found, len(o.found))
	for _, f := range o.found {
		byKey[f.key] = f
	}
	for _, n := range o.nodes {
		e.g.SetMoving(n, false, false)
		if n.Dropped() {
			continue
		}
		err := o.err
		if err == nil {
			err = o.unread[n.Key]
		}
		f, there := byKey[n.Key]
		e.under(n.Cause, n, func() { e.seen(n, f, there, err) })
		if look := &o.kind.look; err == nil && o.kind.Blind != 0 || look.running && o.stamp >= look.stamp {
			e.stamp++
			n.Stamp = e.stamp // a read of all may have seen less, or nothing
			e.g.Refresh(n)
		}
		e.lookAgain(n)
	}
}

// lookedInVain: the kind was unregistered while it was read. Another may have
// its keys now.
func (e *engine) lookedInVain(o *op) {
	e.recheckAll = true
	e.wakeWaiting(o.kind)
	for _, n := range o.nodes {
		e.g.SetMoving(n, false, false)
		if !n.Dropped() {
			e.suspect(n)
			e.g.Wake(n)
		}
	}
}

func (e *engine) lookAgain(n *graph.Node) {
	if has(n, flagLookAgain) {
		e.setFlag(n, flagLookAgain, false)
		e.suspect(n)
	}
}

// lookedAll takes in a read of a whole kind. Nodes that were operated on or read
// by themselves since it began know better.
func (e *engine) lookedAll(o *op) {
	k := o.kind
	k.look.running = false
	e.recheckAll = true
	e.wakeWaiting(k)
	if k.look.again {
		k.look.again = false
		e.under(k.look.cause, nil, func() { e.lookAtKind(k) })
	}
	if o.err != nil {
		e.lookFailed(k, o.err)
		return
	}
	first, wasBlind := !k.Read, k.Blind != 0
	if first || wasBlind {
		e.readAgainAfter(k)
	}
	k.look.attempts, k.look.err = 0, nil
	k.Read, k.Blind = true, 0
	for _, s := range e.sightings(o) {
		n := s.n
		if n.Moving || n.Stamp > o.stamp || !s.there && k.OnDemand && n.Presence == graph.Unknown {
			if first && (n.Presence == graph.Unknown || n.Moving && n.Presence == graph.Absent) {
				e.unseen[n] = true // until a read of its own tells
			}
			if n.Moving { // what is under way may have ended before this was read
				e.setFlag(n, flagLookAgain, true)
			}
			continue
		}
		heard := has(n, flagSuspect)
		if heard && !first {
			continue // it is about to be read by itself
		}
		if !s.there && o.unread[n.Key] == nil && n.Presence == graph.Absent {
			e.setFlag(n, flagSuspect, false)
			continue
		}
		cause := o.cause
		if cause == 0 {
			cause = n.Cause
		}
		e.under(cause, n, func() { e.seen(n, s.found, s.there, o.unread[n.Key]) })
		if first && o.unread[n.Key] != nil {
			e.unseen[n] = true
		}
		if heard {
			e.suspect(n)
		}
	}
	if first || wasBlind {
		e.g.KindChanged(k.Prefix)
	}
	if first {
		e.wakeAdopted()
	}
}

// wakeWaiting: a read of all of a kind has ended, and keeps nobody any more.
func (e *engine) wakeWaiting(k *kind) {
	for _, n := range k.look.waiting {
		e.g.Wake(n)
	}
	k.look.waiting = nil
}

// sighting is what a read of a whole kind says of one node.
type sighting struct {
	n     *graph.Node
	found found
	there bool
}

// sightings are what is news in a read of a whole kind, sorted by key: most of
// what is found is as it was believed to be.
func (e *engine) sightings(o *op) []sighting {
	var news []sighting
	e.newPass()
	for _, f := range o.found {
		if !strings.HasPrefix(string(f.key), string(o.kind.Prefix)) {
			continue
		}
		n := e.g.Node(f.key)
		twice := n.Mark == e.mark
		n.Mark = e.mark
		if twice || o.unread[f.key] != nil || !asBelieved(n, o.kind, f) {
			news = append(news, sighting{n, f, true})
		}
	}
	for key := range o.unread { // also of what nobody wants: something stands there
		if strings.HasPrefix(string(key), string(o.kind.Prefix)) {
			e.g.Node(key)
		}
	}
	e.g.Below(o.kind.Prefix, func(n *graph.Node) bool {
		if n.Mark != e.mark {
			news = append(news, sighting{n: n})
		}
		return true
	})
	slices.SortStableFunc(news, func(a, b sighting) int { return byKey(a.n, b.n) })
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
func asBelieved(n *graph.Node, k *kind, f found) bool {
	const restless = flagSuspect | flagStale | flagDrifted | flagLookAgain | flagHeld
	return n.Presence == graph.Present && n.Foreign == (f.foreign || k.Observed) && n.Flags&restless == 0 &&
		(k.Observed || has(n, flagSame)) && (n.X == nil || n.X.Err == nil && n.X.Invalid == nil) &&
		k.identical(n.Actual, f.value) && k.sameMeta(n.Meta, f.meta)
}

// wakeAdopted: what was found may go once all that may stand on it was read.
func (e *engine) wakeAdopted() {
	if e.unread() {
		return
	}
	var found []*graph.Node
	e.g.All(func(n *graph.Node) bool {
		if has(n, flagAdopted) && (!has(n, flagSame) || n.Goal() == nil || n.Needs() == graph.Missing) {
			found = append(found, n)
		}
		return true
	})
	slices.SortFunc(found, byKey)
	for _, n := range found {
		e.g.Wake(n)
	}
}

// lookFailed: unknown is not empty. What was seen stays, but nothing new builds on
// it until it is read.
func (e *engine) lookFailed(k *kind, err error) {
	k.look.attempts++
	k.look.err = err
	k.Blind = k.look.stamp
	e.g.KindChanged(k.Prefix)
	level := slog.LevelWarn
	if !k.Read && k.look.attempts == 1 {
		level = slog.LevelDebug // whom it asks may just have been started
	}
	e.logf(level, "cannot read the world", "kind", k.Name, "error", err)
	e.retries.addKind(e.now.Add(e.backoff(k.look.attempts)), k)
	e.arm()
}

// seen takes in what a read says of one node.
func (e *engine) seen(n *graph.Node, f found, there bool, err error) {
	e.touch(n)
	e.setFlag(n, flagSuspect, false)
	presence, same, was := n.Presence, has(n, flagSame), actualOf(n)
	if err == nil && e.movedSinceFailure(n, f, there) {
		e.clearHold(n)
	}
	switch {
	case err != nil:
		e.fail(n, OpLook, fmt.Errorf("read: %w", err))
		e.g.SetWorld(n, graph.World{Presence: graph.Unknown, Actual: n.Actual, Meta: n.Meta}, true)
	case there:
		e.seenThere(n, f)
	default:
		e.seenGone(n)
	}
	if err == nil && e.unseen[n] {
		delete(e.unseen, n)
		defer e.wakeAdopted() // when this one's ground is known
	}
	e.saw(n, was, same)
	if n.Cause != e.g.Cause && (n.Presence != presence || has(n, flagSame) != same) {
		e.g.Touch(n)
		n.Cause, n.Via = e.g.Cause, nil // the look found what had moved
	}
	e.g.Wake(n)
}

// movedSinceFailure reports whether what a read found is not what the operation left that
// failed, so that it is worth another try at once; or that it was only a read.
func (e *engine) movedSinceFailure(n *graph.Node, f found, there bool) bool {
	switch {
	case n.X == nil || n.X.Err == nil || n.X.GoneAt != 0:
		return false
	case Operation(n.X.LastOp) == OpLook:
		return true
	case n.Presence == graph.Unknown:
		return false // this is what it left
	case there != (n.Presence == graph.Present):
		return true
	}
	return there && (n.Foreign != f.foreign || differ(kindOf(n), n.Key, n.Actual, f.value))
}

func (e *engine) seenThere(n *graph.Node, f found) {
	k := kindOf(n)
	e.back(n)
	wasSame := has(n, flagSame)
	if k.Observed && n.Presence == graph.Present {
		same := false
		e.guard(n, func() { same = k.compare(n.Key, n.Actual, f.value).Change == Same })
		if same && reflect.DeepEqual(n.Meta, f.meta) { // others may be built with what is in Meta
			return
		}
	}
	if k.Observed {
		e.setFlag(n, flagDerive, true)
	}
	foreign := f.foreign || k.Observed
	e.setFlag(n, flagSame, false)
	if foreign {
		e.setFlag(n, flagStale, false)
	}
	if f.foreign {
		e.setTaken(n, false, nil)
	}
	if foreign && !n.Foreign && !k.Observed {
		e.g.SetActualNeeds(n, nil) // it is no longer ours, and stands on its own
	}
	e.setFlag(n, flagAdopted, !foreign && (has(n, flagAdopted) || n.Presence != graph.Present))
	// What it stands on comes first: others are judged by it at once.
	if !foreign && !e.isSame(n, k, f.value) {
		e.guard(n, func() { e.g.SetActualNeeds(n, f.value) })
	}
	owner := n.Foreign != foreign
	stale := e.g.SetWorld(n, graph.World{Presence: graph.Present, Actual: f.value, Meta: f.meta, Foreign: foreign}, true)
	if owner && has(n, flagUntried) {
		e.wakeDerived(n) // it stands on what somebody else made, whatever that is
	}
	if n.X != nil && n.X.Invalid != nil && !foreign {
		defer e.asked(n, wishOf(n))
		e.keepWorld(n)
	}
	e.noteSame(n)
	e.g.Beside(n)
	if wasSame && !has(n, flagSame) && !foreign && !has(n, flagStale) {
		e.drifted(n)
	}
	if !wasSame || !has(n, flagSame) {
		e.retryAbove(n)
	}
	for _, s := range stale {
		if !has(s.Node, flagStale) {
			e.suspect(s.Node) // it may have gone with what it was made with
		}
	}
	e.rebuild(stale)
}

// seenGone: the world took it. What stood on it is probably gone too, and is
// read before anything is done about it.
func (e *engine) seenGone(n *graph.Node) {
	if e.heldDown(n) {
		return
	}
	was := n.Presence
	if was == graph.Present && n.Goal() != nil && has(n, flagSame) {
		e.drifted(n)
	}
	var standing []*graph.Node
	if was == graph.Present {
		n.Standers(func(d *graph.Node) bool { standing = append(standing, d); return true })
		for _, edge := range n.In {
			if edge.Together() && edge.OfActual() {
				standing = append(standing, edge.From)
			}
		}
	}
	e.setFlag(n, flagSame, false)
	e.setFlag(n, flagStale, false)
	e.setTaken(n, false, nil)
	e.applied(n, kindOf(n), nil)
	e.g.SetWorld(n, graph.World{}, true)
	if was != graph.Absent {
		e.out.unblock(n)
	}
	for _, d := range standing {
		if d.Presence == graph.Present {
			e.suspect(d)
		}
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
func (e *engine) drifted(n *graph.Node) {
	if n.Needs() != graph.Satisfied {
		e.out.flapped(n)
		return // not drift: what it needs went, and took it along
	}
	e.setFlag(n, flagDrifted, true)
	if p := e.policies.Drift(n.Key); p != DriftRepair {
		e.leaveDrifted(n, p)
		return
	}
	x := e.g.Extra(n)
	x.Repairs = e.onceMore(x.Repairs, repairWindow)
	if over := len(x.Repairs) - repairsPerMinute; over > 0 {
		x.Err = fmt.Errorf("changed more than %d times within a minute by something else", repairsPerMinute)
		x.Attempts = over
		e.hold(n, e.delay(over, Retries{Min: fightWait}))
	}
}
