package cgroup

import (
	"bytes"
	"time"
)

// cpuMax reads cpu.max: the quota, or "max", and the period.
func cpuMax(text []byte) (quota, period time.Duration) {
	first, second, _ := bytes.Cut(text, []byte(" "))
	q, _ := number(first)
	p, _ := number(second)
	return span(q, time.Microsecond), span(p, time.Microsecond)
}

// shares turns a weight of version 2, from 1 to 10000, into the shares of version 1,
// from 2 to 262144, as runtimes turn these into weights.
func shares(weight uint64) uint64 {
	if weight == 0 || weight > 10000 {
		return 0
	}
	return 2 + (weight-1)*262142/9999
}

// noLimit is from where on a limit of version 1 is none: the kernel has no word for it,
// and tells the largest multiple of a page.
const noLimit = 1 << 62

func v1Limit(text []byte) uint64 {
	if n, ok := number(text); ok && n < noLimit {
		return n
	}
	return 0
}

// maxCPUs bounds a list of processors.
const maxCPUs = 256

// cpuList is a list of processors as it stands, if it is one.
func cpuList(text []byte) string {
	text = bytes.TrimSuffix(text, []byte("\n"))
	for _, c := range text {
		if (c < '0' || c > '9') && c != ',' && c != '-' {
			return ""
		}
	}
	return string(text[:min(len(text), maxCPUs)])
}
