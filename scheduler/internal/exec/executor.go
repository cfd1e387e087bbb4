package exec

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Operation is something to run. Its methods may be called from any goroutine; Ended and
// Overdue are called by the worker that ran it, or by the keeper of deadlines.
type Operation[O any] interface {
	// Name is what people know it by.
	Name() string
	// Lane names what it must be alone on, "" if nothing.
	Lane() string
	// Group is what it may be done together with, nil if it is done by itself.
	Group() *Group
	// Limit is how long it may take.
	Limit() time.Duration
	// Run does it, or all of a batch that it is the first of.
	Run(ctx context.Context, batch []O)
	// Ended notes when it was begun, and how long it took.
	Ended(start time.Time, took time.Duration)
	// Overdue is a report that it has run since start, past its limit; false if nobody
	// is told of that.
	Overdue(start time.Time) (O, bool)
}

// Group stands for operations that can be done many at a time. It is compared by its
// address.
type Group struct{ _ byte }

// Clock is how the executor knows the time.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f in its own goroutine after d; stop prevents that.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// Executor runs operations.
//
// Operations of one named lane run one after another. All others are taken,
// in order, by a bounded number of workers. A worker whose operation takes
// longer than slowAfter no longer counts, and another takes its place: so an
// operation that hangs delays only its own key and lane.
type Executor[O Operation[O]] struct {
	base
	max int // workers that count
	// outcome hands operations over that have ended, or are overdue; last: the worker is
	// free now.
	outcome func(done []O, last bool)

	mu      sync.Mutex
	queue   []task[O] // ready for any worker
	head    int
	named   map[string][]O // waiting behind the one that runs; present while one runs
	workers int            // counted ones
	idle    int
	// returning are workers that will take work in a moment.
	returning int
	ready     sync.Cond
	closed    bool
	all       sync.WaitGroup
	running   map[*run[O]]struct{} // everything under way, for deadlines

	tick  func() bool // stops the deadline timer
	ticks bool
	far   bool // the timer is for a deadline, not for what may run longer than slowAfter
}

// base is what the contexts of operations need.
type base struct {
	clock  Clock
	epoch  time.Time       // deadlines count from it
	ctx    context.Context // of all operations
	cancel context.CancelFunc
}

// task is one operation, or a batch of them.
type task[O any] struct {
	one   O
	batch *batch[O]
}

type batch[O any] struct{ ops []O }

const (
	slowAfter = 5 * time.Millisecond
	maxChunk  = 64
	// handOver is how often outcomes are handed over at least.
	handOver = 200 * time.Microsecond
)

// run is one worker's current work, seen by the deadline keeper.
type run[O Operation[O]] struct {
	mu      sync.Mutex // taken after Executor.mu where both are
	busy    bool
	task    task[O]
	start   time.Time
	ctx     *opContext
	limit   time.Duration
	uncount bool // no longer one of the counted workers
	told    bool // overdue was reported
	chunk   [maxChunk]task[O]
	rest    []task[O]   // of the chunk
	ctxs    []opContext // for rest, made at once
	done    []O
}

// New makes an executor with that many workers. It hands operations to outcome when they
// have ended or are overdue, from any goroutine.
func New[O Operation[O]](clock Clock, workers int, outcome func(done []O, last bool)) *Executor[O] {
	x := &Executor[O]{max: workers, outcome: outcome, named: map[string][]O{}, running: map[*run[O]]struct{}{}}
	x.clock, x.epoch = clock, clock.Now()
	x.ready.L = &x.mu
	x.ctx, x.cancel = context.WithCancel(context.Background())
	return x
}

// Submit takes operations that are ready, in order. After Close it does nothing.
func (x *Executor[O]) Submit(ops []O) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return
	}
	x.queue = slices.Grow(x.queue, len(ops))
	var new batches[O]
	for _, o := range ops {
		batch := new.of(o)
		if name := o.Lane(); name != "" {
			waiting, busy := x.named[name]
			if busy && (batch == nil || !new.has(name, batch) || len(waiting) > 0) {
				x.named[name] = append(waiting, o)
				continue
			}
			x.named[name] = nil
			new.take(name, batch)
		}
		switch {
		case batch == nil:
			x.queue = append(x.queue, task[O]{one: o})
		case len(batch.ops) == 0:
			x.queue = append(x.queue, task[O]{batch: batch})
			fallthrough
		default:
			batch.ops = append(batch.ops, o)
		}
	}
	x.startWorkers()
}

// Waiting is how many operations wait for a worker, batches counted as one.
func (x *Executor[O]) Waiting() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.queue) - x.head
}

// batches joins operations of one submission that can be done many at a time.
// A batch runs alone on the lanes of all that is in it.
type batches[O Operation[O]] struct {
	all   map[*Group]*batch[O]
	lanes map[string]*batch[O]
}

// of returns the batch that the operation could be part of, nil if there is none.
func (b *batches[O]) of(o O) *batch[O] {
	group := o.Group()
	if group == nil {
		return nil
	}
	if b.all[group] == nil {
		if b.all == nil {
			b.all, b.lanes = map[*Group]*batch[O]{}, map[string]*batch[O]{}
		}
		b.all[group] = &batch[O]{}
	}
	return b.all[group]
}

func (b *batches[O]) has(lane string, batch *batch[O]) bool { return b.lanes[lane] == batch }

func (b *batches[O]) take(lane string, batch *batch[O]) {
	if batch != nil {
		b.lanes[lane] = batch
	}
}

// startWorkers wakes or starts workers for what is queued.
func (x *Executor[O]) startWorkers() {
	if x.closed {
		return
	}
	waiting := len(x.queue) - x.head - x.returning
	for ; waiting > 0 && x.idle > 0; waiting-- {
		x.idle--
		x.ready.Signal()
	}
	for ; waiting > 0 && x.workers < x.max; waiting -= maxChunk {
		x.workers++
		x.all.Add(1)
		go x.work()
	}
}

// work is one worker.
func (x *Executor[O]) work() {
	defer x.all.Done()
	r := &run[O]{}
	x.mu.Lock()
	x.running[r] = struct{}{}
	for {
		chunk := x.take(r.chunk[:0])
		if chunk == nil {
			break
		}
		x.mu.Unlock()
		x.runChunk(r, chunk)
		clear(chunk)
		x.mu.Lock()
		if r.uncount {
			break // somebody else has its place
		}
	}
	if !r.uncount {
		x.workers--
	}
	delete(x.running, r)
	x.mu.Unlock()
}

// take waits for work and adds a few tasks to chunk; nil when there will be none.
func (x *Executor[O]) take(chunk []task[O]) []task[O] {
	if x.closed {
		return nil
	}
	for x.head == len(x.queue) {
		if x.idle >= 2 { // a burst is over
			return nil
		}
		x.idle++
		x.ready.Wait()
		if x.closed {
			return nil
		}
	}
	n := min(maxChunk, max(1, (len(x.queue)-x.head)/(2*x.max)))
	chunk = append(chunk, x.queue[x.head:x.head+n]...)
	clear(x.queue[x.head : x.head+n])
	x.head += n
	if x.head == len(x.queue) {
		x.queue, x.head = x.queue[:0], 0
	}
	if !x.ticks || x.far {
		if x.far {
			x.tick()
		}
		x.ticks, x.far = true, false
		x.tick = x.clock.AfterFunc(slowAfter, x.keep)
	}
	return chunk
}

// runChunk runs tasks and hands the outcomes over, in time. What has been
// done and what is left lie in r, where keep can reach them while one hangs.
func (x *Executor[O]) runChunk(r *run[O], chunk []task[O]) {
	now := x.clock.Now()
	flushed := now
	r.mu.Lock()
	r.rest = chunk
	r.ctxs = make([]opContext, len(chunk))
	r.mu.Unlock()
	for {
		t, ctx := r.next(&x.base, now)
		if ctx == nil {
			break
		}
		if t.batch != nil {
			t.batch.ops[0].Run(ctx, t.batch.ops)
		} else {
			t.one.Run(ctx, nil)
		}
		ctx.release()
		now = x.clock.Now()
		done := r.ended(now, now.Sub(flushed) > handOver)
		x.nextOfLanes(t)
		if done != nil {
			x.outcome(done, false)
			flushed = now
		}
	}
	done, places := r.takeDone()
	if len(done) == 0 {
		return
	}
	x.countReturning(+places)
	x.outcome(done, true)
	x.countReturning(-places)
}

// countReturning counts workers that are about to ask for work: nobody else is woken
// for what they will take.
func (x *Executor[O]) countReturning(by int) {
	x.mu.Lock()
	x.returning += by
	x.mu.Unlock()
}

// next makes the next task of the chunk the current one; the context is nil if there is
// none.
func (r *run[O]) next(of *base, now time.Time) (task[O], *opContext) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.rest) == 0 {
		return task[O]{}, nil
	}
	r.task, r.busy, r.start, r.told = r.rest[0], true, now, false
	r.rest = r.rest[1:]
	r.limit = r.task.first().Limit()
	r.ctx = &r.ctxs[0]
	r.ctxs = r.ctxs[1:]
	r.ctx.of, r.ctx.deadline = of, now.Add(r.limit).Sub(of.epoch)
	return r.task, r.ctx
}

func (t task[O]) first() O {
	if t.batch != nil {
		return t.batch.ops[0]
	}
	return t.one
}

// ended notes an outcome; it returns those to hand over now, if any.
func (r *run[O]) ended(now time.Time, flush bool) []O {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy = false
	t, took := r.task, now.Sub(r.start)
	switch {
	case t.batch == nil:
		r.room(1 + len(r.rest))
		t.one.Ended(r.start, took)
		r.done = append(r.done, t.one)
	default:
		r.room(max(1+len(r.rest), len(t.batch.ops)))
		for _, o := range t.batch.ops {
			o.Ended(r.start, took)
		}
		r.done = append(r.done, t.batch.ops...)
	}
	if !flush {
		return nil
	}
	done := r.done
	r.done = nil
	return done
}

func (r *run[O]) room(n int) {
	if r.done == nil {
		r.done = make([]O, 0, n)
	}
}

// takeDone takes the outcomes, and says how many places among the workers the run has: none
// if somebody else has taken its own.
func (r *run[O]) takeDone() (done []O, places int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	done = r.done
	r.done = nil
	if !r.uncount {
		places = 1
	}
	return done, places
}

// nextOfLanes lets the next operations run of the lanes that a task was on.
func (x *Executor[O]) nextOfLanes(t task[O]) {
	if t.batch == nil {
		if name := t.one.Lane(); name != "" {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.nextOfLane(name)
		}
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	left := map[string]bool{"": true}
	for _, o := range t.batch.ops {
		if name := o.Lane(); !left[name] {
			left[name] = true
			x.nextOfLane(name)
		}
	}
}

func (x *Executor[O]) nextOfLane(name string) {
	waiting, busy := x.named[name]
	switch {
	case !busy:
		return
	case len(waiting) == 0:
		delete(x.named, name)
		return
	}
	next, n := task[O]{one: waiting[0]}, 1
	if group := waiting[0].Group(); group != nil {
		for n < len(waiting) && waiting[n].Group() == group {
			n++
		}
		next = task[O]{batch: &batch[O]{waiting[:n:n]}}
	}
	x.named[name] = waiting[n:]
	x.queue = append(x.queue, next)
	x.startWorkers()
}

// keep looks after operations that take long: it gives their worker's place
// and the rest of its work to another, hands over what was done before, and
// reports those past their deadline.
func (x *Executor[O]) keep() {
	now := x.clock.Now()
	var tell []O
	next := time.Duration(0)
	x.mu.Lock()
	for r := range x.running {
		r.mu.Lock()
		if r.busy {
			wait := x.keepRun(r, now, &tell)
			if wait > 0 && (next == 0 || wait < next) {
				next = wait
			}
		}
		r.mu.Unlock()
	}
	x.startWorkers()
	if next == 0 && x.workers > x.idle {
		next = slowAfter // somebody is between two operations
	}
	x.ticks, x.far = next > 0, next > slowAfter
	if x.ticks {
		x.tick = x.clock.AfterFunc(next, x.keep)
	}
	x.mu.Unlock()
	if len(tell) > 0 {
		x.outcome(tell, false)
	}
}

// keepRun looks after one worker; it returns when to look again. Both locks are held.
func (x *Executor[O]) keepRun(r *run[O], now time.Time, tell *[]O) time.Duration {
	age := now.Sub(r.start)
	if age >= slowAfter {
		if !r.uncount {
			r.uncount = true
			x.workers--
		}
		if !x.closed {
			x.queue = append(x.queue, r.rest...)
		}
		r.rest = nil
		*tell = append(*tell, r.done...)
		r.done = nil
	}
	if age >= r.limit && !r.told {
		r.told = true
		r.ctx.cancelOverdue()
		for _, o := range r.task.all() {
			if report, yes := o.Overdue(r.start); yes {
				*tell = append(*tell, report)
			}
		}
	}
	switch {
	case r.told:
		return 0
	case r.uncount:
		return max(r.limit-age, slowAfter)
	}
	return slowAfter
}

func (t task[O]) all() []O {
	if t.batch != nil {
		return t.batch.ops
	}
	return []O{t.one}
}

// Close waits up to d for what is under way; halfway it cancels the contexts. It returns
// the names of what it left running. What waits is never begun.
func (x *Executor[O]) Close(d time.Duration) (left []string) {
	x.mu.Lock()
	x.closed = true
	x.queue, x.head = nil, 0
	x.named = map[string][]O{}
	x.idle = 0
	x.ready.Broadcast()
	x.mu.Unlock()

	done := make(chan struct{})
	go func() { x.all.Wait(); close(done) }()
	giveUp := make(chan struct{})
	stop := x.clock.AfterFunc(d, func() { close(giveUp) })
	defer stop()
	soft := make(chan struct{})
	stopSoft := x.clock.AfterFunc(d/2, func() { close(soft) })
	defer stopSoft()
	select {
	case <-done:
	case <-soft:
		x.cancel()
	}
	select {
	case <-done:
	case <-giveUp:
	}
	x.cancel()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.tick != nil {
		x.tick()
	}
	for r := range x.running {
		r.mu.Lock()
		if r.busy {
			left = append(left, r.task.first().Name())
		}
		r.mu.Unlock()
	}
	return left
}
