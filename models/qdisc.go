package models

import "math"

const (
	maxRate = 400_000_000 // kilobits per second
	million = 1_000_000
	// bytesPerMs makes bytes of kilobits per second and milliseconds.
	bytesPerMs = 8
	// maxBurstMs is what the kernel can tell of how long a burst lasts, about.
	maxBurstMs = 200_000
)

// Type names the member of the oneof that is set: "tbf"; empty if none is.
func (x *Qdisc) Type() string {
	switch {
	case x.GetTbf() != nil:
		return "tbf"
	case x.GetNetem() != nil:
		return "netem"
	}
	return ""
}

// EffectiveBurst is burst, or its default.
func (x *Tbf) EffectiveBurst() uint32 {
	const ms, least = 10, 32768
	return orDefault(x.GetBurst(), max(uint32(uint64(x.GetRate())*ms/bytesPerMs), least))
}

// MaxBurst returns the largest burst in bytes that the kernel keeps at a rate in kilobits per second, with the default
// latency.
func MaxBurst(rate uint32) uint64 {
	waiting := uint64(rate) * uint64((&Tbf{}).EffectiveLatency()) / bytesPerMs
	return min(uint64(rate)*maxBurstMs/bytesPerMs, math.MaxUint32-min(waiting, math.MaxUint32-1))
}

// EffectiveLatency is latency, or its default.
func (x *Tbf) EffectiveLatency() uint32 { return orDefault(x.GetLatency(), 50) }

// EffectiveLimit is limit, or as many bytes as may wait for latency or leave at once.
func (x *Tbf) EffectiveLimit() uint64 {
	waiting := uint64(x.GetRate()) * uint64(x.EffectiveLatency()) / bytesPerMs
	return orDefault(uint64(x.GetLimit()), waiting+uint64(x.EffectiveBurst()))
}

// EffectiveLimit is limit, or its default.
func (x *Netem) EffectiveLimit() uint32 { return orDefault(x.GetLimit(), 1000) }

func (x *Qdisc) check(f *findings) {
	checkRef(x.Interface, "interface", "the interface", f)
	switch {
	case x.GetTbf() != nil:
		x.GetTbf().check(f)
	case x.GetNetem() != nil:
		x.GetNetem().check(f)
	default:
		f.add("tbf", "must be given, or netem")
	}
}

func (x *Tbf) check(f *findings) {
	// The kernel counts burst in time.
	if ms := uint64(x.EffectiveBurst()) * bytesPerMs / uint64(max(x.Rate, 1)); ms > maxBurstMs && x.Rate != 0 {
		f.add("tbf.burst", "%d bytes take %d ms at this rate, and the kernel keeps at most %d; make it smaller, or the rate higher", x.EffectiveBurst(), ms, maxBurstMs)
	}
	if x.Limit != 0 && x.Latency != 0 {
		f.add("tbf.limit", "not together with latency; keep one")
		return
	}
	if limit := x.EffectiveLimit(); limit > math.MaxUint32 {
		f.add("tbf.latency", "%d bytes would wait, and the kernel keeps at most %d; make it shorter", limit, math.MaxUint32)
	}
}

func (x *Netem) check(f *findings) {
	if x.Delay == 0 && x.Jitter != 0 {
		f.add("netem.jitter", "needs a delay that it changes")
	}
	if x.Jitter > x.Delay && x.Delay != 0 {
		f.add("netem.jitter", "%d is more than delay, %d; no packet can leave before it came", x.Jitter, x.Delay)
	}
	if x.Delay == 0 && x.Reorder != 0 {
		f.add("netem.reorder", "needs a delay, which those that overtake do not have")
	}
}

// EffectiveDirection is direction, or its default.
func (x *Mirror) EffectiveDirection() string { return orDefault(x.GetDirection(), "ingress") }

// Ingress reports whether what the interface takes in is copied.
func (x *Mirror) Ingress() bool { return x.EffectiveDirection() != "egress" }

// Egress reports whether what it sends is copied.
func (x *Mirror) Egress() bool { return x.EffectiveDirection() != "ingress" }

func (x *Mirror) check(f *findings) {
	checkRef(x.Interface, "interface", "the interface whose packets are copied", f)
	checkRef(x.To, "to", "the interface by which the copies leave", f)
	if x.To != "" && x.To == x.Interface {
		f.add("to", "is the interface itself")
	}
}
