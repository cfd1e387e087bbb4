package qdisc

import (
	"math"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
)

const (
	million = 1_000_000
	// perKilobit is one kilobit per second in bytes per second.
	perKilobit = 125
	// perMicro is a microsecond in nanoseconds.
	perMicro = 1000
)

// asked is the discipline of a valid value.
func asked(v *models.Qdisc, index int, handle uint16) kernel.Qdisc {
	q := kernel.Qdisc{Index: index, Handle: handle, Kind: v.Type()}
	if t := v.GetTbf(); t != nil {
		q.Tbf = kernel.Tbf{Rate: uint64(t.Rate) * perKilobit, Burst: t.EffectiveBurst(), Limit: uint32(min(t.EffectiveLimit(), math.MaxUint32))}
	}
	if t := v.GetNetem(); t != nil {
		q.Netem = kernel.Netem{
			Delay: int64(t.Delay) * perMicro, Jitter: int64(t.Jitter) * perMicro,
			Loss: chance(t.Loss), Duplicate: chance(t.Duplicate), Corrupt: chance(t.Corrupt), Reorder: chance(t.Reorder),
			Rate: uint64(t.Rate) * perKilobit, Limit: t.EffectiveLimit(),
		}
	}
	return q
}

// chance is that of so many of a million as the kernel has it.
func chance(ofMillion uint32) uint32 {
	return uint32((uint64(ofMillion)*math.MaxUint32 + million/2) / million)
}

func ofMillion(chance uint32) uint32 {
	return uint32((uint64(chance)*million + math.MaxUint32/2) / math.MaxUint32)
}

// value says a discipline as a value that sets the same: like, if that does, for there may be
// several. Of one that none says it has no type.
func value(q kernel.Qdisc, like *models.Qdisc) *models.Qdisc {
	sets := func(v *models.Qdisc) bool { return asked(v, q.Index, q.Handle).Same(q) }
	if sets(like) {
		return &models.Qdisc{Discipline: proto.CloneOf(like).GetDiscipline()}
	}
	for _, v := range readings(q) {
		if sets(v) {
			return v
		}
	}
	return &models.Qdisc{}
}

// readings are values that may set a discipline, the best first.
func readings(q kernel.Qdisc) (list []*models.Qdisc) {
	kilobits := func(rate uint64) uint32 { return uint32(min(rate/perKilobit, math.MaxUint32)) }
	switch q.Kind {
	case "tbf":
		add := func(t *models.Tbf) {
			list = append(list, &models.Qdisc{Discipline: &models.Qdisc_Tbf{Tbf: t}})
		}
		rate := kilobits(q.Tbf.Rate)
		// Where the burst is not read exactly, a latency of whole milliseconds tells it.
		if waiting := uint64(q.Tbf.Limit) - uint64(q.Tbf.Burst); q.Tbf.Limit >= q.Tbf.Burst && rate != 0 {
			for more := range uint64(2) {
				t := &models.Tbf{Rate: rate, Latency: uint32(min(waiting*8/uint64(rate)+more, math.MaxUint32))}
				t.Burst = q.Tbf.Limit - uint32(uint64(rate)*uint64(t.Latency)/8)
				if t.Latency != 0 {
					add(t)
				}
			}
		}
		add(&models.Tbf{Rate: rate, Burst: q.Tbf.Burst, Limit: q.Tbf.Limit})
	case "netem":
		n := q.Netem
		list = append(list, &models.Qdisc{Discipline: &models.Qdisc_Netem{Netem: &models.Netem{
			Delay: micros(n.Delay), Jitter: micros(n.Jitter),
			Loss: ofMillion(n.Loss), Duplicate: ofMillion(n.Duplicate), Corrupt: ofMillion(n.Corrupt), Reorder: ofMillion(n.Reorder),
			Rate: kilobits(n.Rate), Limit: n.Limit,
		}}})
	}
	return list
}

func micros(ns int64) uint32 { return uint32(min(max(ns, 0)/perMicro, math.MaxUint32)) }
