package nodes

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/intent"
	"github.com/plumb-net/plumb/plugins/kubernetes/mirror"
	"github.com/plumb-net/plumb/plugins/kubernetes/readiness"
	"github.com/plumb-net/plumb/scheduler"
)

// Name is the name of the source in transactions.
const Name = "kubernetes-nodes"

// Options of a source. Kubeconfig, Node, Decode and Engine are required.
type Options struct {
	// Kubeconfig is the path of a kubeconfig, or [mirror.InCluster]. The file may be created later.
	Kubeconfig string
	// Node is the name of the node at the API server.
	Node string
	// File is where a copy of the NodeIntents is kept, or "" for no copy.
	File string
	// Decode decodes values.
	Decode Decoder
	// Engine tells which keys are configured.
	Engine readiness.Engine
	// TakeBack, if not nil, announces that keys are withdrawn because a change is reverted; end is called after the
	// transaction. Such keys are not held back, however many they are.
	TakeBack func(keys []string) (end func())
	// Probe runs a probe.
	Probe func(ctx context.Context, probe string) error
	// Silence is for how long the API server may be silent. Zero: as in [mirror.Options].
	Silence time.Duration
	// Log gets errors and warnings. Nil: nothing is logged.
	Log *slog.Logger
}

// Source submits the values of the NodeIntents that select a node.
type Source struct {
	opts Options
	to   intent.Submitter
	news chan struct{} // signals changes of the stores

	nodes   *mirror.Store[*Node]
	intents *mirror.Store[*Intent]
	states  *mirror.Store[*state]

	followNodes, followIntents, followStates *mirror.Follower

	// The fields below are used by Run only.
	rollouts map[string]*rollout // by the name of the NodeIntent
	wants    wants
	checked  map[string]checked // by the name of the NodeIntent
	// settled is closed when the last transaction has settled; nil if it has.
	settled <-chan struct{}
	// began is when Run began.
	began    time.Time
	complete bool
	held     bool // as in known, when the source looked last
	keys     keyWatch
	calls    calls
	// stateWrote is when the NodeIntentState of a NodeIntent was written last.
	stateWrote map[string]time.Time
	// wake is when the source has to look again.
	wake time.Time

	mu     sync.Mutex // guards the fields below
	health models.Health
	// wrong are the errors of NodeIntents that cannot be read, by name.
	wrong    map[string]error
	applied  int   // values
	writeErr error // of the last status that was to be written
}

// checked is a text that was read, and the error.
type checked struct {
	text string
	err  error
}

// New returns a source that reads the NodeIntents of a node.
func New(to intent.Submitter, o Options) *Source {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.TakeBack == nil {
		o.TakeBack = func([]string) func() { return func() {} }
	}
	s := &Source{opts: o, to: to, news: make(chan struct{}, 1), rollouts: map[string]*rollout{}, checked: map[string]checked{},
		calls: newCalls(), stateWrote: map[string]time.Time{}, keys: newKeyWatch(), wrong: map[string]error{},
		health: models.Health{Name: Name, State: "starting", Reason: mirror.ErrNever.Error(), Since: time.Now()}}
	s.nodes = mirror.NewStore(nodeResource, trimNode, s.news)
	s.intents = mirror.NewStore(intentResource, trimIntent, s.news)
	s.states = mirror.NewStore(stateResource, trimState, s.news)
	follow := mirror.Options{Kubeconfig: o.Kubeconfig, Node: o.Node, Silence: o.Silence, Log: o.Log, Changed: s.report}
	follow.Resource, follow.Store = nodeResource, s.nodes
	s.followNodes = mirror.NewFollower(follow)
	follow.Resource, follow.Store = intentResource, s.intents
	s.followIntents = mirror.NewFollower(follow)
	follow.Resource, follow.Store = stateResource, s.states
	s.followStates = mirror.NewFollower(follow)
	return s
}

// Name implements [intent.Source].
func (s *Source) Name() string { return Name }

// Place implements [intent.Source]: NodeIntents have no places.
func (s *Source) Place(string) string { return "" }

// Accept accepts an API server that is older than before, or that lost its NodeIntents: values that it lacks are
// withdrawn.
func (s *Source) Accept() {
	s.intents.Accept()
	s.states.Accept()
}

// Run implements [intent.Source].
func (s *Source) Run(ctx context.Context) error {
	s.began = time.Now()
	s.load()
	var beside sync.WaitGroup
	defer beside.Wait()
	for _, f := range []*mirror.Follower{s.followNodes, s.followIntents, s.followStates} {
		beside.Go(func() { f.Run(ctx) })
	}
	defer s.calls.wait()
	defer func() { s.keys.stop() }()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			if err := s.save(); err != nil {
				s.opts.Log.Warn("cannot write NodeIntent copy", "error", err)
			}
			return nil
		case <-s.news:
		case <-s.keys.moved:
		case <-s.settled:
			s.settled = nil
		case done := <-s.calls.done:
			done()
		case <-timer.C:
		}
		s.wake = time.Now().Add(time.Hour)
		s.look(ctx, time.Now())
		s.report()
		timer.Reset(time.Until(s.wake))
	}
}

// by schedules the next look for no later than at.
func (s *Source) by(at time.Time) {
	if at.Before(s.wake) {
		s.wake = at
	}
}

// known is a snapshot of the stores.
type known struct {
	node *Node
	list []*Intent // that select the node, by precedence
	// answered reports whether the NodeIntents, the labels of the node and its NodeIntentStates are known, as far as the
	// API server has them.
	answered bool
	// held reports whether the API server is older than before: nothing is withdrawn until an operator accepts that.
	held bool
}

// known reads the stores, and adapts the rollouts to the NodeIntents that there are.
func (s *Source) known() (k known, changed bool) {
	if st := s.states.State(); st.Leaving > 0 || st.Lost || st.Older {
		s.states.Accept() // agents write these objects, and write missing ones again
	}
	_, _, _ = s.nodes.Take()
	dirty, answeredStates, _ := s.states.Take()
	_, answered, older := s.intents.Take()
	k.node, k.held, k.answered = s.nodes.Get("/"+s.opts.Node), older, answered && answeredStates
	there := map[string]*Intent{}
	for _, i := range s.intents.All() {
		if _, known := s.rollouts[i.Name]; k.node == nil && i.needsLabels() {
			// The labels of the node are unknown. NodeIntents that selected it before still do.
			k.answered = k.answered && s.nodes.State().Listed
			if !known {
				continue
			}
		} else if !i.selects(k.node) {
			continue
		}
		there[i.Name] = i
		k.list = append(k.list, i)
	}
	slices.SortFunc(k.list, (*Intent).compare)
	for name := range dirty {
		s.countSoon(name)
	}
	for _, i := range k.list {
		if c := i.Status.Conditions; len(c) == 0 || c[0].ObservedGeneration != i.Generation {
			s.countSoon(i.Name)
		}
	}
	if len(k.list) == 0 && s.states.State().Objects == 0 {
		s.noteWrite(nil) // nothing is to be written
	}
	for name := range s.rollouts {
		if there[name] == nil && !k.held {
			delete(s.rollouts, name)
			delete(s.checked, name)
			delete(s.stateWrote, name)
			s.calls.forget(name)
			s.note(name, nil)
			changed = true
		}
	}
	for _, i := range k.list {
		r := s.rollouts[i.Name]
		switch {
		case r == nil:
			s.rollouts[i.Name] = &rollout{Name: i.Name, UID: i.UID}
		case r.UID != i.UID:
			// It was deleted and created again. Its values stay until its new ones are applied.
			again := &rollout{Name: i.Name, UID: i.UID, Deadline: r.Deadline}
			if r.Kept != nil {
				again.Kept = &revision{Text: r.Kept.Text}
			}
			if r.Trial != nil {
				again.Trial = &revision{Text: r.Trial.Text}
			}
			s.rollouts[i.Name] = again
		default:
			continue
		}
		changed = true
	}
	return k, changed
}

// look carries out all pending operations.
func (s *Source) look(ctx context.Context, now time.Time) {
	k, changed := s.known()
	if s.wants.values == nil {
		// The values of the copy. Whether they are configured decides the next steps. A trial whose deadline has passed is
		// wanted first and then reverted: before all sources have synced, only keys that a source has wanted in this run are
		// withdrawn.
		s.submit(k, false)
	}
	reverted := false
	for _, i := range k.list {
		moved, back := s.advance(ctx, i, now)
		changed, reverted = changed || moved, reverted || back
	}
	if changed {
		// Before values are applied: a trial that is interrupted has to be known afterwards.
		if err := s.save(); err != nil {
			s.opts.Log.Warn("cannot write NodeIntent copy", "error", err)
		}
	}
	accepted := s.held && !k.held
	s.held = k.held
	if changed || accepted || k.answered && !s.complete {
		s.submit(k, reverted)
	}
	for _, i := range k.list {
		s.showState(ctx, k, i, now)
	}
	s.forget(ctx, k)
	s.showCounts(ctx, now)
}

// advance makes the steps of one NodeIntent that are possible, and begins the calls that the next one needs.
func (s *Source) advance(ctx context.Context, i *Intent, now time.Time) (changed, reverted bool) {
	r := s.rollouts[i.Name]
	f := facts{intent: i, now: now, turn: i.holds(s.opts.Node)}
	f.wrong = s.check(i.Name, i.Text)
	s.note(i.Name, f.wrong)
	own := s.own(i)
	if !s.complete && own != nil && own.status.State == stateReady && own.status.NodeIntentUID == i.UID {
		f.shown = own.status.AppliedGeneration
	}
	before := r.Trial
	if r.Trial != nil {
		v := s.verdict(ctx, i.Name)
		f.ready, f.trouble = v.State == readiness.Ready, v.Reason
		if f.ready {
			f.works, f.trouble = s.calls.worked(i)
		} else {
			s.calls.forgetWorked(i)
		}
		if !r.Deadline.IsZero() {
			s.by(r.Deadline)
			if r.Deadline.Before(s.began) {
				f.trouble = "the agent did not run then"
			}
		}
	}
	next, changed := r.step(f)
	switch {
	case changed:
		s.by(now)
		reverted = before != nil && r.Trial == nil && r.Kept != before
		if reverted {
			s.opts.Log.Warn("NodeIntent reverted", "nodeintent", i.Name, "generation", before.Generation, "reason", r.Reason)
		}
	case next == claimTurn && own != nil && s.intents.State().Listed: // the others count the nodes by their states
		s.claim(ctx, i, now)
	case next == endTurn:
		s.endTurn(ctx, i)
	case next == runProbes:
		s.probe(ctx, i)
	}
	return changed, reverted
}

// check returns why the text of a NodeIntent cannot be read, or nil.
func (s *Source) check(name, text string) error {
	if c, ok := s.checked[name]; ok && c.text == text {
		return c.err
	}
	c := checked{text: text}
	_, c.err = valuesOf(text, s.opts.Decode)
	s.checked[name] = c
	return c.err
}

// verdict returns whether the values of a NodeIntent that count are configured.
func (s *Source) verdict(ctx context.Context, name string) readiness.Verdict {
	v, err := readiness.Of(ctx, s.opts.Engine, s.wants.keys[name])
	switch refused := s.wants.refused[name]; {
	case err != nil:
		v.State, v.Reason = readiness.Pending, err.Error()
	case s.settled != nil && v.State == readiness.Ready && s.rollouts[name] != nil && s.rollouts[name].Trial != nil:
		v.State, v.Reason = readiness.Pending, "operations run"
	case v.State != readiness.Ready:
		v.Reason = fmt.Sprintf("%s is %s: %s", v.Worst.Key, v.Worst.State, v.Reason)
	case refused != "":
		v.State, v.Reason = readiness.Failed, refused
	}
	return v
}

// submit submits the changes of values.
func (s *Source) submit(k known, reverted bool) {
	list := make([]*rollout, 0, len(s.rollouts))
	ranked := map[string]bool{}
	for _, i := range k.list {
		list = append(list, s.rollouts[i.Name])
		ranked[i.Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(s.rollouts)) { // while the API server is older
		if !ranked[name] {
			list = append(list, s.rollouts[name])
		}
	}
	was := s.wants.values
	s.wants = wantsOf(list, func(r *rollout) (intent.Values, error) { return valuesOf(r.counts().Text, s.opts.Decode) })
	for key, v := range was {
		if _, wanted := s.wants.values[key]; k.held && !wanted {
			s.wants.values[key] = v
		}
	}
	txn := scheduler.Txn{Source: Name, AsPreviewed: true, Want: intent.Changes(was, s.wants.values)}
	if k.answered && !s.complete && s.restored(k) {
		s.complete = true
		txn.Complete, txn.Want = true, intent.Changes(nil, s.wants.values)
	}
	s.mu.Lock()
	s.applied = len(s.wants.values)
	s.mu.Unlock()
	if !txn.Complete && len(txn.Want) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(s.wants.keys))
	if txn.Note = fmt.Sprintf("%d NodeIntents", len(names)); len(names) == 1 {
		txn.Note = "NodeIntent " + names[0]
	}
	if reverted {
		var keys []string
		for _, c := range txn.Want {
			if c.Value == nil && c.Invalid == nil {
				keys = append(keys, string(c.Key))
			}
		}
		defer s.opts.TakeBack(keys)()
		txn.Note += ", reverted"
	}
	if h := s.to.Submit(txn); h != nil {
		s.settled = h.Done()
	}
	s.keys.follow(s.opts.Engine, s.wants.values)
}

// restored reports whether the values of all NodeIntents that the node has applied are known. Values of a generation that the
// API server no longer has are unknown without the copy, and stay as they are until the node applies the next one.
func (s *Source) restored(k known) bool {
	return !slices.ContainsFunc(k.list, func(i *Intent) bool {
		own := s.own(i)
		return own != nil && own.status.AppliedGeneration != 0 && own.status.NodeIntentUID == i.UID && s.rollouts[i.Name].unknown()
	})
}

// own returns the NodeIntentState of a NodeIntent on this node, or nil.
func (s *Source) own(i *Intent) *state {
	own := s.states.Get("/" + stateName(i.Name, s.opts.Node))
	if own == nil || s.calls.deleted[own.uid] {
		return nil
	}
	return own
}

// digest returns a short digest of a text.
func digest(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:6]
}

// keyWatch follows the keys of the source.
type keyWatch struct {
	moved chan struct{} // signals changes
	keys  string
	stop  func()
}

func newKeyWatch() keyWatch { return keyWatch{moved: make(chan struct{}, 1), stop: func() {}} }

// follow replaces the watched keys.
func (w *keyWatch) follow(e readiness.Engine, values intent.Values) {
	keys := slices.Sorted(maps.Keys(values))
	text := fmt.Sprint(keys)
	if text == w.keys {
		return
	}
	w.stop()
	w.keys, w.stop = text, func() {}
	if len(keys) == 0 {
		return
	}
	prefixes := readiness.Prefixes(keys)
	ctx, cancel := context.WithCancel(context.Background())
	watcher := e.Watch(prefixes...)
	ended := make(chan struct{})
	moved := w.moved
	go func() {
		defer close(ended)
		for {
			if _, _, err := watcher.Next(ctx); err != nil {
				return
			}
			select {
			case moved <- struct{}{}:
			default:
			}
		}
	}()
	w.stop = func() {
		cancel()
		watcher.Stop()
		<-ended
	}
}

// short returns the text of err, shortened for a condition message.
func short(err error) string { return readiness.Message(strings.TrimSpace(err.Error())) }
