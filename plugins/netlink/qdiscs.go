package netlink

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// What golang.org/x/sys/unix does not name of linux/pkt_sched.h.
const (
	parentRoot = 0xffffffff // TC_H_ROOT
	parentHook = 0xfffffff1 // TC_H_INGRESS and TC_H_CLSACT

	tcaStab = 8

	tbfParms  = 1
	tbfRate64 = 4
	tbfBurst  = 6

	netemCorr      = 1
	netemReorder   = 3
	netemCorrupt   = 4
	netemLoss      = 5
	netemRate      = 6
	netemECN       = 7
	netemRate64    = 8
	netemLatency64 = 10
	netemJitter64  = 11
	netemSlot      = 12

	sizeofRateSpec = 12 // struct tc_ratespec
	sizeofTbf      = 2*sizeofRateSpec + 3*4
	sizeofNetem    = 6 * 4
	sizeofTcMsg    = 20

	linkLayerEthernet = 1 // TC_LINKLAYER_ETHERNET; else the kernel wants a table
)

// Qdiscs that somebody has set, at roots and as hooks, by link.
func (k *Kernel) Qdiscs(ns kernel.NS) (list []kernel.Qdisc, err error) {
	err = k.in(ns, "list queueing disciplines", func(n *namespace) error {
		m := newMessage(unix.RTM_GETQDISC, unix.NLM_F_DUMP)
		m.traffic(0, 0, 0, 0)
		return n.dump(m, func() { list = nil }, func(_ uint16, body []byte) {
			if q, ok := parseQdisc(body); ok {
				list = append(list, q)
			}
		})
	})
	slices.SortFunc(list, func(a, b kernel.Qdisc) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Handle, b.Handle))
	})
	return list, err
}

// AddQdisc sets a qdisc; see [kernel.Traffic].
func (k *Kernel) AddQdisc(ns kernel.NS, q kernel.Qdisc) error {
	return k.putQdisc(ns, "add", unix.NLM_F_CREATE|unix.NLM_F_EXCL, q)
}

// ReplaceQdisc puts a qdisc in the place of another; see [kernel.Traffic].
func (k *Kernel) ReplaceQdisc(ns kernel.NS, handle uint16, q kernel.Qdisc) error {
	flags := 0
	if handle != q.Handle {
		flags = unix.NLM_F_CREATE | unix.NLM_F_REPLACE
	}
	return k.putQdisc(ns, "replace", flags, q)
}

func (k *Kernel) putQdisc(ns kernel.NS, act string, flags int, q kernel.Qdisc) error {
	return k.in(ns, fmt.Sprintf("%s %s of link %d", act, q.Kind, q.Index), func(n *namespace) error {
		if err := checkIndex(q.Index); err != nil {
			return err
		}
		m, err := newQdisc(flags, q)
		if err != nil {
			return err
		}
		err = n.do(m, nil)
		if flags&unix.NLM_F_CREATE != 0 && errors.Is(err, unix.ENOENT) { // what else it names is there
			return unknownModule("queueing discipline "+q.Kind, "sch_"+module(q.Kind), err)
		}
		return err
	})
}

// module is that of a kind of qdiscs: both hooks are in one.
func module(kind string) string {
	if kind == kernel.HookBoth {
		return kernel.HookIngress
	}
	return kind
}

// unknownModule explains what it takes that the kernel knows a thing. What it says of such,
// ENOENT, is that of things that are gone as well, so only its words are kept.
func unknownModule(what, module string, err error) error {
	why := ""
	if r := (*refusal)(nil); errors.As(err, &r) && r.why != "" {
		why = " (" + r.why + ")"
	}
	return fmt.Errorf("%w%s; it has no %s: is its module there (modprobe %s)?", kernel.ErrUnsupported, why, what, module)
}

// DeleteQdisc removes a qdisc; see [kernel.Traffic].
func (k *Kernel) DeleteQdisc(ns kernel.NS, q kernel.Qdisc) error {
	return k.in(ns, fmt.Sprintf("delete %s of link %d", q.Kind, q.Index), func(n *namespace) error {
		m := newMessage(unix.RTM_DELQDISC, 0)
		m.traffic(q.Index, uint32(q.Handle)<<16, parentOf(q), 0)
		err := n.do(m, nil)
		if errors.Is(err, unix.EINVAL) { // another handle is there
			err = fmt.Errorf("%w: %w", kernel.ErrNotExist, err)
		}
		return err
	})
}

func parentOf(q kernel.Qdisc) uint32 {
	if q.Hook() {
		return parentHook
	}
	return parentRoot
}

// newQdisc says all that a discipline has: the kernel leaves alone what is not said.
func newQdisc(flags int, q kernel.Qdisc) (*message, error) {
	m := newMessage(unix.RTM_NEWQDISC, flags)
	m.traffic(q.Index, uint32(q.Handle)<<16, parentOf(q), 0)
	m.str(unix.TCA_KIND, q.Kind)
	switch {
	case q.More, q.Handle == 0:
	case q.Hook() && (q.Kind == kernel.HookBoth || q.Kind == kernel.HookIngress):
		return m, nil
	case q.Kind == "tbf":
		m.tbf(q.Tbf)
		return m, nil
	case q.Kind == "netem":
		m.netem(q.Netem)
		return m, nil
	}
	return nil, fmt.Errorf("no queueing discipline of ours: %w", unix.EINVAL)
}

// traffic adds the header of messages about qdiscs and filters (struct tcmsg).
func (m *message) traffic(index int, handle, parent, info uint32) {
	m.b = append(m.b, unix.AF_UNSPEC, 0, 0, 0)
	m.b = native.AppendUint32(m.b, uint32(int32(index)))
	for _, v := range []uint32{handle, parent, info} {
		m.b = native.AppendUint32(m.b, v)
	}
}

func (m *message) tbf(t kernel.Tbf) {
	start := m.open(unix.TCA_OPTIONS)
	parms := []byte{0, linkLayerEthernet, 0, 0, 0, 0, 0, 0}
	parms = native.AppendUint32(parms, uint32(min(t.Rate, math.MaxUint32)))
	parms = append(parms, make([]byte, sizeofRateSpec)...) // no peak rate
	for _, v := range []uint32{t.Limit, 0, 0} {
		parms = native.AppendUint32(parms, v)
	}
	m.bytes(tbfParms, parms)
	m.u32(tbfBurst, t.Burst)
	if t.Rate > math.MaxUint32 {
		m.u64(tbfRate64, t.Rate)
	}
	m.close(start)
}

func (m *message) netem(t kernel.Netem) {
	start := m.open(unix.TCA_OPTIONS)
	gap := uint32(0) // how many are held between those that are not
	if t.Reorder != 0 {
		gap = 1
	}
	for _, v := range []uint32{0, t.Limit, t.Loss, gap, t.Duplicate, 0} {
		m.b = native.AppendUint32(m.b, v)
	}
	words := func(typ int, list ...uint32) {
		var b []byte
		for _, v := range list {
			b = native.AppendUint32(b, v)
		}
		m.bytes(typ, b)
	}
	m.u64(netemLatency64, uint64(t.Delay))
	m.u64(netemJitter64, uint64(t.Jitter))
	words(netemCorr, 0, 0, 0)
	words(netemReorder, t.Reorder, 0)
	words(netemCorrupt, t.Corrupt, 0)
	words(netemRate, uint32(min(t.Rate, math.MaxUint32)), 0, 0, 0)
	if t.Rate > math.MaxUint32 {
		m.u64(netemRate64, t.Rate)
	}
	m.close(start)
}

// parseQdisc reads the body of a message about a qdisc; false for those that nobody has set,
// and for those within others.
func parseQdisc(body []byte) (q kernel.Qdisc, ok bool) {
	if len(body) < sizeofTcMsg {
		return q, false
	}
	q.Index, q.Handle = int(int32(asU32(body[4:]))), uint16(asU32(body[8:])>>16)
	parent := asU32(body[12:])
	var options []byte
	for typ, v := range attributes(body[sizeofTcMsg:]) {
		switch typ {
		case unix.TCA_KIND:
			q.Kind = asString(v)
		case unix.TCA_OPTIONS:
			options = v
		case tcaStab:
			q.More = true
		}
	}
	more := false
	switch q.Kind {
	case "tbf":
		q.Tbf, more = parseTbf(options)
	case "netem":
		q.Netem, more = parseNetem(options)
	}
	q.More = q.More || more
	return q, q.Index > 0 && (parent == parentRoot && q.Handle != 0 || parent == parentHook && q.Hook())
}

// parseTbf reads the options of a tbf; more: there is a peak rate, or packets count for more
// than their size.
func parseTbf(options []byte) (t kernel.Tbf, more bool) {
	buffer := uint32(0)
	for typ, v := range attributes(options) {
		switch typ {
		case tbfParms:
			if len(v) < sizeofTbf {
				return t, true
			}
			t.Rate = max(t.Rate, uint64(asU32(v[8:])))
			rest := v[2*sizeofRateSpec:]
			t.Limit, buffer = asU32(rest), asU32(rest[4:])
			more = v[1]&0xf > linkLayerEthernet || asU16(v[2:]) != 0 || asU32(v[sizeofRateSpec+8:]) != 0
		case tbfRate64:
			t.Rate = asU64(v)
		}
	}
	t.Burst = kernel.BurstOf(t.Rate, buffer)
	return t, more
}

// parseNetem reads the options of a netem; more: chance depends on what was before, every so
// many packets are something, or losses follow a model.
func parseNetem(options []byte) (t kernel.Netem, more bool) {
	if len(options) < sizeofNetem {
		return t, true
	}
	word := func(b []byte, i int) uint32 { return asU32(b[min(4*i, len(b)):]) }
	t.Limit, t.Loss, t.Duplicate = word(options, 1), word(options, 2), word(options, 4)
	gap := word(options, 3)
	for typ, v := range attributes(options[sizeofNetem:]) {
		switch typ {
		case netemCorr:
			more = more || word(v, 0)|word(v, 1)|word(v, 2) != 0
		case netemReorder:
			t.Reorder, more = word(v, 0), more || word(v, 1) != 0
		case netemCorrupt:
			t.Corrupt, more = word(v, 0), more || word(v, 1) != 0
		case netemRate:
			t.Rate, more = max(t.Rate, uint64(word(v, 0))), more || word(v, 1)|word(v, 2)|word(v, 3) != 0
		case netemRate64:
			t.Rate = asU64(v)
		case netemLatency64:
			t.Delay = int64(asU64(v))
		case netemJitter64:
			t.Jitter = int64(asU64(v))
		case netemLoss, netemSlot:
			more = true
		case netemECN:
			more = more || asU32(v) != 0
		}
	}
	if gap == 0 {
		t.Reorder = 0 // none is
	}
	return t, more || gap > 1
}
