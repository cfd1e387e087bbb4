package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/plumb-net/plumb/scheduler/graph"
	"github.com/plumb-net/plumb/scheduler/history"
	"github.com/plumb-net/plumb/scheduler/internal/exec"
)

// Scheduler keeps the world as its sources want it while Run runs. Make one with
// [New]. All methods may be called from any goroutine; none but Run, Apply and
// Inspect waits for anything but the loop, which never waits for I/O. Wait of a
// [Handle] and Next of a [Watcher] or a [Follower] wait too. What was submitted
// before Run is done when it runs.
type Scheduler struct {
	opts Options
	hist *history.Log
	e    *engine // owned by the loop once it runs

	ctx        context.Context // of everything in the background
	cancel     context.CancelFunc
	background sync.WaitGroup
	stopped    chan struct{}

	loop sync.Mutex // held by whoever works for the loop

	mu      sync.Mutex
	started bool
	ended   bool
	inputs  []input
	spare   []input       // room for the next ones
	heard   map[Key]*kind // keys that Watch functions reported
	wake    chan struct{}
	timer   func() bool
	timerAt time.Time
	logs    chan func()
}

// input is one thing that the loop is told.
type input struct {
	txn     *Txn
	handle  *Handle
	done    []*op
	call    func(*engine)
	ack     chan struct{}
	abandon *Handle
}

// New makes a scheduler; it works once Run is called. Kinds may be registered
// and transactions submitted before.
func New(o Options) *Scheduler {
	s := &Scheduler{opts: o.withDefaults(), wake: make(chan struct{}, 1), stopped: make(chan struct{}), heard: map[Key]*kind{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	as := newAssessor(s.opts)
	s.hist = history.New(s.opts.HistoryCount, s.opts.HistoryBytes, s.opts.Clock.Now(), as.sourceName)
	e := &engine{assessor: as, explainer: &explainer{as}, opts: s.opts, hist: s.hist, log: s.opts.Log,
		unkept: map[uint64]*Record{}, refused: map[*graph.Node][]*graph.Node{}, places: newPlaces(), toldBusy: map[*graph.Node]bool{}, lookers: map[uint64]*Handle{}, blocked: map[Key]map[*graph.Node]bool{},
		now: s.opts.Clock.Now(), wakeAt: s.wakeAt, inbox: s.push, logf: s.logf}
	e.out = e
	if s.opts.Log != nil {
		s.logs = make(chan func(), 256)
	}
	e.exec = exec.New(s.opts.Clock, s.opts.Workers, s.outcome)
	e.seq = s.hist.Earlier(s.opts.Earlier)
	e.began, s.opts.Earlier, e.opts.Earlier = e.seq, nil, nil
	s.e = e
	return s
}

// Run works until ctx ends, then waits for operations under way, up to
// Options.StopTimeout; halfway their contexts end. The error names what it left
// running; but for that no goroutine is left when it returns. Whoever waits
// then gets ErrStopped. A scheduler runs once.
func (s *Scheduler) Run(ctx context.Context) error {
	if !s.begin() {
		return errors.New("the scheduler is running already, or was")
	}
	if s.logs != nil {
		s.background.Go(s.writeLogs)
	}
	s.push(input{call: (*engine).setClocks})
	stop := context.AfterFunc(ctx, s.poke)
	defer stop()
	s.poke()
	for {
		<-s.wake
		if ctx.Err() != nil {
			break
		}
		s.loop.Lock()
		s.round()
		s.loop.Unlock()
	}
	return s.shutdown()
}

// begin makes the loop the owner of the engine; false if it is already.
func (s *Scheduler) begin() bool {
	s.loop.Lock()
	defer s.loop.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.started
	s.started, s.e.runs = true, true
	return !was
}

func (s *Scheduler) shutdown() error {
	s.cancel()
	left := s.e.exec.Close(s.opts.StopTimeout)
	s.loop.Lock()
	defer s.loop.Unlock()
	s.e.leaveWalks("the scheduler stopped")
	s.round() // outcomes of what ended meanwhile
	s.mu.Lock()
	s.ended = true
	inputs := s.inputs
	s.inputs = nil
	if s.timer != nil {
		s.timer()
	}
	s.mu.Unlock()
	close(s.stopped)
	for _, in := range inputs {
		in.refuse()
	}
	open := s.e.expected
	for _, w := range s.e.waiters {
		if w.handle != nil {
			open = append(open, w.handle)
		}
	}
	for _, h := range open {
		h.err = ErrStopped
		close(h.done)
		if h.twin != nil {
			h.twin.err = ErrStopped
			close(h.twin.done)
		}
	}
	s.background.Wait()
	if len(left) > 0 {
		return fmt.Errorf("stopped while operations still run on %v", left)
	}
	return nil
}

func (in input) refuse() {
	if in.handle != nil {
		in.handle.err = ErrStopped
		close(in.handle.done)
	}
}

// help does the loop's work in the caller's goroutine, unless somebody is at it
// or Run is not there to take over. Who has brought an input and would only
// wait for what comes of it saves two switches between goroutines that way.
func (s *Scheduler) help() {
	if !s.loop.TryLock() {
		s.poke()
		return
	}
	defer s.loop.Unlock()
	s.mu.Lock()
	runs := s.started && !s.ended
	s.mu.Unlock()
	if runs {
		s.round()
	}
}

// outcome takes in what operations ended as. last tells that the worker has
// nothing else to do.
func (s *Scheduler) outcome(done []*op, last bool) {
	switch s.put(input{done: done}); {
	case last:
		s.help()
	default:
		s.poke()
	}
}

// round takes all inputs that have come and ends with one turn. The caller
// holds loop.
func (s *Scheduler) round() {
	inputs := s.takeIn()
	s.e.turn()
	for _, in := range inputs {
		if in.ack != nil {
			close(in.ack)
		}
	}
	if cap(inputs) > maxSpare {
		return
	}
	clear(inputs)
	s.mu.Lock()
	s.spare = inputs[:0]
	s.mu.Unlock()
}

// takeIn takes all inputs that have come.
func (s *Scheduler) takeIn() []input {
	s.mu.Lock()
	inputs := s.inputs
	s.inputs, s.spare = s.spare, nil
	var heard map[Key]*kind
	if len(s.heard) > 0 {
		heard, s.heard = s.heard, map[Key]*kind{}
	}
	s.mu.Unlock()
	e := s.e
	e.now = s.opts.Clock.Now()
	e.due()
	e.hear(heard)
	for _, in := range inputs {
		e.take(in)
	}
	return inputs
}

// take is the one door into the engine.
func (e *engine) take(in input) {
	switch {
	case in.done != nil:
		for _, o := range in.done {
			if !e.stepDone(o) {
				e.settle(o)
				e.ops.put(o)
			}
		}
		e.think()
	case in.txn != nil:
		e.submitted(in.txn, in.handle)
	case in.call != nil:
		e.turn() // so that a caller reads what it wrote
		in.call(e)
	case in.abandon != nil:
		e.leaveOff(&in.abandon.waiter)
	}
}

// submitted edits a transaction.
func (e *engine) submitted(t *Txn, h *Handle) {
	sim, err := e.planned(t, h)
	if err != nil {
		h.err = err
		close(h.done)
		return
	}
	e.seq++
	h.result.Seq = e.seq
	if sim != nil {
		e.setOut(h, sim)
	}
	e.g.Cause, e.g.Via = e.seq, nil
	defer func() { e.g.Cause = 0 }()
	if h.txn.Revert && h.before == nil && !h.reverted {
		h.before = e.wantsBefore(*t)
	}
	touched := e.edit(*t)
	e.unleaveAsked(t)
	touched = append(touched, e.lookAt(t.Look, true)...)
	if t.LookAll {
		e.lookAtAll()
	}
	r := e.note(*t, touched)
	r.Deviation = h.result.Deviation
	before := len(e.ready)
	e.think()
	notePlanned(r, e.ready[before:])
	if len(t.Want) > 0 || t.Complete {
		e.hist.Add(r)
	} else {
		e.keepLater(r)
	}
	if !h.reverted {
		h.keys, h.named = touched, len(touched)
	}
	if (t.LookAll || len(t.Look) > 0) && !t.hint {
		e.lookers[e.seq] = h
	}
	h.kinds = e.lookedAtWhole(t)
	e.await(&h.waiter)
}

// lookedAtWhole are the kinds of which the transaction has everything read.
func (e *engine) lookedAtWhole(t *Txn) (out []*kind) {
	for _, k := range e.kinds.all() {
		named := func(key Key) bool { return strings.HasPrefix(string(k.Prefix), string(key)) }
		if (k.look.all || k.look.running) && (t.LookAll || slices.ContainsFunc(t.Look, named)) {
			out = append(out, k)
		}
	}
	return out
}

const maxUnkept = 4096

// keepLater holds the record of a look back until something comes of it: an
// echo of our own act leaves no trace in the history.
func (e *engine) keepLater(r *Record) {
	if len(e.unkept) >= maxUnkept {
		clear(e.unkept)
	}
	e.unkept[r.Seq] = r
}

func (e *engine) wantsBefore(t Txn) []Change {
	src := e.sourceIndex(t.Source)
	before := make([]Change, 0, len(t.Want))
	for _, c := range t.Want {
		prev := Change{Key: c.Key}
		if n := e.g.Get(c.Key); n != nil {
			if n.X != nil && n.X.Wants != nil {
				for _, w := range n.X.Wants {
					if w.Source == src {
						prev.Value, prev.Invalid = w.Value, w.Invalid
					}
				}
			} else if n.Source == src {
				prev.Value = n.Desired
			}
		}
		before = append(before, prev)
	}
	return before
}

// hear takes in what Watch functions reported.
func (e *engine) hear(heard map[Key]*kind) {
	if len(heard) == 0 {
		return
	}
	keys := make([]Key, 0, len(heard))
	for k := range heard {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	e.seq++
	e.g.Cause, e.g.Via = e.seq, nil
	r := e.note(Txn{Source: heard[keys[0]].Name, Note: "change seen"}, nil)
	r.Asked, r.AskedTotal = keys[:min(len(keys), history.MaxAsked)], len(keys)
	e.keepLater(r)
	e.lookAt(keys, false)
	e.g.Cause = 0
}

func (s *Scheduler) hear(k *kind, keys []Key) {
	s.mu.Lock()
	for _, key := range keys {
		s.heard[key] = k
	}
	s.mu.Unlock()
	s.poke()
}

func (s *Scheduler) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// push hands an input to the loop.
func (s *Scheduler) push(in input) {
	s.put(in)
	s.poke()
}

// put leaves an input for the next round.
func (s *Scheduler) put(in input) {
	s.mu.Lock()
	ended := s.ended
	if !ended {
		s.inputs = append(s.inputs, in)
	}
	s.mu.Unlock()
	if ended {
		in.refuse()
	}
}

// call runs f in the loop and waits for it. Before Run it runs at once.
func (s *Scheduler) call(f func(*engine)) error {
	s.mu.Lock()
	switch {
	case s.ended:
		s.mu.Unlock()
		return ErrStopped
	case !s.started:
		s.mu.Unlock()
		return s.callEarly(f)
	}
	ack := make(chan struct{})
	s.inputs = append(s.inputs, input{call: f, ack: ack})
	s.mu.Unlock()
	s.help()
	select {
	case <-ack:
		return nil
	case <-s.stopped:
		select {
		case <-ack:
			return nil
		default:
			return ErrStopped
		}
	}
}

// callEarly runs f before Run, unless that begins just now, on what was submitted
// before it.
func (s *Scheduler) callEarly(f func(*engine)) error {
	s.loop.Lock()
	s.mu.Lock()
	started := s.started
	s.mu.Unlock()
	if !started {
		s.takeIn()
		f(s.e)
	}
	s.loop.Unlock()
	if started {
		return s.call(f)
	}
	return nil
}

// wakeAt asks for a round at a time; only the earliest wish counts.
func (s *Scheduler) wakeAt(at time.Time) {
	now := s.opts.Clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil && !s.timerAt.After(at) && s.timerAt.After(now) {
		return
	}
	if s.timer != nil {
		s.timer()
	}
	s.timerAt = at
	s.timer = s.opts.Clock.AfterFunc(max(at.Sub(now), 0), s.poke)
}

// Submit hands a transaction over and does not wait. Transactions are edited
// in the order of Submit. Wait tells when one is refused: with ErrUnknownSource,
// with ErrBaseMoved, for a key that names nothing, or with ErrStopped.
func (s *Scheduler) Submit(t Txn) *Handle {
	h := s.submit(t)
	s.poke()
	return h
}

func (s *Scheduler) submit(t Txn) *Handle {
	h := newHandle(s, t)
	if err := s.e.checkTxn(t); err != nil {
		h.err = err
		close(h.done)
		return h
	}
	s.put(input{txn: &t, handle: h})
	return h
}

// Apply submits a transaction and waits until its keys are settled. When ctx
// ends first, the transaction goes on and only the waiting ends. The error
// tells that the transaction was refused or the waiting ended, see [Handle.Wait];
// what became of the keys is in the Result. Calling it inside an operation or a
// pure function of a descriptor may wait for itself.
func (s *Scheduler) Apply(ctx context.Context, t Txn) (Result, error) {
	h := s.submit(t)
	s.help()
	return h.Wait(ctx)
}

// checkTxn refuses transactions that mean nothing. It reads only what never changes.
func (e *engine) checkTxn(t Txn) error {
	if (len(t.Want) > 0 || t.Complete) && e.sourceIndex(t.Source) < 0 {
		return fmt.Errorf("%w %q: name one of Options.Sources", ErrUnknownSource, t.Source)
	}
	for _, c := range t.Want {
		if c.Key == "" || strings.HasSuffix(string(c.Key), "/") {
			return fmt.Errorf("a transaction wants the key %q, which names nothing", c.Key)
		}
	}
	return nil
}

func (as *assessor) sourceIndex(name string) int8 {
	for i := range as.sources {
		if as.sources[i].name == name {
			return int8(i)
		}
	}
	return -1
}

// Retry makes keys that wait for their next try ready at once; others it
// leaves alone. After the end it does nothing.
func (s *Scheduler) Retry(keys ...Key) {
	_ = s.call(func(e *engine) {
		e.because("", "retry", func() {
			for _, k := range keys {
				if n := e.g.Get(k); n != nil && has(n, flagHeld) {
					e.release(n)
				}
			}
		})
	})
}
