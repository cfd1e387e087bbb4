package resources

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/resources/cgroup"
)

// Containers is what the tracker of containers knows.
type Containers interface {
	// Containers are those that are known, by <runtime>:<id>; an error says why there may
	// be others.
	Containers() (map[string]*models.Container, error)
	// Watch calls f when they change, until ctx ends.
	Watch(ctx context.Context, f func(keys ...string)) error
}

const (
	// fresh is how old what is told may be.
	fresh = time.Second
	// limitsHold is how long limits are taken for what they were.
	limitsHold = time.Minute
	// endedKept is how many runs that ended are kept.
	endedKept = 50
)

// Collector samples what containers use. Reading works from any goroutine.
type Collector struct {
	containers Containers
	interval   time.Duration
	host       host
	now        func() time.Time
	wake       chan struct{}

	mu  sync.Mutex
	all map[string]*series // by key
}

// New makes a collector that samples what is not idle each interval.
func New(containers Containers, interval time.Duration) (*Collector, error) {
	h, err := openHost()
	if err != nil {
		return nil, err
	}
	return newCollector(containers, interval, h, time.Now), nil
}

func newCollector(containers Containers, interval time.Duration, h host, now func() time.Time) *Collector {
	return &Collector{containers: containers, interval: interval, host: h, now: now, wake: make(chan struct{}, 1), all: map[string]*series{}}
}

// Run samples until ctx ends.
func (c *Collector) Run(ctx context.Context) error {
	var following sync.WaitGroup
	defer following.Wait()
	following.Go(func() {
		_ = c.containers.Watch(ctx, func(...string) { c.follow() }) // it ends with ctx
	})
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.wake:
		case <-timer.C:
		}
		timer.Reset(c.work())
	}
}

// work samples what is due, and returns how long there is nothing to do. What would be
// due soon is sampled along, so that many containers do not make many wakes.
func (c *Collector) work() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	next := now.Add(time.Hour)
	for _, s := range c.all {
		if !s.live() {
			continue
		}
		if s.due.Before(now.Add(c.interval / 10)) {
			c.sample(s)
		}
		if s.due.Before(next) {
			next = s.due
		}
	}
	return next.Sub(now)
}

// sample takes a sample of a run that is live.
func (c *Collector) sample(s *series) {
	now := c.now()
	s.due = now.Add(c.interval) // whatever comes of it
	if now.Sub(s.limitsAt) >= limitsHold {
		if l, err := c.host.limits(s.group); err == nil {
			s.limits, s.limitsAt = l, now
		}
	}
	stats, err := c.host.stats(s.group)
	if err != nil {
		return // it ended; the tracker will say how
	}
	x := &Sample{Time: now, Stats: stats}
	if own := s.container; own.Netns != c.host.netns() && own.NetworkOwner == "" {
		if x.Interfaces, err = c.host.interfaces(int(own.Pid), own.Netns); errors.Is(err, cgroup.ErrGone) {
			return
		}
	}
	s.add(x, c.interval)
}

// follow takes in which containers run now.
func (c *Collector) follow() {
	all, unknown := c.containers.Containers()
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, now := range all {
		s := c.all[key]
		switch {
		case now == nil:
			delete(c.all, key)
		case now.Pid == 0 && s != nil:
			s.stop(now, c.now())
		case now.Pid == 0:
		case s != nil && s.end.IsZero() && s.sameRun(now):
			s.container = now
		default:
			c.all[key] = c.begin(now)
		}
	}
	for key := range c.all {
		if _, known := all[key]; !known && unknown == nil {
			delete(c.all, key)
		}
	}
	c.forget()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// begin makes the series of a run.
func (c *Collector) begin(of *models.Container) *series {
	s := &series{container: of, start: c.now(), due: c.now()}
	if t, err := time.Parse(time.RFC3339Nano, of.StartedAt); err == nil {
		s.start = t
	}
	var err error
	if s.group, err = c.host.find(int(of.Pid), of.Netns, of.ContainerId); err != nil {
		s.unread = err.Error()
	}
	return s
}

// stop ends a run.
func (s *series) stop(as *models.Container, now time.Time) {
	s.container = as
	if !s.end.IsZero() {
		return
	}
	s.end = now
	if t, err := time.Parse(time.RFC3339Nano, as.FinishedAt); err == nil && t.After(s.start) {
		s.end = t
	}
}

// forget drops the runs that ended first, if they are too many.
func (c *Collector) forget() {
	ended := slices.DeleteFunc(slices.Collect(maps.Keys(c.all)), func(key string) bool { return c.all[key].end.IsZero() })
	if len(ended) <= endedKept {
		return
	}
	slices.SortFunc(ended, func(a, b string) int { return c.all[a].end.Compare(c.all[b].end) })
	for _, key := range ended[:len(ended)-endedKept] {
		delete(c.all, key)
	}
}

// freshen samples a run that is live, unless that was just done.
func (c *Collector) freshen(s *series) {
	if last := s.last(); s.live() && (last == nil || c.now().Sub(last.Time) >= fresh) {
		c.sample(s)
	}
}

// Latest is how much each container that runs uses, sorted by key. What is older than a
// second is sampled before.
func (c *Collector) Latest() []Latest {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]Latest, 0, len(c.all))
	for key, s := range c.all {
		if s.end.IsZero() {
			c.freshen(s)
			out = append(out, s.latest(key, c.host.memory()))
		}
	}
	slices.SortFunc(out, func(a, b Latest) int { return cmp.Compare(a.Key, b.Key) })
	return out
}

// Detail is all that is kept of a container, also of one that has ended; false if there
// is nothing. It is sampled before, like those of Latest.
func (c *Collector) Detail(key string) (Detail, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.all[key]
	if s == nil {
		return Detail{}, false
	}
	c.freshen(s)
	return s.detail(key, c.host.memory()), true
}
