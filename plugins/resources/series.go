package resources

import (
	"slices"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/resources/cgroup"
)

// samplesKept is how many samples are kept: a minute of them, if they come each second.
// One has some 700 bytes, and 3 KiB at most, with all interfaces and devices that are
// told of.
const samplesKept = 64

// series is what is kept of one run of a container, or of another cgroup.
type series struct {
	container *models.Container // nil for another cgroup
	// within is the key of the container that the cgroup is in; "" for one of the machine.
	within string
	group  cgroup.Group
	// leftOut is how many cgroups in the container are not sampled.
	leftOut int
	// unread says why nothing can be sampled.
	unread     string
	start, end time.Time
	// first is when it was sampled first.
	first  time.Time
	taken  uint64
	recent []*Sample
	// minutes are those that had samples, the last one still under way.
	minutes  []minute
	limits   cgroup.Limits
	limitsAt time.Time
	full     filesystems
	// due is when the next sample is to be taken, wait how long after the last.
	due  time.Time
	wait time.Duration
}

// sameRun reports whether the container runs since the same start.
func (s *series) sameRun(c *models.Container) bool {
	return s.container.Pid == c.Pid && s.container.StartedAt == c.StartedAt
}

func (s *series) live() bool { return s.end.IsZero() && s.unread == "" }

func (s *series) last() *Sample {
	if len(s.recent) == 0 {
		return nil
	}
	return s.recent[len(s.recent)-1]
}

// add takes in a sample, and decides when the next one is due.
func (s *series) add(next *Sample, interval time.Duration) {
	s.taken++
	before := s.last()
	if len(s.recent) == samplesKept {
		s.recent = slices.Delete(s.recent, 0, 1)
	}
	s.recent = append(s.recent, next)
	if before == nil {
		s.first, s.wait = next.Time, interval
	} else {
		s.sumUp(before, next)
		s.wait = s.pace(before, next, interval)
	}
	s.due = next.Time.Add(s.wait)
}

// sumUp counts a sample to its minute.
func (s *series) sumUp(before, next *Sample) {
	rates := between(before, next)
	if rates == nil {
		return
	}
	number := s.minuteOf(next)
	if n := len(s.minutes); n == 0 || s.minutes[n-1].number != number {
		if n == minutesKept {
			s.minutes = slices.Delete(s.minutes, 0, 1)
		}
		s.minutes = append(s.minutes, minute{number: number})
	}
	s.minutes[len(s.minutes)-1].add(rates.CPU, next.workingSet(), next.Time.Sub(before.Time))
}

func (s *series) minuteOf(x *Sample) int32 { return int32(x.Time.Sub(s.first) / time.Minute) }

// What does less than this is idle: a hundredth of a processor, and of its memory.
const (
	idleCPU    = 10_000_000
	idleMemory = 100
	slowest    = 3 // intervals
)

// pace is how long to wait after a sample: longer and longer while nothing happens.
func (s *series) pace(before, next *Sample, interval time.Duration) time.Duration {
	if r := between(before, next); r == nil || r.CPU >= idleCPU {
		return interval
	}
	if a, b := before.workingSet(), next.workingSet(); max(a, b)-min(a, b) > max(a, b)/idleMemory {
		return interval
	}
	return min(s.wait+interval, slowest*interval)
}

// latest is how it stands.
func (s *series) latest(key string, machine uint64) Latest {
	l := Latest{
		Key: key, Container: s.container, Cgroup: s.group.Path, Start: s.start, End: s.end,
		Limits: s.limits, MemoryBound: machine, Samples: s.taken, Last: s.last(), Filesystems: s.full.all, Unread: s.unread,
	}
	if allowed := s.limits.MemoryAllowed; allowed > 0 && (machine == 0 || allowed < machine) {
		l.MemoryBound = allowed
	}
	if n := len(s.recent); n > 1 {
		l.Rates = between(s.recent[n-2], s.recent[n-1])
	}
	return l
}

// detail is all that is kept.
func (s *series) detail(key string, machine uint64) Detail {
	d := Detail{Latest: s.latest(key, machine), Recent: slices.Clone(s.recent), Minute: s.lastMinute()}
	if last := s.last(); last != nil {
		now := s.minuteOf(last)
		d.Hour, d.Day = summaryOf(s.minutes, now-59), summaryOf(s.minutes, now-minutesKept+1)
	}
	return d
}

// lastMinute sums up the samples of the last minute.
func (s *series) lastMinute() Summary {
	var cpu, memory []point
	for i := len(s.recent) - 1; i > 0 && s.last().Time.Sub(s.recent[i].Time) < time.Minute; i-- {
		before, x := s.recent[i-1], s.recent[i]
		rates, held := between(before, x), x.Time.Sub(before.Time)
		if rates == nil {
			continue
		}
		c, m := float32(rates.CPU), float32(x.workingSet())
		cpu, memory = append(cpu, point{c, c, held}), append(memory, point{m, m, held})
	}
	return Summary{CPU: distribution(cpu), Memory: distribution(memory)}
}
