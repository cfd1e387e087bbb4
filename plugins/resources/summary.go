package resources

import (
	"cmp"
	"slices"
	"time"
)

// Summary is how much was used over a time.
type Summary struct {
	// CPU is in billionths of a processor, Memory the working set in bytes.
	CPU, Memory Distribution
}

// Distribution says how a figure was over a time. Each value counts for as long as it
// held. Over a minute the values are those of the samples; over an hour or a day they
// are the means of its minutes, so what peaked for less shows in Max alone.
type Distribution struct {
	Mean, Max, P50, P90, P95 uint64
}

// point is a value that held for a while, and the highest in that while.
type point struct {
	mean, max float32
	held      time.Duration
}

// distribution sums up points, which it sorts.
func distribution(all []point) (d Distribution) {
	slices.SortFunc(all, func(a, b point) int { return cmp.Compare(a.mean, b.mean) })
	var total time.Duration
	var sum float64
	for _, p := range all {
		total += p.held
		sum += float64(p.mean) * p.held.Seconds()
		d.Max = max(d.Max, uint64(p.max))
	}
	if total <= 0 {
		return Distribution{}
	}
	d.Mean = uint64(sum / total.Seconds())
	d.P50, d.P90, d.P95 = percentile(all, total*50/100), percentile(all, total*90/100), percentile(all, total*95/100)
	return d
}

// percentile is the first value at or below which it was for that long; they are sorted.
func percentile(all []point, share time.Duration) uint64 {
	for _, p := range all {
		if share -= p.held; share <= 0 {
			return uint64(p.mean)
		}
	}
	return 0
}

// minutesKept are those of a day.
const minutesKept = 24 * 60

// minute is what was used in a minute. It is small, for each container may have 1440.
type minute struct {
	number      int32 // since the start of the series
	held        time.Duration
	cpu, memory struct{ mean, max float32 }
}

// add takes in a value that held for a while.
func (m *minute) add(cpu, memory uint64, held time.Duration) {
	share := float32(held) / float32(m.held+held)
	m.held += held
	m.cpu.mean += (float32(cpu) - m.cpu.mean) * share
	m.memory.mean += (float32(memory) - m.memory.mean) * share
	m.cpu.max = max(m.cpu.max, float32(cpu))
	m.memory.max = max(m.memory.max, float32(memory))
}

// summaryOf sums up the minutes from a number on.
func summaryOf(all []minute, from int32) Summary {
	var cpu, memory []point
	for _, m := range all {
		if m.number >= from {
			cpu = append(cpu, point{m.cpu.mean, m.cpu.max, m.held})
			memory = append(memory, point{m.memory.mean, m.memory.max, m.held})
		}
	}
	return Summary{CPU: distribution(cpu), Memory: distribution(memory)}
}
