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
	// Of the cgroups within a container so many are sampled, down to a depth; of those of
	// the machine so many; and so many of both.
	withinDepth, withinMost = 3, 32
	machineMost             = 250
	cgroupsMost             = 500
)

// Collector samples what containers and other cgroups use. Reading works from any
// goroutine.
type Collector struct {
	containers Containers
	interval   time.Duration
	depth      int
	host       host
	now        func() time.Time
	// wake is for who samples, came for who looks at file systems.
	wake, came chan struct{}

	mu  sync.Mutex
	all map[string]*series // of containers, by key
	// others are those that are no container's: the machine's, and those within
	// containers.
	others
}

// New makes a collector that samples what is not idle each interval: containers, the
// machine, and the machine's other cgroups down to a depth.
func New(containers Containers, interval time.Duration, depth int) (*Collector, error) {
	h, err := openHost()
	if err != nil {
		return nil, err
	}
	return newCollector(containers, interval, depth, h, time.Now), nil
}

func newCollector(containers Containers, interval time.Duration, depth int, h host, now func() time.Time) *Collector {
	return &Collector{
		containers: containers, interval: interval, depth: depth, host: h, now: now, wake: make(chan struct{}, 1), came: make(chan struct{}, 1),
		all: map[string]*series{}, others: others{cgroups: map[string]*series{}},
	}
}

// Run samples until ctx ends.
func (c *Collector) Run(ctx context.Context) error {
	var following sync.WaitGroup
	defer following.Wait()
	following.Go(func() {
		_ = c.containers.Watch(ctx, func(...string) { c.follow() }) // it ends with ctx
	})
	following.Go(func() { c.measure(ctx) })
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
	if now.Sub(c.surveyed) >= surveyHold {
		c.survey()
	}
	next := c.surveyed.Add(surveyHold)
	for _, all := range []map[string]*series{c.all, c.cgroups} {
		for _, s := range all {
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
	if err != nil { // it ended; of a container the tracker will say how
		if s.container == nil {
			delete(c.cgroups, s.group.Path)
		}
		return
	}
	x := &Sample{Time: now, Stats: stats}
	switch own := s.container; {
	case own == nil && s.group.Path == "/":
		x.Interfaces, _ = c.host.uplinks() // if they cannot be read, that is not told
	case own != nil && own.Netns != c.host.netns() && own.NetworkOwner == "":
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
	c.forgetOthers()
	tell(c.wake)
	tell(c.came)
}

// tell says that there is something to do, unless that was said and not heard yet.
func tell(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
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
	s.end, s.leftOut = now, 0
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
	return c.latest()
}

func (c *Collector) latest() []Latest {
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

// Detail is all that is kept of a container, also of one that has ended, or of another
// cgroup, by its path; false if there is nothing. It is sampled before, like those of
// Latest.
func (c *Collector) Detail(key string) (Detail, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resurvey()
	s := c.all[key]
	if s == nil {
		s = c.cgroups[key]
	}
	if s == nil {
		return Detail{}, false
	}
	c.freshen(s)
	d := s.detail(key, c.host.memory())
	if s.container != nil {
		d.Within, d.LeftOut = c.latestOf(func(in *series) bool { return in.within == key }), s.leftOut
	}
	return d, true
}
