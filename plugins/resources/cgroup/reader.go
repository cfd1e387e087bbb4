package cgroup

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"time"
)

// ErrGone: the cgroup, or the process, is no more.
var ErrGone = errors.New("no such cgroup")

// Reader reads the files of the kernel, one after the other. It is for one goroutine
// at a time.
type Reader struct {
	buf []byte
	// missing: a file was not there, which may mean that nothing is any more.
	missing bool
}

// Stats reads what a cgroup uses. It fails with ErrGone if the cgroup ended before all
// was read; a file that is missing, or that makes no sense, is what the kernel does not
// tell.
func (r *Reader) Stats(g Group) (Stats, error) {
	r.missing = false
	s := Stats{CPU: r.cpu(g), Memory: r.memory(g), IO: r.io(g)}
	if n, ok := number(r.first("pids.current", g.pids, g.unified)); ok {
		s.Pids = &n
	}
	s.Pressure = Pressure{CPU: stall(r.file(g.unified, "cpu.pressure")), Memory: stall(r.file(g.unified, "memory.pressure")), IO: stall(r.file(g.unified, "io.pressure"))}
	return s, r.whole(g)
}

// Limits reads what a cgroup may use, like Stats.
func (r *Reader) Limits(g Group) (Limits, error) {
	r.missing = false
	var l Limits
	if g.cpu != "" {
		quota, _ := number(r.file(g.cpu, "cpu.cfs_quota_us")) // -1 is none
		period, _ := number(r.file(g.cpu, "cpu.cfs_period_us"))
		l.CPUQuota, l.CPUPeriod = span(quota, time.Microsecond), span(period, time.Microsecond)
		l.CPUShares, _ = number(r.file(g.cpu, "cpu.shares"))
	} else {
		l.CPUQuota, l.CPUPeriod = cpuMax(r.file(g.unified, "cpu.max"))
		weight, _ := number(r.file(g.unified, "cpu.weight"))
		l.CPUShares = shares(weight)
	}
	if g.memory != "" {
		l.Memory = v1Limit(r.file(g.memory, "memory.limit_in_bytes"))
		if both := v1Limit(r.file(g.memory, "memory.memsw.limit_in_bytes")); both > l.Memory {
			l.Swap = both - l.Memory
		}
		l.Reserved = v1Limit(r.file(g.memory, "memory.soft_limit_in_bytes"))
		fields(r.file(g.memory, "memory.stat"), map[string]*uint64{"hierarchical_memory_limit": &l.MemoryAllowed})
		if l.MemoryAllowed >= noLimit {
			l.MemoryAllowed = 0
		}
	} else {
		l.Memory = limit(r.file(g.unified, "memory.max"))
		l.Swap = limit(r.file(g.unified, "memory.swap.max"))
		l.Reserved = limit(r.file(g.unified, "memory.low"))
		l.MemoryAllowed = r.lowest(g.unified)
	}
	l.Pids = limit(r.first("pids.max", g.pids, g.unified))
	cpus := r.first("cpuset.effective_cpus", g.cpuset, "")
	if g.cpuset == "" {
		cpus = r.file(g.unified, "cpuset.cpus.effective")
	}
	l.CPUs = cpuList(cpus)
	return l, r.whole(g)
}

// lowest is the lowest limit of memory of a cgroup of version 2 and those above it; the root
// has no file of it. 0 is none.
func (r *Reader) lowest(dir string) (n uint64) {
	for ; ; dir = filepath.Dir(dir) {
		text := r.file(dir, "memory.max")
		if text == nil {
			return n
		}
		if l := limit(text); l > 0 && (n == 0 || l < n) {
			n = l
		}
	}
}

// Interfaces reads what came and went at the interfaces of the namespace of a process,
// which is known by its inode: an id may have gone to another process.
func (r *Reader) Interfaces(pid int, netns uint64) ([]Interface, error) {
	r.missing = false
	all := netDev(r.file(fmt.Sprintf("/proc/%d", pid), "net/dev"), noLoopback)
	var st syscall.Stat_t
	if err := syscall.Stat(fmt.Sprintf("/proc/%d/ns/net", pid), &st); err != nil || st.Ino != netns {
		return nil, ErrGone
	}
	return all, nil
}

func noLoopback(name string) bool { return name != "lo" }

// Uplinks reads what came and went at the interfaces of our own namespace that are
// devices: a bridge and its ports would count the same again. If none is, as within a
// container, it is all but loopback.
func (r *Reader) Uplinks() ([]Interface, error) {
	r.missing = false
	text := r.file("/proc/self", "net/dev")
	if r.missing {
		return nil, ErrGone
	}
	devices := netDev(text, func(name string) bool { return syscall.Access("/sys/class/net/"+name+"/device", 0) == nil })
	if len(devices) == 0 {
		devices = netDev(text, noLoopback)
	}
	return devices, nil
}

func (r *Reader) cpu(g Group) *CPU {
	c, known := &CPU{}, false
	if g.cpuacct == "" {
		pairs(r.file(g.unified, "cpu.stat"), func(name []byte, v uint64) {
			switch string(name) {
			case "usage_usec":
				c.Usage, known = span(v, time.Microsecond), true
			case "user_usec":
				c.User = span(v, time.Microsecond)
			case "system_usec":
				c.System = span(v, time.Microsecond)
			case "nr_periods":
				c.Periods = v
			case "nr_throttled":
				c.Throttled = v
			case "throttled_usec":
				c.ThrottledTime = span(v, time.Microsecond)
			}
		})
	} else {
		usage, ok := number(r.file(g.cpuacct, "cpuacct.usage"))
		user, _ := number(r.file(g.cpuacct, "cpuacct.usage_user"))
		system, _ := number(r.file(g.cpuacct, "cpuacct.usage_sys"))
		c.Usage, c.User, c.System, known = span(usage, 1), span(user, 1), span(system, 1), ok
		pairs(r.file(g.cpu, "cpu.stat"), func(name []byte, v uint64) {
			switch string(name) {
			case "nr_periods":
				c.Periods = v
			case "nr_throttled":
				c.Throttled = v
			case "throttled_time":
				c.ThrottledTime = span(v, 1)
			}
		})
	}
	if !known {
		return nil
	}
	return c
}

func (r *Reader) memory(g Group) *Memory {
	m := &Memory{}
	var inactive uint64
	var known bool
	if g.memory == "" {
		m.Usage, known = number(r.file(g.unified, "memory.current"))
		m.Swap, _ = number(r.file(g.unified, "memory.swap.current"))
		m.Peak, _ = number(r.file(g.unified, "memory.peak"))
		fields(r.file(g.unified, "memory.stat"), map[string]*uint64{
			"anon": &m.RSS, "file": &m.Cache, "file_mapped": &m.Mapped, "inactive_file": &inactive,
			"pgfault": &m.PageFaults, "pgmajfault": &m.MajorFaults,
		})
		fields(r.file(g.unified, "memory.events"), map[string]*uint64{"max": &m.Failures, "oom_kill": &m.OOMKills})
		if g.Path == "/" { // which does not have those files that are of one cgroup
			m.Usage, m.Swap, known = machine(r.file("/proc", "meminfo"))
		}
	} else {
		m.Usage, known = number(r.file(g.memory, "memory.usage_in_bytes"))
		m.Peak, _ = number(r.file(g.memory, "memory.max_usage_in_bytes"))
		m.Failures, _ = number(r.file(g.memory, "memory.failcnt"))
		fields(r.file(g.memory, "memory.stat"), map[string]*uint64{
			"total_rss": &m.RSS, "total_cache": &m.Cache, "total_mapped_file": &m.Mapped, "total_swap": &m.Swap,
			"total_inactive_file": &inactive, "total_pgfault": &m.PageFaults, "total_pgmajfault": &m.MajorFaults,
		})
		fields(r.file(g.memory, "memory.oom_control"), map[string]*uint64{"oom_kill": &m.OOMKills})
	}
	if !known {
		return nil
	}
	m.WorkingSet = m.Usage - min(inactive, m.Usage) // they are read one after the other
	return m
}

func (r *Reader) io(g Group) (all []DeviceIO) {
	if g.io == "" {
		return ioStat(r.file(g.unified, "io.stat"))
	}
	blkio(&all, r.file(g.io, "blkio.throttle.io_service_bytes_recursive"),
		func(d *DeviceIO) *uint64 { return &d.ReadBytes }, func(d *DeviceIO) *uint64 { return &d.WriteBytes })
	blkio(&all, r.file(g.io, "blkio.throttle.io_serviced_recursive"),
		func(d *DeviceIO) *uint64 { return &d.ReadCount }, func(d *DeviceIO) *uint64 { return &d.WriteCount })
	return all
}

// first reads the file in the first directory that there is.
func (r *Reader) first(name, v1, v2 string) []byte {
	if v1 != "" {
		return r.file(v1, name)
	}
	return r.file(v2, name)
}

// maxFile bounds what is read of a file: memory.stat has some 2 KiB, net/dev 120 bytes
// for each interface.
const maxFile = 64 << 10

// file reads a file; what it returns holds until the next call. It is empty if there is
// none. Go's own files would be told to the poller, which costs more than the reading.
func (r *Reader) file(dir, name string) []byte {
	if dir == "" {
		return nil
	}
	fd, err := syscall.Open(dir+"/"+name, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		r.missing = true
		return nil
	}
	defer syscall.Close(fd)
	if r.buf == nil {
		r.buf = make([]byte, maxFile)
	}
	n := 0
	for n < len(r.buf) {
		more, err := syscall.Read(fd, r.buf[n:])
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil: // ENODEV: it ended since
			r.missing = true
			return nil
		case more == 0:
			return r.buf[:n]
		}
		n += more
	}
	return r.buf[:n]
}

// whole fails if the cgroup ended meanwhile.
func (r *Reader) whole(g Group) error {
	if !r.missing {
		return nil
	}
	for _, dir := range []string{g.unified, g.cpu, g.cpuacct, g.memory, g.pids, g.io, g.cpuset} {
		if dir != "" && syscall.Access(dir, 0) != nil {
			return ErrGone
		}
	}
	return nil
}
