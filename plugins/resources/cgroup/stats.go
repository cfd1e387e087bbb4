package cgroup

import "time"

// Stats are what a cgroup, and all below it, use and have used. What is nil is not told.
type Stats struct {
	CPU      *CPU
	Memory   *Memory
	Pids     *uint64 // processes and threads
	IO       []DeviceIO
	Pressure Pressure
}

// CPU is the time that was used since the cgroup was made.
type CPU struct {
	Usage, User, System time.Duration
	// Periods of the quota, those in which it was used up, and how long the processes
	// then had to wait.
	Periods, Throttled uint64
	ThrottledTime      time.Duration
}

// Memory is in bytes, but for what counts.
type Memory struct {
	Usage uint64
	// WorkingSet is what cannot be given back at once: Usage without the pages of files
	// that were not used lately.
	WorkingSet uint64
	// RSS is anonymous memory, Cache that of files, Mapped what of it is mapped.
	RSS, Cache, Mapped uint64
	Swap               uint64
	Peak               uint64 // 0 if the kernel does not keep it
	// Failures counts how often the limit was met, OOMKills the processes that were
	// killed for it.
	Failures, OOMKills      uint64
	PageFaults, MajorFaults uint64
}

// DeviceIO is what went to and from a block device.
type DeviceIO struct {
	Device                                       string // MAJOR:MINOR
	ReadBytes, WriteBytes, ReadCount, WriteCount uint64
}

// Pressure is for how long processes waited for a resource.
type Pressure struct {
	CPU, Memory, IO *Stall
}

// Stall is the time for which some processes waited, and for which all did.
type Stall struct {
	Some, Full time.Duration
}

// Limits are what a cgroup may use at most. Zero is no limit.
type Limits struct {
	// In each CPUPeriod the cgroup may use CPUQuota.
	CPUQuota, CPUPeriod time.Duration
	// CPUShares is its weight against others, as version 1 counts it: 1024 is usual.
	CPUShares uint64
	// CPUs are those that it may run on, as "0-3,7".
	CPUs string
	// Memory and Swap are in bytes; Reserved is what it keeps when others want memory.
	Memory, Swap, Reserved uint64
	// MemoryAllowed is the lowest limit of the cgroup and of those above it, as of a pod.
	MemoryAllowed uint64
	Pids          uint64
}

// Interface is what came and went at an interface of a namespace.
type Interface struct {
	Name                            string
	ReceiveBytes, ReceivePackets    uint64
	ReceiveErrors, ReceiveDropped   uint64
	TransmitBytes, TransmitPackets  uint64
	TransmitErrors, TransmitDropped uint64
}
