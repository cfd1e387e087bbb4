package container

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Options of a tracker. The zero value is usable.
type Options struct {
	// LabelEnv is the environment variable with the service label.
	// Default MICROSERVICE_LABEL.
	LabelEnv string
	// LabelKey is the container label with the service label, for containers
	// without the variable. Default plumb.microservice. Either may be LabelsOff.
	LabelKey string
	// Labels say who carries which service label.
	Labels LabelRules
	// Relist is how long to wait, about, between two lists while nothing
	// calls for one; each wait is between half and one and a half of it.
	// Default 30 s.
	Relist time.Duration
	// CallTimeout bounds each list and inspect. Default 10 s.
	CallTimeout time.Duration
	// ListLimit is how old the last list may be before the runtime counts as
	// degraded. Default 3 min.
	ListLimit time.Duration
	// Parallel is how many inspects run at once per runtime. Default 16.
	Parallel int
	// Processes is the kernel. Default: [NewKernel].
	Processes Processes
	// Host are the inodes of namespaces of the host besides the agent's own. Containers in
	// them are refused as those in host network mode are.
	Host []uint64
	// Earlier is what earlier trackers told, oldest first: what has ended since
	// is told when it is found. Default: there was none.
	Earlier []Event
	// Past are kills for want of memory from before the start: they explain what is
	// found to have ended.
	Past []OOMKill
	// Observer gets the events. Default: nobody does.
	Observer Observer
	// Log gets what operators should know. Default: nothing is logged.
	Log *slog.Logger
	// Spread gives numbers in [0, 1) for jitter. Default: random.
	Spread func() float64
}

func (o Options) withDefaults() (Options, error) {
	setDefault(&o.LabelEnv, "MICROSERVICE_LABEL")
	setDefault(&o.LabelKey, "plumb.microservice")
	setDefault(&o.Relist, 30*time.Second)
	setDefault(&o.CallTimeout, 10*time.Second)
	setDefault(&o.ListLimit, 3*time.Minute)
	setDefault(&o.Parallel, 16)
	setDefault(&o.Log, slog.New(slog.DiscardHandler))
	if o.Spread == nil {
		o.Spread = rand.Float64
	}
	if o.Relist < 0 || o.CallTimeout < 0 || o.Parallel < 0 {
		return o, errors.New("tracker of containers: relist, call timeout and parallel must not be negative")
	}
	if o.Processes == nil {
		k, err := NewKernel()
		if err != nil {
			return o, err
		}
		o.Processes = k
	}
	return o, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Tracker knows the containers of one or more runtimes. Reading and watching
// work from any goroutine, before, while and after Run works.
type Tracker struct {
	opts    Options
	sources []*source
	// inputs are what jobs and streams hand to the loop, wake says that hints
	// wait to be taken.
	inputs chan func()
	wake   chan struct{}
	// news is the time from which on all that was told is known.
	news time.Time
	// changed is set by the loop when the snapshot must be made anew; events are
	// told after that.
	changed bool
	events  []Event
	// snapshotDue is when the next snapshot of what is being read may be made, waits
	// whether there is one to make.
	snapshotDue time.Time
	waits       bool

	killsMu sync.Mutex
	kills   []OOMKill // reported, for the loop
	early   []OOMKill // of containers that are not known yet

	snapshot atomic.Pointer[snapshot]
	moved    signal // the snapshot did
	labels   atomic.Pointer[LabelStats]
	ages     ages
	health   atomic.Pointer[[]RuntimeHealth]
	watchers watchers
}

// New makes a tracker of the runtimes, which must have different names.
func New(o Options, runtimes ...Runtime) (*Tracker, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	t := &Tracker{opts: o, inputs: make(chan func(), 64), wake: make(chan struct{}, 1), news: heardFrom(o.Earlier)}
	t.labels.Store(&LabelStats{})
	names := map[string]bool{}
	for _, rt := range runtimes {
		if names[rt.Name()] {
			return nil, fmt.Errorf("two container runtimes with the name %q", rt.Name())
		}
		names[rt.Name()] = true
		t.sources = append(t.sources, newSource(t, rt))
	}
	t.opts.Earlier = nil
	t.publish()
	return t, nil
}

// Run tracks until ctx ends. It may be called once.
func (t *Tracker) Run(ctx context.Context) error {
	var jobs sync.WaitGroup
	if now := time.Now(); t.news.IsZero() || t.news.After(now) {
		t.news = now
	}
	for _, s := range t.sources {
		s.ctx, s.jobs = ctx, &jobs
		jobs.Go(s.follow)
	}
	t.loop(ctx)
	jobs.Wait()
	t.drain() // what jobs handed over last may hold processes
	for _, s := range t.sources {
		s.stop()
	}
	t.publish()
	return nil
}

// loop takes inputs until ctx ends. Only it touches the sources.
func (t *Tracker) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-t.inputs:
			f()
			t.drain()
		case <-t.wake:
		case <-timer.C:
		}
		for _, s := range t.sources {
			s.work()
		}
		t.workKills()
		t.publishInTime()
		timer.Reset(t.nextDue())
	}
}

// While a runtime is read for the first time snapshots are old at once. They may take
// a hundredth of that time, and come once a second at least.
const (
	readingShare = 100
	readingWait  = time.Second
)

// publishInTime publishes now, or after some more results of first inspects.
func (t *Tracker) publishInTime() {
	began := time.Now()
	reading := slices.ContainsFunc(t.sources, func(s *source) bool { return s.phase == reading })
	if t.waits = reading && began.Before(t.snapshotDue); t.waits {
		return
	}
	t.publish()
	now := time.Now()
	t.snapshotDue = now.Add(min(readingShare*now.Sub(began), readingWait))
}

// drain takes the inputs that wait, so that a burst makes one snapshot.
func (t *Tracker) drain() {
	for range cap(t.inputs) {
		select {
		case f := <-t.inputs:
			f()
		default:
			return
		}
	}
}

// nextDue is how long the loop may sleep.
func (t *Tracker) nextDue() time.Duration {
	due := time.Now().Add(time.Hour)
	for _, s := range t.sources {
		if at := s.due(); !at.IsZero() && at.Before(due) {
			due = at
		}
	}
	if t.waits && t.snapshotDue.Before(due) {
		due = t.snapshotDue
	}
	if soon := time.Now().Add(sameKill / 5); len(t.early) > 0 && soon.Before(due) {
		due = soon
	}
	return time.Until(due)
}

// wakeLoop wakes the loop, which then looks what there is to do.
func (t *Tracker) wakeLoop() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// post hands f to the loop. It is false when ctx ended first: then f never runs.
func (t *Tracker) post(ctx context.Context, f func()) bool {
	select {
	case t.inputs <- f:
		return true
	case <-ctx.Done():
		return false
	}
}
