package container

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// engine is a container runtime in memory, with faults to order. It is its own
// kernel too: the pid of a container is a process with a namespace.
type engine struct {
	mu         sync.Mutex
	containers map[string]*Container
	processes  map[int]*process
	lastPid    int
	ticks      int
	lastNS     uint64

	down, absent, hung bool
	listErr            error
	badInspect         map[string]error
	hungInspect        map[string]bool
	// slow answers are true when they are made, but come a second later.
	slowList    bool
	slowInspect map[string]bool
	// stale answers of inspect, once each: the engine has not noticed yet.
	stale map[string][]Container
	// mute keeps events back: dropped, or gathered for later.
	mute, keep bool
	kept       []Hint
	// bare hints carry no evidence; bare lists no digest.
	bareHints, bareLists bool
	noStream             bool
	prompt               bool // hints come before any answer that shows the same
	lists                int
	inspects             map[string]int
	unlisted             map[string]bool // left out of lists
	former               map[string]time.Time
	sub                  *subscriber
	// open counts the processes that are held.
	open int
}

type process struct {
	netns  uint64
	cgroup string
	ended  []func()
}

type subscriber struct {
	events chan Hint
	hint   func(Hint)
	broken chan struct{}
}

const ownNetns = 1

func newEngine() *engine {
	return &engine{
		containers: map[string]*Container{}, processes: map[int]*process{},
		lastPid: 100, lastNS: 1000,
		badInspect: map[string]error{}, hungInspect: map[string]bool{},
		slowInspect: map[string]bool{}, stale: map[string][]Container{}, inspects: map[string]int{}, unlisted: map[string]bool{},
		former: map[string]time.Time{},
	}
}

func (e *engine) Name() string { return "docker" }

// enter is how each call begins.
func (e *engine) enter(ctx context.Context) error {
	e.mu.Lock()
	down, absent, hung := e.down, e.absent, e.hung
	e.mu.Unlock()
	switch {
	case absent:
		return fmt.Errorf("%w: no socket", ErrAbsent)
	case down:
		return errors.New("connection refused")
	case hung:
		<-ctx.Done()
		return ctx.Err()
	}
	return ctx.Err()
}

func (e *engine) Version(ctx context.Context) (string, error) { return "1.0", e.enter(ctx) }

func (e *engine) List(ctx context.Context) ([]Summary, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	all, slow, err := e.list()
	if slow {
		pause(ctx, time.Second)
	}
	return all, err
}

func (e *engine) list() (all []Summary, slow bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.listErr != nil {
		return nil, false, e.listErr
	}
	e.lists++
	for _, c := range e.containers {
		if e.unlisted[c.ID] {
			continue
		}
		s := Summary{ID: c.ID, Name: c.Name, Running: c.Running, State: c.State, Digest: c.digest()}
		s.Since = c.FinishedAt
		if c.Running {
			s.Since = c.StartedAt
		}
		if e.bareLists {
			s.Digest, s.Since = "", time.Time{}
		}
		all = append(all, s)
	}
	return all, e.slowList, nil
}

func (e *engine) Inspect(ctx context.Context, id string) (Container, error) {
	if err := e.enter(ctx); err != nil {
		return Container{}, err
	}
	e.mu.Lock()
	e.inspects[id]++
	hung := e.hungInspect[id]
	e.mu.Unlock()
	if hung {
		<-ctx.Done()
		return Container{}, ctx.Err()
	}
	c, slow, err := e.inspect(id)
	if slow {
		pause(ctx, time.Second)
	}
	return c, err
}

func (e *engine) inspect(id string) (c Container, slow bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	slow = e.slowInspect[id]
	if err := e.badInspect[id]; err != nil {
		return Container{}, slow, err
	}
	if old := e.stale[id]; len(old) > 0 {
		e.stale[id] = old[1:]
		old[0].Digest = old[0].digest()
		return old[0], slow, nil
	}
	if e.containers[id] == nil {
		return Container{}, slow, ErrNotFound
	}
	c = *e.containers[id]
	if !e.bareLists {
		c.Digest = c.digest()
	}
	return c, slow, nil
}

func (c Container) digest() string { return fmt.Sprint(c.State, c.ExitCode, c.Addresses) }

func (e *engine) Events(ctx context.Context, ready func(), hint func(Hint)) error {
	if err := e.enter(ctx); err != nil {
		return err
	}
	if e.isDeaf() {
		<-ctx.Done() // it takes no subscriptions, but answers else
		return ctx.Err()
	}
	sub := &subscriber{hint: hint, events: make(chan Hint, 10000), broken: make(chan struct{})}
	e.mu.Lock()
	e.sub = sub
	e.mu.Unlock()
	ready()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-sub.broken:
			return errors.New("EOF")
		case h := <-sub.events:
			hint(h)
		}
	}
}

func (e *engine) isDeaf() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.noStream
}

// OwnNetns and Open make the engine a kernel.
func (e *engine) OwnNetns() uint64 { return ownNetns }

func (e *engine) Open(pid int, ended func()) (*Process, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.processes[pid]
	if p == nil {
		return nil, ErrNoProcess
	}
	var done atomic.Bool // it ended, or was closed
	p.ended = append(p.ended, func() {
		if !done.Swap(true) {
			ended()
		}
	})
	e.open++
	lives := func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.processes[pid] == p
	}
	return &Process{Netns: p.netns, Cgroup: p.cgroup, Lives: lives, Close: func() {
		done.Store(true)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.open--
	}}, nil
}

// seen is how often a container was inspected.
func (e *engine) seen(id string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.inspects[id]
}

// What follows changes what the runtime has.

// says sends an event with its evidence, with the engine locked.
func (e *engine) says(what EventType, id string, exit int) {
	h := Hint{ID: id, Says: what, At: e.now(), Exit: exit}
	if c := e.containers[id]; c != nil {
		h.Name, h.Image = c.Name, c.Image
	}
	if e.bareHints {
		h = Hint{ID: id}
	}
	e.tell(h)
}

// now is the time, never the same twice, as an engine's clock is.
func (e *engine) now() time.Time {
	e.ticks++
	return time.Now().Add(time.Duration(e.ticks) * time.Nanosecond)
}

// tell sends an event, with the engine locked.
func (e *engine) tell(h Hint) {
	switch {
	case e.mute, e.sub == nil:
	case e.keep:
		e.kept = append(e.kept, h)
	case e.prompt:
		e.sub.hint(h)
	default:
		e.sub.events <- h
	}
}

// release sends the events that were kept, the last first, each twice.
func (e *engine) release() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.keep = false
	slices.Reverse(e.kept)
	for _, h := range e.kept {
		e.tell(h)
		e.tell(h)
	}
	e.kept = nil
}

func (e *engine) create(c *Container) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c.CreatedAt = e.now()
	e.containers[c.ID] = c
	e.says(Created, c.ID, 0)
}

// start gives a container a process and, unless it joins another or the host,
// a namespace.
func (e *engine) start(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.startLocked(id)
}

func (e *engine) startLocked(id string) {
	c := e.containers[id]
	e.lastPid++
	p := &process{cgroup: "0::/docker/" + id}
	switch {
	case c.HostNetwork:
		p.netns = ownNetns
	case c.Joins != "":
		p.netns = e.processes[e.containers[c.Joins].Pid].netns
	default:
		e.lastNS++
		p.netns = e.lastNS
	}
	e.processes[e.lastPid] = p
	e.former[id] = c.StartedAt
	c.State, c.Running, c.Pid = "running", true, e.lastPid
	c.StartedAt, c.FinishedAt, c.ExitCode, c.Reason = e.now(), time.Time{}, 0, ""
	c.Addresses = []string{fmt.Sprintf("10.0.0.%d/24", e.lastPid-99)}
	e.says(Started, id, 0)
}

// kill ends the process of a container; the engine notices only if it runs.
func (e *engine) kill(id string) { e.exit(id, 137) }

// exit ends it with a code.
func (e *engine) exit(id string, code int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.exitLocked(id, code)
}

func (e *engine) exitLocked(id string, code int) {
	c := e.containers[id]
	for _, f := range e.end(c.Pid) {
		go f()
	}
	if e.down || e.hung {
		return
	}
	c.State, c.Running, c.Pid, c.Addresses = "exited", false, 0, nil
	c.FinishedAt, c.ExitCode = e.now(), code
	e.says(Died, id, code)
}

func (e *engine) end(pid int) []func() {
	p := e.processes[pid]
	delete(e.processes, pid)
	if p == nil {
		return nil
	}
	return p.ended
}

func (e *engine) remove(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.containers[id].Running {
		e.exitLocked(id, 137)
	}
	e.says(Removed, id, 0)
	delete(e.containers, id)
}

// change alters a container while it lives.
func (e *engine) change(id string, f func(c *Container)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f(e.containers[id])
	e.says("", id, 0)
}

// cut breaks the stream of events.
func (e *engine) cut() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sub != nil {
		close(e.sub.broken)
	}
	e.sub = nil
}

// forget has the engine no longer know when the last run of a container began, as
// one that was killed before it had written that down, and started again: it tells
// no time, that of the run before, or when it found the process; or it knows of no
// run at all.
func (e *engine) forget(id, says string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.containers[id]
	switch says {
	case "none":
		c.StartedAt = time.Time{}
	case "former":
		c.StartedAt = e.former[id]
	case "later":
		c.StartedAt = e.now()
	case "all":
		c.State, c.Running, c.Pid, c.StartedAt, c.Addresses = "created", false, 0, time.Time{}, nil
	default:
		return errors.New("no such time")
	}
	e.says("", id, 0)
	return nil
}

func (e *engine) set(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
}
