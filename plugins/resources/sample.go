package resources

import (
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/resources/cgroup"
	"github.com/plumb-net/plumb/plugins/resources/disk"
)

// Sample is what a container had used at a time. It never changes.
type Sample struct {
	Time time.Time
	cgroup.Stats
	// Interfaces are those of its namespace, but for loopback. One that shares the
	// namespace of the host, or of another container, has none: that would be counted
	// twice.
	Interfaces []cgroup.Interface
}

// workingSet is what it had of memory, 0 if that is not told.
func (s *Sample) workingSet() uint64 {
	if s.Memory == nil {
		return 0
	}
	return s.Memory.WorkingSet
}

// Latest is how much a container uses, or another cgroup.
type Latest struct {
	// Key is <runtime>:<id>, or the path of a cgroup that is no container's.
	Key string
	// Container is nil for another cgroup.
	Container *models.Container
	// Cgroup is where it is below the root of its hierarchy.
	Cgroup string
	// Start and End are those of the run that is sampled; End is zero while it lasts. The
	// kernel does not tell when a cgroup was made, so for others than containers Start is
	// zero as well.
	Start, End time.Time
	Limits     cgroup.Limits
	// MemoryBound is what it can have at most: its limit, a lower one of a cgroup above it, or what the
	// machine has.
	MemoryBound uint64
	// Samples is how many were taken, Last the last one; nil if there is none yet.
	Samples uint64
	Last    *Sample
	// Rates are those between the last two samples; nil if there are no two.
	Rates *Rates
	// Filesystems are, of a container, the one that its layer is in and how much of it that
	// takes; of the machine, all of them. They are looked at apart, each minute at most.
	Filesystems []disk.Usage
	// Unread says why nothing can be sampled.
	Unread string
}

// Detail is all that is kept of a container or another cgroup.
type Detail struct {
	Latest
	// Within are the cgroups in the container, by path; LeftOut is how many more there
	// are, at least.
	Within  []Latest
	LeftOut int
	// Recent are the last samples, oldest first.
	Recent []*Sample
	// Minute, Hour and Day are up to the last sample.
	Minute, Hour, Day Summary
}

// Rates are what is used in a second.
type Rates struct {
	// CPU is in billionths of a processor.
	CPU uint64
	// Throttled is the share of the quota's periods in which it was used up, in percent.
	Throttled uint64
	// Bytes, over all interfaces and all devices.
	Receive, Transmit, Read, Write uint64
}

// between are the rates from one sample to a later one; nil if there was no time.
func between(a, b *Sample) *Rates {
	took := b.Time.Sub(a.Time)
	if took <= 0 {
		return nil
	}
	per := func(before, after uint64) uint64 { return uint64(float64(grown(before, after)) / took.Seconds()) }
	r := &Rates{}
	if a.CPU != nil && b.CPU != nil {
		r.CPU = per(uint64(a.CPU.Usage), uint64(b.CPU.Usage))
		if periods := grown(a.CPU.Periods, b.CPU.Periods); periods > 0 {
			r.Throttled = 100 * grown(a.CPU.Throttled, b.CPU.Throttled) / periods
		}
	}
	for _, after := range b.Interfaces {
		for _, before := range a.Interfaces {
			if before.Name == after.Name {
				r.Receive += per(before.ReceiveBytes, after.ReceiveBytes)
				r.Transmit += per(before.TransmitBytes, after.TransmitBytes)
			}
		}
	}
	for _, after := range b.IO {
		before := cgroup.DeviceIO{} // a device shows up with its first use
		for _, d := range a.IO {
			if d.Device == after.Device {
				before = d
			}
		}
		r.Read += per(before.ReadBytes, after.ReadBytes)
		r.Write += per(before.WriteBytes, after.WriteBytes)
	}
	return r
}

// grown is by how much a counter grew; one that was set back did not.
func grown(before, after uint64) uint64 { return after - min(before, after) }
