package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plumb-net/plumb/scheduler/internal/assess"
	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// RootKind says what holds everything up at a root.
type RootKind uint8

// The kinds of roots.
const (
	// RootBusy: something is being done or is about to be; it ends by itself.
	RootBusy RootKind = iota
	// RootNotAsked: it is needed, and nobody asks for it.
	RootNotAsked
	// RootNotThere: it is needed, and it does not exist.
	RootNotThere
	// RootNoneOf: some key below a prefix is needed, and none will do.
	RootNoneOf
	// RootUnfit: it is there, but not as By needs it.
	RootUnfit
	// RootInvalid: its value is refused, or does not agree with that of By.
	RootInvalid
	// RootTaken: By has what only one can have.
	RootTaken
	// RootFailed: what was tried last failed.
	RootFailed
	// RootPaused: By is held, and with it the key: by an operator, or as HeldBack.
	RootPaused
	// RootUnread: its actual state cannot be told.
	RootUnread
	// RootNoKind: nothing is registered that could make it.
	RootNoKind
	// RootDrifted: somebody else changed it, and it is not repaired.
	RootDrifted
	// RootKept: nobody wants it, and it goes when all that could is known.
	RootKept
	// RootCircle: it needs itself, by way of others.
	RootCircle
)

// String is the kind in a word or two: "not asked for".
func (k RootKind) String() string {
	return [...]string{"busy", "not asked for", "not there", "none of", "unfit", "invalid", "taken", "failed",
		"paused", "unread", "no kind", "drifted", "kept", "circle"}[k]
}

// Root is where the chain of a [Cause] ends: what nothing below it explains.
type Root struct {
	Key  kv.Key
	Kind RootKind
	// Status is how the key stands; of a prefix it has the Key and no more.
	Status kv.Status
	// Text says it to people.
	Text string
	// For is who needs the key, empty for the key that was asked about.
	For kv.Key
	// By is who is in the way: see RootUnfit, RootInvalid, RootTaken and RootPaused.
	By kv.Key
	// Until is when a pause ends by itself, zero if it does not.
	Until time.Time
	// HeldBack is the ID of the deletions that By is held back with, as too many at once;
	// empty for a pause of an operator.
	HeldBack string
}

const (
	maxRoots = 20
	// maxVisited bounds the walk: of more than that many nobody reads the causes.
	maxVisited = 10_000
)

// rootFinder walks from a key down to the nodes that nothing explains.
type rootFinder struct {
	e     *Explainer
	seen  map[*graph.Node]*waypoint
	depth int
	// cycles are the members of those that were told.
	cycles map[*graph.Node]bool
	roots  []Root
}

// waypoint is where a node is in the walk, and what came of it.
type waypoint struct {
	depth  int
	open   bool // it is being visited
	result finding
}

// finding is what was found below a node: that there are roots, or only that the way leads
// back to a node that is being visited, of which it is the topmost.
type finding struct {
	explained bool
	back      *waypoint
}

func (f *finding) add(o finding) {
	f.explained = f.explained || o.explained
	if o.back != nil && (f.back == nil || o.back.depth < f.back.depth) {
		f.back = o.back
	}
}

// again is what a node that was visited means for whoever comes to it once more. What only
// led back is explained by what that came to.
func (w *waypoint) again() finding {
	for !w.open && !w.result.explained {
		w = w.result.back
	}
	if w.open {
		return finding{back: w}
	}
	return finding{explained: true}
}

// Roots finds where the chain of a node ends.
func (e *Explainer) Roots(n *graph.Node) []Root {
	if s := e.StateOf(n); (s == kv.Configured || s == kv.Observed) && !n.AsLastSeen() {
		return nil
	}
	f := &rootFinder{e: e, seen: map[*graph.Node]*waypoint{}, cycles: map[*graph.Node]bool{}}
	if found := f.visit(n, nil); !found.explained && len(f.roots) == 0 {
		f.add(n, nil)
	}
	return f.roots
}

// visit finds the roots below a node, which is one itself if there are none.
func (f *rootFinder) visit(n, from *graph.Node) finding {
	if v := f.seen[n]; v != nil {
		found := v.again()
		if v.open {
			f.cycle(n, from)
			found.explained = f.cycles[n]
		}
		return found
	}
	if len(f.seen) >= maxVisited {
		return finding{explained: true}
	}
	f.depth++
	v := &waypoint{depth: f.depth, open: true}
	f.seen[n] = v
	if f.e.holds(n) == nil && !f.e.selfInvalid(n) {
		v.result = f.below(n)
	}
	own := n.X != nil && n.X.Err != nil && (n.Needs() == graph.Satisfied || assess.FailedToGo(n))
	if !v.result.explained && (own || v.result.back == nil || v.result.back == v) {
		f.add(n, from)
		v.result.explained = true
	}
	f.depth--
	v.open = false
	return v.result
}

// below visits what a node waits for: the same that [engine.why] names.
func (f *rootFinder) below(n *graph.Node) (found finding) {
	e := f.e
	to := func(t *graph.Node) {
		if t != nil && t != n {
			found.add(f.visit(t, n))
		}
	}
	for _, edge := range n.Out {
		switch {
		case !edge.OfDesired() || edge.State == graph.Satisfied:
		case edge.Prefix() != "":
			found.add(f.anyOf(n, edge))
		case unfit(e, edge):
			f.addUnfit(edge)
			found.explained = true
		default:
			to(edge.To)
		}
	}
	for _, t := range e.holders(n) {
		to(t)
	}
	return found
}

// selfInvalid reports whether the value of a node is invalid by itself, or lost a name to
// another, which need not be at fault: nothing below explains that.
func (e *Explainer) selfInvalid(n *graph.Node) bool {
	x := n.X
	return n.Wanted() && (x != nil && (x.Invalid != nil || x.Derived != nil) || n.Lost() != nil || e.Disagrees(n) != nil)
}

// holders are the nodes that a node waits for without needing them: who has its name,
// what it derives, what its operation missed, and who depends on it as it is.
func (e *Explainer) holders(n *graph.Node) (all []*graph.Node) {
	if n.Lost() != nil {
		all = append(all, n.Lost().Winner())
	}
	if t := assess.WaitsFor(n); t != "" {
		if t := e.G.Get(t); t != nil && t.Presence != graph.Present {
			all = append(all, t)
		}
	}
	switch a := e.Assess(n); a.Blocker {
	case assess.OnDerived:
		for _, child := range n.X.Children {
			if child.Wanted() && e.StateOf(child) != kv.Configured {
				all = append(all, child)
			}
		}
	case assess.OnDependents:
		all = append(all, pinner(n))
	default:
		if a.By != nil {
			all = append(all, a.By)
		}
	}
	return all
}

// unfit reports whether an edge ends at something that is in order, only not as needed.
func unfit(e *Explainer, edge *graph.Edge) bool {
	t := edge.To
	if edge.State != graph.Missing || t.Presence != graph.Present || t.Busy() || t.Leaving || t.AsLastSeen() || e.PausedBy(t) != nil {
		return false
	}
	s := e.StateOf(t)
	return s == kv.Configured || s == kv.Observed || edge.Tell() != ""
}

// anyOf visits what could become one of what is needed.
func (f *rootFinder) anyOf(n *graph.Node, edge *graph.Edge) (found finding) {
	for _, t := range f.e.candidates(edge) {
		found.add(f.visit(t, n))
	}
	if found != (finding{}) {
		return found
	}
	f.put(Root{Key: edge.Prefix(), Kind: RootNoneOf, Status: kv.Status{Key: edge.Prefix(), State: kv.Pending},
		Text: noneOf(edge), For: n.Key})
	return finding{explained: true}
}

// candidates are the keys that an edge with a prefix may mean, that are asked for and not in place. One of
// another kind than the prefix has to be as needed: the prefix is what people expect.
func (e *Explainer) candidates(edge *graph.Edge) []*graph.Node {
	var all []*graph.Node
	e.G.Members(edge, func(n *graph.Node) bool {
		if n != edge.From && n.Wanted() && e.StateOf(n) != kv.Configured && (e.isOfKind(n, edge.Prefix()) || edge.WouldPass(n)) {
			all = append(all, n)
		}
		return true
	})
	slices.SortFunc(all, assess.ByKey)
	return all
}

// isOfKind reports whether a node is of the kind that a prefix belongs to.
func (e *Explainer) isOfKind(n *graph.Node, prefix kv.Key) bool {
	return n.Kind == nil || strings.HasPrefix(string(prefix), string(n.Kind.Prefix))
}

func noneOf(edge *graph.Edge) string {
	return fmt.Sprintf("%s: %s is missing", edge.Target(), edge.Why)
}

func unfitText(edge *graph.Edge) string {
	if how := edge.Tell(); how != "" {
		return fmt.Sprintf("%s is there, but not as needed: %s", edge.To.Key, how)
	}
	return fmt.Sprintf("%s is there, but not as %s needs it: %s", edge.To.Key, edge.From.Key, edge.Why)
}

// cycle tells a cycle that a node was found to be part of, once.
func (f *rootFinder) cycle(n, from *graph.Node) {
	if f.cycles[n] {
		return
	}
	path := cycleOf(n)
	if path == nil {
		return
	}
	for _, m := range path {
		f.cycles[m] = true
	}
	f.put(Root{Key: n.Key, Kind: RootCircle, Status: f.e.statusNow(n), By: from.Key,
		Text: "they need each other in a cycle: " + cycleText(path)})
}

func (f *rootFinder) addUnfit(edge *graph.Edge) {
	f.put(Root{Key: edge.To.Key, Kind: RootUnfit, Status: f.e.statusNow(edge.To), Text: unfitText(edge),
		For: edge.From.Key, By: edge.From.Key})
}

// add makes a node a root.
func (f *rootFinder) add(n, from *graph.Node) {
	e := f.e
	r := Root{Key: n.Key}
	if from != nil {
		r.For = from.Key
	}
	if p := e.holds(n); p != nil {
		for n.Base != nil && e.PausedBy(n.Base) != nil { // what is derived is held with its base
			n = n.Base
		}
		r.Key, r.Kind, r.By, r.Until, r.HeldBack = n.Key, RootPaused, p.Target, p.Until, p.HeldBack
	} else {
		r.Kind, r.By = e.rootKind(n)
	}
	r.Status = e.statusNow(n)
	if r.Text = causeText(n, r.Status); r.Kind == RootCircle {
		r.Text += "; what it needs waits for it in turn"
	}
	f.put(r)
}

func (f *rootFinder) put(r Root) {
	same := func(o Root) bool { return o.Key == r.Key && o.Kind == r.Kind }
	if len(f.roots) < maxRoots && !slices.ContainsFunc(f.roots, same) {
		f.roots = append(f.roots, r)
	}
}

// holds finds the pause that something waits for: of what nobody wants there is nothing
// to do either way.
func (e *Explainer) holds(n *graph.Node) *assess.Pause {
	if !n.Wanted() && n.Presence == graph.Absent {
		return nil
	}
	return e.PausedBy(n)
}

// rootKind says what holds a node up by itself, and who is in the way.
func (e *Explainer) rootKind(n *graph.Node) (RootKind, kv.Key) {
	switch s, a := e.StateOf(n), e.Assess(n); {
	case s == kv.InvalidState && n.Lost() != nil:
		return RootTaken, n.Lost().Winner().Key
	case s == kv.InvalidState:
		return RootInvalid, peerOf(n)
	case s == kv.Unimplemented || kind.Of(n) == nil:
		return RootNoKind, ""
	case n.X != nil && n.X.Err != nil && (s == kv.Failed || s == kv.Retrying || s == kv.Unknown || s == kv.Leftover):
		return RootFailed, ""
	case s == kv.Drifted:
		return RootDrifted, ""
	case n.AsLastSeen(), s == kv.Unknown, notRead(n):
		return RootUnread, ""
	case n.Wanted() && n.Needs() == graph.Missing && !e.Busy(n):
		return RootCircle, peerIn(n) // of a unit in itself: else something below explained it
	case n.Wanted():
		return RootBusy, ""
	case s == kv.Leftover && a.Blocker == assess.OnBudget:
		return RootBusy, ""
	case s == kv.Leftover && (a.Blocker == assess.OnSources || a.Blocker == assess.OnUnread):
		return RootKept, ""
	case n.Presence == graph.Absent && kind.Of(n).Observed:
		return RootNotThere, ""
	case n.Presence == graph.Absent || s == kv.Leftover:
		return RootNotAsked, ""
	}
	return RootBusy, ""
}

// peerOf is who does not agree with a node that needs it together, "" if all do.
func peerOf(n *graph.Node) kv.Key {
	for _, edge := range n.Out {
		if edge.Together() && edge.OfDesired() && edge.State == graph.Missing && edge.To.Desired != nil && edge.Agree(edge.To.Desired) != nil {
			return edge.To.Key
		}
	}
	return ""
}

// peerIn is who else is in a unit that is missing itself, "" if nobody is.
func peerIn(n *graph.Node) kv.Key {
	for _, edge := range n.Out {
		if edge.OfDesired() && edge.State == graph.Missing && edge.To != nil {
			return edge.To.Key
		}
	}
	return ""
}

// notRead reports whether nothing can be told yet of an observed kind.
func notRead(n *graph.Node) bool {
	k := kind.Of(n)
	return k != nil && k.Observed && k.Reads && !k.Read && !n.Wanted()
}
