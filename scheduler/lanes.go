package scheduler

import (
	"context"
	"slices"
	"sync"
	"time"
)

// lanes runs operations outside of the loop.
//
// Operations of one named lane run one after another. All others are taken,
// in order, by a bounded number of workers. A worker whose operation takes
// longer than patience no longer counts, and another takes its place: so an
// operation that hangs delays only its own key and lane.
type lanes struct {
	opts *Options
	// outcome hands outcomes to the loop; last: the worker is free now.
	outcome func(done []*op, last bool)

	mu      sync.Mutex
	queue   []*op // ready for any worker
	head    int
	named   map[string][]*op // waiting behind the one that runs; present while one runs
	workers int              // counted ones
	idle    int
	// onTheWay are workers that will take work in a moment.
	onTheWay int
	ready    sync.Cond
	closed   bool
	all      sync.WaitGroup
	running  map[*run]struct{} // everything under way, for deadlines

	epoch  time.Time       // deadlines count from it
	ctx    context.Context // of all operations
	cancel context.CancelFunc
	tick   func() bool // stops the deadline timer
	ticks  bool
	far    bool // the timer is for a deadline, not for what may run longer than patience
}

const (
	patience = 5 * time.Millisecond
	maxChunk = 64
	slow     = 200 * time.Microsecond // outcomes are handed over at least this often
)

// run is one worker's current work, seen by the deadline keeper.
type run struct {
	mu      sync.Mutex // taken after lanes.mu where both are
	op      *op
	ctx     *opCtx
	limit   time.Duration
	uncount bool // no longer one of the counted workers
	told    bool // overdue was reported
	chunk   [maxChunk]*op
	rest    []*op   // of the chunk
	ctxs    []opCtx // for rest, made at once
	done    []*op
}

func newLanes(o *Options, outcome func([]*op, bool)) *lanes {
	l := &lanes{opts: o, outcome: outcome, epoch: o.Clock.Now(), named: map[string][]*op{}, running: map[*run]struct{}{}}
	l.ready.L = &l.mu
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// submit takes operations that are ready, in order.
func (l *lanes) submit(ops []*op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.queue = slices.Grow(l.queue, len(ops))
	var new batches
	for _, o := range ops {
		batch := new.of(o)
		if name := laneOf(o); name != "" {
			waiting, busy := l.named[name]
			if busy && (batch == nil || !new.has(name, batch) || len(waiting) > 0) {
				l.named[name] = append(waiting, o)
				continue
			}
			l.named[name] = nil
			new.take(name, batch)
		}
		switch {
		case batch == nil:
			l.queue = append(l.queue, o)
		case len(batch.batch) == 0:
			l.queue = append(l.queue, batch)
			fallthrough
		default:
			batch.batch = append(batch.batch, o)
		}
	}
	l.staff()
}

// waiting is how many operations wait for a worker.
func (l *lanes) waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue) - l.head
}

// batches joins operations of one submission that a kind can do many at a time.
// A batch runs alone on the lanes of all that is in it.
type batches struct {
	all   map[batchOf]*op
	lanes map[string]*op
}

type batchOf struct {
	k    *kind
	what Operation
}

// of returns the batch that the operation could be part of, nil if there is none.
func (b *batches) of(o *op) *op {
	if !o.batches() {
		return nil
	}
	of := batchOf{o.kind, o.what}
	if b.all[of] == nil {
		if b.all == nil {
			b.all, b.lanes = map[batchOf]*op{}, map[string]*op{}
		}
		b.all[of] = &op{kind: o.kind, what: o.what}
	}
	return b.all[of]
}

func (b *batches) has(lane string, batch *op) bool { return b.lanes[lane] == batch }

func (b *batches) take(lane string, batch *op) {
	if batch != nil {
		b.lanes[lane] = batch
	}
}

func laneOf(o *op) string {
	if o.kind.lane == nil || o.what == OpLook {
		return ""
	}
	v := o.to
	if v == nil {
		v = o.from
	}
	if v == nil {
		return ""
	}
	if name := o.kind.lane(o.key, v); name != "" {
		return o.kind.Name + "\x00" + name
	}
	return ""
}

// staff wakes or starts workers for what is queued.
func (l *lanes) staff() {
	if l.closed {
		return
	}
	waiting := len(l.queue) - l.head - l.onTheWay
	for ; waiting > 0 && l.idle > 0; waiting-- {
		l.idle--
		l.ready.Signal()
	}
	for ; waiting > 0 && l.workers < l.opts.Workers; waiting -= maxChunk {
		l.workers++
		l.all.Add(1)
		go l.work()
	}
}

// work is one worker.
func (l *lanes) work() {
	defer l.all.Done()
	r := &run{}
	l.mu.Lock()
	l.running[r] = struct{}{}
	for {
		chunk := l.take(r.chunk[:0])
		if chunk == nil {
			break
		}
		l.mu.Unlock()
		l.runChunk(r, chunk)
		clear(chunk)
		l.mu.Lock()
		if r.uncount {
			break // somebody else has its place
		}
	}
	if !r.uncount {
		l.workers--
	}
	delete(l.running, r)
	l.mu.Unlock()
}

// take waits for work and adds a few operations to chunk; nil when there will be none.
func (l *lanes) take(chunk []*op) []*op {
	if l.closed {
		return nil
	}
	for l.head == len(l.queue) {
		if l.idle >= 2 { // a burst is over
			return nil
		}
		l.idle++
		l.ready.Wait()
		if l.closed {
			return nil
		}
	}
	n := min(maxChunk, max(1, (len(l.queue)-l.head)/(2*l.opts.Workers)))
	chunk = append(chunk, l.queue[l.head:l.head+n]...)
	clear(l.queue[l.head : l.head+n])
	l.head += n
	if l.head == len(l.queue) {
		l.queue, l.head = l.queue[:0], 0
	}
	if !l.ticks || l.far {
		if l.far {
			l.tick()
		}
		l.ticks, l.far = true, false
		l.tick = l.opts.Clock.AfterFunc(patience, l.keep)
	}
	return chunk
}

// runChunk runs operations and hands the outcomes over, in time. What has been
// done and what is left lie in r, where keep can reach them while one hangs.
func (l *lanes) runChunk(r *run, chunk []*op) {
	now := l.opts.Clock.Now()
	flushed := now
	r.mu.Lock()
	r.rest = chunk
	r.ctxs = make([]opCtx, len(chunk))
	r.mu.Unlock()
	for {
		o, ctx := r.next(l, now)
		if o == nil {
			break
		}
		o.run(ctx)
		ctx.release()
		now = l.opts.Clock.Now()
		done := r.ended(o, now, now.Sub(flushed) > slow)
		l.nextOfLanes(o)
		if done != nil {
			l.outcome(done, false)
			flushed = now
		}
	}
	done, counted := r.takeDone()
	if len(done) == 0 {
		return
	}
	if !counted { // somebody else has its place
		l.outcome(done, true)
		return
	}
	l.coming(+1)
	l.outcome(done, true)
	l.coming(-1)
}

// coming counts workers that are about to ask for work: nobody else is woken
// for what they will take.
func (l *lanes) coming(by int) {
	l.mu.Lock()
	l.onTheWay += by
	l.mu.Unlock()
}

// next makes the next operation of the chunk the current one.
func (r *run) next(l *lanes, now time.Time) (*op, *opCtx) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.rest) == 0 {
		return nil, nil
	}
	o := r.rest[0]
	r.rest = r.rest[1:]
	o.start = now
	r.limit = o.limit(l.opts)
	ctx := &r.ctxs[0]
	r.ctxs = r.ctxs[1:]
	ctx.of, ctx.deadline = l, now.Add(r.limit).Sub(l.epoch)
	r.op, r.told, r.ctx = o, false, ctx
	return o, ctx
}

// ended notes an outcome; it returns those to hand over now, if any.
func (r *run) ended(o *op, now time.Time, flush bool) []*op {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.op = nil
	if r.done == nil {
		r.done = make([]*op, 0, max(1+len(r.rest), len(o.batch)))
	}
	r.done = o.outcomes(r.done, now.Sub(o.start))
	if !flush {
		return nil
	}
	done := r.done
	r.done = nil
	return done
}

func (r *run) takeDone() (done []*op, counted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	done = r.done
	r.done = nil
	return done, !r.uncount
}

// nextOfLanes lets the next operations run of the lanes that one was on.
func (l *lanes) nextOfLanes(o *op) {
	if o.kind.lane == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if o.batch == nil {
		l.nextOfLane(laneOf(o))
		return
	}
	left := map[string]bool{}
	for _, o := range o.batch {
		if name := laneOf(o); !left[name] {
			left[name] = true
			l.nextOfLane(name)
		}
	}
}

func (l *lanes) nextOfLane(name string) {
	waiting, busy := l.named[name]
	switch {
	case !busy:
		return
	case len(waiting) == 0:
		delete(l.named, name)
		return
	}
	next, n := waiting[0], 1
	if next.batches() {
		for n < len(waiting) && waiting[n].what == next.what {
			n++
		}
		next = &op{kind: next.kind, what: next.what, batch: waiting[:n:n]}
	}
	l.named[name] = waiting[n:]
	l.queue = append(l.queue, next)
	l.staff()
}

// keep looks after operations that take long: it gives their worker's place
// and the rest of its work to another, hands over what was done before, and
// reports those past their deadline.
func (l *lanes) keep() {
	now := l.opts.Clock.Now()
	var tell []*op
	next := time.Duration(0)
	l.mu.Lock()
	for r := range l.running {
		r.mu.Lock()
		if r.op != nil {
			wait := l.keepRun(r, now, &tell)
			if wait > 0 && (next == 0 || wait < next) {
				next = wait
			}
		}
		r.mu.Unlock()
	}
	l.staff()
	if next == 0 && l.workers > l.idle {
		next = patience // somebody is between two operations
	}
	l.ticks, l.far = next > 0, next > patience
	if l.ticks {
		l.tick = l.opts.Clock.AfterFunc(next, l.keep)
	}
	l.mu.Unlock()
	if len(tell) > 0 {
		l.outcome(tell, false)
	}
}

// keepRun looks after one worker; it returns when to look again. Both locks are held.
func (l *lanes) keepRun(r *run, now time.Time, tell *[]*op) time.Duration {
	age := now.Sub(r.op.start)
	if age >= patience {
		if !r.uncount {
			r.uncount = true
			l.workers--
		}
		if !l.closed {
			l.queue = append(l.queue, r.rest...)
		}
		r.rest = nil
		*tell = append(*tell, r.done...)
		r.done = nil
	}
	if age >= r.limit && !r.told {
		r.told = true
		r.ctx.cancelOverdue()
		*tell = append(*tell, r.op.overdues()...)
	}
	switch {
	case r.told:
		return 0
	case r.uncount:
		return max(r.limit-age, patience)
	}
	return patience
}

// close waits up to d for what is under way, then cancels it. It returns the
// keys of what it left running.
func (l *lanes) close(d time.Duration) []Key {
	l.mu.Lock()
	l.closed = true
	l.queue, l.head = nil, 0
	l.named = map[string][]*op{}
	l.idle = 0
	l.ready.Broadcast()
	l.mu.Unlock()

	done := make(chan struct{})
	go func() { l.all.Wait(); close(done) }()
	giveUp := make(chan struct{})
	stop := l.opts.Clock.AfterFunc(d, func() { close(giveUp) })
	defer stop()
	soft := make(chan struct{})
	stopSoft := l.opts.Clock.AfterFunc(d/2, func() { close(soft) })
	defer stopSoft()
	select {
	case <-done:
	case <-soft:
		l.cancel()
	}
	select {
	case <-done:
	case <-giveUp:
	}
	l.cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tick != nil {
		l.tick()
	}
	var left []Key
	for r := range l.running {
		r.mu.Lock()
		if r.op != nil {
			left = append(left, r.op.key)
		}
		r.mu.Unlock()
	}
	return left
}
