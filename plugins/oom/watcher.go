package oom

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Options of a watcher.
type Options struct {
	// Messages is the kernel's log, nil if it cannot be read: then Quiet says
	// why, and the counters alone decide.
	Messages Messages
	Quiet    error
	// Host has the counters.
	Host Host
	// Tell is called with each kill, one after the other. It must be quick.
	Tell func(Kill)
	// Patience is how long a kill that the counter shows waits for its name.
	// Default 250 ms.
	Patience time.Duration
	// Audit is how often all counters are read though nothing calls for it.
	// Default 10 s, or 1 s without messages.
	Audit time.Duration
	// Log gets what operators should know. Default: nothing is logged.
	Log *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	if o.Host == nil || o.Tell == nil {
		return o, errors.New("oom: a host and somebody to tell are needed")
	}
	if o.Patience == 0 {
		o.Patience = 250 * time.Millisecond
	}
	if o.Audit == 0 {
		o.Audit = 10 * time.Second
		if o.Messages == nil {
			o.Audit = time.Second
		}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// Watcher follows containers. All methods may be called from any goroutine,
// also before Run; none blocks.
type Watcher struct {
	opts Options

	mu    sync.Mutex // guards what follows
	inbox []func()
	stats Stats

	wake     chan struct{}
	readable chan struct{}

	// What follows belongs to the loop.
	parser   parser
	accounts map[string]*account
	// strays are victims of no container that is followed: waiting for a
	// counter to claim them, and remembered for a while.
	strays  []stray
	lastSeq uint64
	skipped bool  // what was there before the start
	dead    error // why there are no messages
	audit   time.Time
}

// Stats count what a watcher came across.
type Stats struct {
	// Kills are all that were told, Unnamed those of them that only a counter told of.
	Kills, Unnamed uint64
	// Old are kills in messages from before the start, Lost the gaps in the
	// messages: both are not told; the counters decide.
	Old, Lost uint64
	// Messages says why there are none, "" if there are.
	Messages string
	// Followed is how many containers are followed.
	Followed int
}

// New makes a watcher.
func New(o Options) (*Watcher, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	w := &Watcher{opts: o, accounts: map[string]*account{}, wake: make(chan struct{}, 1), readable: make(chan struct{})}
	if o.Messages == nil {
		w.silence(cmpError(o.Quiet, errors.New("not read")))
	}
	return w, nil
}

func cmpError(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// Run watches until ctx ends. It may be called once.
func (w *Watcher) Run(ctx context.Context) error {
	var waiting sync.WaitGroup
	if m := w.opts.Messages; m != nil {
		w.Past()
		waiting.Go(func() { w.await(ctx) })
		defer func() { _ = m.Close() }()
	}
	defer waiting.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.wake:
		case <-w.readable:
		case <-timer.C:
		}
		w.turn(time.Now())
		timer.Reset(time.Until(w.due()))
	}
}

// await hands over that there are messages; the loop reads them.
func (w *Watcher) await(ctx context.Context) {
	for w.opts.Messages.Wait(ctx) == nil {
		select {
		case w.readable <- struct{}{}:
		case <-ctx.Done():
			return
		}
	}
}

// mostPast bounds the kills of the past that are returned, the newest.
const mostPast = 1000

// Past passes over the messages that are there, and returns the kills that they tell
// of. Those are not told: the counters decide what happened to containers that
// run. It may be called once, before Run.
func (w *Watcher) Past() (past []Kill) {
	if w.opts.Messages == nil || w.skipped {
		return nil
	}
	w.skipped = true
	now := time.Now()
	w.read(func(v victim) {
		w.count(func(s *Stats) { s.Old++ })
		k := v.kill(now.Add(-v.age))
		if ids := idsIn(k.Cgroup); len(ids) > 0 {
			k.Container = ids[0]
			k.All = v.group != ""
		}
		if past = append(past, k); len(past) > mostPast {
			past = past[1:]
		}
	})
	w.parser.lost()
	return past
}

// read takes all messages that there are.
func (w *Watcher) read(take func(victim)) {
	for w.dead == nil {
		m, err := w.opts.Messages.Next()
		switch {
		case errors.Is(err, ErrNone):
			return
		case errors.Is(err, ErrLost):
			w.lost()
			continue
		case err != nil:
			w.silence(err)
			w.lost()
			return
		}
		if w.lastSeq != 0 && m.Seq > w.lastSeq+1 {
			w.lost()
		}
		w.lastSeq = m.Seq
		if v, ok := w.parser.take(m); ok {
			take(v)
		}
	}
}

// lost notes a gap in the messages: the counters are asked at once.
func (w *Watcher) lost() {
	w.parser.lost()
	w.lastSeq = 0
	w.audit = time.Time{}
	w.count(func(s *Stats) { s.Lost++ })
}

// silence notes that there are no messages.
func (w *Watcher) silence(err error) {
	w.dead = err
	w.opts.Log.Warn("the kernel's log cannot be read; kills for lack of memory are told from counters, without names", "error", err)
	w.count(func(s *Stats) { s.Messages = err.Error() })
}

// turn takes in everything that has come, in the order: whom to follow, what
// the log says, what the counters say.
func (w *Watcher) turn(now time.Time) {
	w.mu.Lock()
	todo := w.inbox
	w.inbox = nil
	w.mu.Unlock()
	for _, f := range todo {
		f()
	}
	w.read(func(v victim) { w.victim(v, now) })
	if w.audit.IsZero() || !now.Before(w.audit) {
		w.audit = now.Add(w.opts.Audit)
		w.lookAtAll(now)
	}
	w.settle(now)
}

// due is when the loop has something to do though nothing happens.
func (w *Watcher) due() time.Time {
	due := w.audit
	earlier := func(t time.Time) {
		if !t.IsZero() && t.Before(due) {
			due = t
		}
	}
	for _, a := range w.accounts {
		if !a.ahead.IsZero() {
			earlier(a.ahead.Add(w.opts.Patience))
		}
	}
	for _, s := range w.strays {
		if !s.settled {
			earlier(s.kill.Time.Add(w.opts.Patience))
		}
	}
	return due
}

// post hands something to the loop.
func (w *Watcher) post(f func()) {
	w.mu.Lock()
	w.inbox = append(w.inbox, f)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Follow begins a life of a container, in place of an earlier one of the same
// id.
func (w *Watcher) Follow(c Container) {
	w.post(func() {
		now := time.Now()
		if c.Cgroups == "" {
			c.Cgroups, _ = w.opts.Host.Cgroups(c.Pid)
		}
		a := newAccount(c)
		w.accounts[c.ID] = a
		w.followed()
		w.look(a, now)
		w.giveStrays(a, now)
	})
}

// Forget ends the following of a container.
func (w *Watcher) Forget(id string) {
	w.post(func() {
		delete(w.accounts, id)
		w.followed()
	})
}

// Ended says that a container's first process has ended. Its counter is read, best
// while the cgroup is still there, and its pid is soon not its own any more.
func (w *Watcher) Ended(id string) {
	w.post(func() {
		if a := w.accounts[id]; a != nil {
			a.endedAt = time.Now()
			w.look(a, a.endedAt)
		}
	})
}

func (w *Watcher) followed() {
	n := len(w.accounts)
	w.count(func(s *Stats) { s.Followed = n })
}

func (w *Watcher) count(f func(*Stats)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(&w.stats)
}

// Stats are the counts so far.
func (w *Watcher) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stats
}

// sorted are the accounts in a fixed order.
func (w *Watcher) sorted() []*account {
	all := make([]*account, 0, len(w.accounts))
	for _, a := range w.accounts {
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b *account) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return all
}
