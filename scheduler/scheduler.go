package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/plumb-net/plumb/scheduler/history"
	"github.com/plumb-net/plumb/scheduler/internal/assess"
	"github.com/plumb-net/plumb/scheduler/internal/engine"
	"github.com/plumb-net/plumb/scheduler/internal/exec"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
)

// Scheduler keeps the actual state as its sources want it while Run runs. Make one with
// [New]. All methods may be called from any goroutine; none but Run, Apply, Inspect,
// WaitForSources and WaitForKinds waits for anything but the loop, which never waits for I/O. Wait of a
// [Handle] and Next of a [Watcher] or a [Follower] wait too. What was submitted
// before Run is done when it runs.
type Scheduler struct {
	opts Options
	hist *history.Log
	l    *loop // once Run runs it

	ctx        context.Context // of everything in the background
	cancel     context.CancelFunc
	background sync.WaitGroup
	stopped    chan struct{}

	previews previews

	working sync.Mutex // held by whoever runs the loop
	rounds  atomic.Uint64
	busy    atomic.Int64 // how long they took, in nanoseconds
	longest atomic.Int64 // how long the longest took

	mu      sync.Mutex
	started bool
	ended   bool
	inputs  []input
	spare   []input            // room for the next ones
	heard   map[Key]*kind.Kind // keys that Watch functions reported
	wake    chan struct{}
	timer   func() bool
	timerAt time.Time
	logs    chan func()
}

// input is one thing that the loop is told.
type input struct {
	txn     *Txn
	handle  *Handle
	done    []*kind.Op
	call    func(*loop)
	ack     chan struct{}
	abandon *Handle
}

// New makes a scheduler; it works once Run is called. Kinds may be registered
// and transactions submitted before.
func New(o Options) *Scheduler {
	s := &Scheduler{opts: o.withDefaults(), wake: make(chan struct{}, 1), stopped: make(chan struct{}), heard: map[Key]*kind.Kind{}}
	s.previews = previews{s: s, copying: make(chan struct{}, 1)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	as := assess.New(s.opts.policies, s.opts.Sources)
	s.hist = history.New(s.opts.HistoryCount, s.opts.HistoryBytes, s.opts.Clock.Now(), as.SourceName)
	e := engine.New(as, engine.Settings{RetryMin: s.opts.RetryMin, RetryMax: s.opts.RetryMax, Jitter: s.opts.Jitter, Timeout: s.opts.Timeout,
		Rand: s.opts.Rand}, s.hist, s.opts.Clock.Now(), s.wakeAt, s.logf)
	s.l = newLoop(e, s.opts, s.push)
	if s.opts.Log != nil {
		s.logs = make(chan func(), 256)
	}
	e.Exec = exec.New(s.opts.Clock, s.opts.Workers, s.outcome)
	e.Seq = s.hist.Earlier(s.opts.Earlier)
	e.Began, s.opts.Earlier = e.Seq, nil
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
	s.push(input{call: (*loop).setClocks})
	stop := context.AfterFunc(ctx, s.poke)
	defer stop()
	s.poke()
	for {
		<-s.wake
		if ctx.Err() != nil {
			break
		}
		s.working.Lock()
		s.round()
		s.working.Unlock()
	}
	return s.shutdown()
}

// begin makes the loop the owner of the engine; false if it is already.
func (s *Scheduler) begin() bool {
	s.working.Lock()
	defer s.working.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.started
	s.started, s.l.running = true, true
	return !was
}

func (s *Scheduler) shutdown() error {
	s.cancel()
	left := s.l.Exec.Close(s.opts.StopTimeout)
	s.working.Lock()
	defer s.working.Unlock()
	s.l.runs.LeaveAll("the scheduler stopped")
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
	open := s.l.expected
	for _, w := range s.l.waiters {
		if w.handle != nil {
			open = append(open, w.handle)
		}
	}
	for _, h := range open {
		h.err = ErrStopped
		close(h.done)
		if h.announced != nil {
			h.announced.err = ErrStopped
			close(h.announced.done)
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
	if !s.working.TryLock() {
		s.poke()
		return
	}
	defer s.working.Unlock()
	s.mu.Lock()
	runs := s.started && !s.ended
	s.mu.Unlock()
	if runs {
		s.round()
	}
}

// outcome takes in what operations ended as. last tells that the worker has
// nothing else to do.
func (s *Scheduler) outcome(done []*kind.Op, last bool) {
	switch s.put(input{done: done}); {
	case last:
		s.help()
	default:
		s.poke()
	}
}

// round takes all inputs that have come and ends with one turn. The caller
// holds working.
func (s *Scheduler) round() {
	inputs := s.takeIn()
	s.l.turn()
	s.rounds.Add(1)
	took := int64(s.opts.Clock.Now().Sub(s.l.Now))
	s.busy.Add(took)
	s.longest.Store(max(took, s.longest.Load())) // only here, with working held
	for _, in := range inputs {
		if in.ack != nil {
			close(in.ack)
		}
	}
	if cap(inputs) > engine.MaxSpare {
		return
	}
	clear(inputs)
	s.mu.Lock()
	s.spare = inputs[:0]
	s.mu.Unlock()
}

// Figures are how much the loop has to do.
type Figures struct {
	// Rounds counts those of the loop, Busy is how long all of them took, and Longest how
	// long the longest took: for so long nothing else was done.
	Rounds        uint64
	Busy, Longest time.Duration
	// Inputs wait for the next round, Operations for a worker, batches counted as one.
	Inputs, Operations int
	// History is how many bytes the history takes, roughly.
	History int
}

// Figures tells how much the loop has to do. It does not ask the loop.
func (s *Scheduler) Figures() Figures {
	s.mu.Lock()
	inputs := len(s.inputs)
	s.mu.Unlock()
	return Figures{Rounds: s.rounds.Load(), Busy: time.Duration(s.busy.Load()), Longest: time.Duration(s.longest.Load()), Inputs: inputs,
		Operations: s.l.Exec.Waiting(), History: s.hist.Bytes()}
}

// takeIn takes all inputs that have come.
func (s *Scheduler) takeIn() []input {
	s.mu.Lock()
	inputs := s.inputs
	s.inputs, s.spare = s.spare, nil
	var heard map[Key]*kind.Kind
	if len(s.heard) > 0 {
		heard, s.heard = s.heard, map[Key]*kind.Kind{}
	}
	s.mu.Unlock()
	e := s.l
	e.Now = s.opts.Clock.Now()
	e.Due()
	e.hear(heard)
	for i, in := range inputs {
		e.queued = len(inputs) - i - 1
		e.take(in)
	}
	return inputs
}

// take is the one door into the loop.
func (l *loop) take(in input) {
	switch {
	case in.done != nil:
		for _, o := range in.done {
			if !l.runs.Done(o) {
				l.Settle(o)
				l.Ops.Put(o)
			}
		}
		l.SettleDirty()
	case in.txn != nil:
		l.submitted(in.txn, in.handle)
	case in.call != nil:
		l.turn() // so that a caller reads what it wrote
		in.call(l)
	case in.abandon != nil:
		l.leaveOff(&in.abandon.waiter)
	}
}

// hear takes in what Watch functions reported.
func (l *loop) hear(heard map[Key]*kind.Kind) {
	if len(heard) == 0 {
		return
	}
	keys := make([]Key, 0, len(heard))
	for k := range heard {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	l.Seq++
	l.G.Cause, l.G.Via = l.Seq, nil
	r := l.Note(heard[keys[0]].Name, "change seen", nil)
	r.Asked, r.AskedTotal = keys[:min(len(keys), history.MaxAsked)], len(keys)
	l.KeepProvisional(r)
	l.LookAt(keys, false)
	l.G.Cause = 0
}

func (s *Scheduler) hear(k *kind.Kind, keys []Key) {
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
func (s *Scheduler) call(f func(*loop)) error {
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
func (s *Scheduler) callEarly(f func(*loop)) error {
	s.working.Lock()
	s.mu.Lock()
	started := s.started
	s.mu.Unlock()
	if !started {
		s.takeIn()
		f(s.l)
	}
	s.working.Unlock()
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
	if err := s.l.checkTxn(t); err != nil {
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

// Retry makes keys that wait for their next try ready at once; others it
// leaves alone. After the end it does nothing.
func (s *Scheduler) Retry(keys ...Key) {
	_ = s.call(func(l *loop) {
		l.WithRecord("", "retry", func() {
			for _, k := range keys {
				if n := l.G.Get(k); n != nil {
					l.TryAgain(n)
				}
			}
		})
	})
}

// logf hands a line to the log without waiting for it; a full queue drops.
func (s *Scheduler) logf(level slog.Level, msg string, args ...any) {
	if s.logs == nil {
		return
	}
	select {
	case s.logs <- func() { s.opts.Log.Log(context.Background(), level, msg, args...) }:
	default:
	}
}

func (s *Scheduler) writeLogs() {
	for {
		select {
		case f := <-s.logs:
			f()
		case <-s.stopped:
			for {
				select {
				case f := <-s.logs:
					f()
				default:
					return
				}
			}
		}
	}
}
