package kernel

import (
	"math"
	"math/bits"
)

// Traffic is what is done to the packets of links by tc(8): the queueing disciplines at their
// roots, the hooks for filters, and the filters that mirror.
//
// All of it goes with its link, without an event.
type Traffic interface {
	// Qdiscs of a namespace that somebody has set, at roots and as hooks, by link. What the
	// kernel gives every link is not among them.
	Qdiscs(ns NS) ([]Qdisc, error)
	// AddQdisc never replaces: one that somebody has set in its place is ErrExist.
	// ErrUnsupported if the kernel has no such discipline.
	AddQdisc(ns NS, q Qdisc) error
	// ReplaceQdisc puts it in the place of the one of that handle at the root, in one step.
	// With the same handle it must be of the same kind, keeps what waits in it, and another
	// one that is there by now is ErrExist.
	ReplaceQdisc(ns NS, handle uint16, q Qdisc) error
	// DeleteQdisc removes the one of its handle at its place; ErrNotExist if there is none.
	DeleteQdisc(ns NS, q Qdisc) error

	// Filters at a hook of a link, in the order in which packets see them; none if it has no
	// hook. Of a hook of the kind ingress only those of ingress may be asked for.
	Filters(ns NS, index int, egress bool) ([]Filter, error)
	// AddFilter adds a filter that mirrors all packets, if it can be before those that are there, and lets
	// them go on to these. A hook is needed. ErrUnsupported if the kernel has no such filter.
	AddFilter(ns NS, f Filter) error
	// DeleteFilter removes one that was read; ErrNotExist if there is none.
	DeleteFilter(ns NS, f Filter) error
}

// HookHandle is the handle of the qdiscs that are hooks for filters. A link has one of them.
const HookHandle uint16 = 0xffff

// Kinds of qdiscs that are hooks for filters, of what comes in and, clsact, of what goes out too.
const (
	HookIngress = "ingress"
	HookBoth    = "clsact"
)

// Qdisc is a queueing discipline at the root of a link, or a hook for filters, which queues
// nothing.
type Qdisc struct {
	Index int
	// Handle is the major number, by which people and programs refer to it.
	Handle uint16
	Kind   string // as tc(8) calls it
	Tbf    Tbf
	Netem  Netem
	// More: it says something that is not here.
	More bool
}

// Hook reports whether it is a hook for filters.
func (q Qdisc) Hook() bool { return q.Handle == HookHandle }

// Same reports whether the kernel keeps both of them in the same way.
func (q Qdisc) Same(o Qdisc) bool {
	near := q.Tbf.burstTicks() - o.Tbf.burstTicks()
	q.Tbf.Burst, o.Tbf.Burst = 0, 0
	return q == o && -1 <= near && near <= 1
}

// Tbf is a limit for the bandwidth.
type Tbf struct {
	Rate  uint64 // bytes per second
	Limit uint32 // bytes that may wait or leave at once
	// Burst is how many bytes may leave at once. The kernel keeps for how long, in ticks of 64
	// nanoseconds: of a large rate it is read a little smaller than it was set.
	Burst uint32
}

// tick is that of the kernel's packet scheduler in nanoseconds.
const tick = 64

// burstTicks is how the kernel keeps burst.
func (t Tbf) burstTicks() int64 {
	if t.Rate == 0 {
		return 0
	}
	return int64(uint64(t.Burst) * 1e9 / t.Rate / tick)
}

// BurstOf is the number of bytes that leave in so many ticks.
func BurstOf(rate uint64, ticks uint32) uint32 {
	hi, lo := bits.Mul64(uint64(ticks)*tick, rate)
	if hi >= 1e9 {
		return math.MaxUint32
	}
	bytes, rest := bits.Div64(hi, lo, 1e9)
	if rest != 0 {
		bytes++
	}
	return uint32(min(bytes, math.MaxUint32))
}

// Netem is a network that is slow and bad.
type Netem struct {
	Delay, Jitter                     int64  // nanoseconds
	Loss, Duplicate, Corrupt, Reorder uint32 // probabilities, of 1<<32 - 1
	Rate                              uint64 // bytes per second
	Limit                             uint32 // packets
}

// Filter is one at a hook of a link.
type Filter struct {
	Index  int
	Egress bool
	// Pref and Handle are its place, which is chosen when it is added.
	Pref   uint16
	Handle uint32
	// Mark is ours: 32 hexadecimal digits that the kernel keeps with it.
	Mark string
	// To is the link by which copies of all packets leave; 0: that is gone, or it is a
	// filter of another kind.
	To int
}
