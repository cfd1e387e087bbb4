package kerneltest

import (
	"fmt"
	"syscall"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// Queueing disciplines, hooks and filters are not known here: there are none, and none can be
// added.

// Qdiscs are none.
func (k *Kernel) Qdiscs(ns kernel.NS) ([]kernel.Qdisc, error) {
	return nil, k.in(ns, "Qdiscs", "list queueing disciplines", func(*namespace) error { return nil })
}

// AddQdisc cannot add any.
func (k *Kernel) AddQdisc(ns kernel.NS, q kernel.Qdisc) error {
	return k.noTraffic(ns, "AddQdisc", fmt.Sprintf("add %s of link %d", q.Kind, q.Index), syscall.EOPNOTSUPP)
}

// ReplaceQdisc finds none.
func (k *Kernel) ReplaceQdisc(ns kernel.NS, _ uint16, q kernel.Qdisc) error {
	return k.noTraffic(ns, "ReplaceQdisc", fmt.Sprintf("replace %s of link %d", q.Kind, q.Index), syscall.ENOENT)
}

// DeleteQdisc finds none.
func (k *Kernel) DeleteQdisc(ns kernel.NS, q kernel.Qdisc) error {
	return k.noTraffic(ns, "DeleteQdisc", fmt.Sprintf("delete %s of link %d", q.Kind, q.Index), syscall.ENOENT)
}

// Filters are none.
func (k *Kernel) Filters(ns kernel.NS, index int, _ bool) ([]kernel.Filter, error) {
	return nil, k.in(ns, "Filters", fmt.Sprintf("list filters of link %d", index), func(*namespace) error { return nil })
}

// AddFilter cannot add any.
func (k *Kernel) AddFilter(ns kernel.NS, f kernel.Filter) error {
	return k.noTraffic(ns, "AddFilter", fmt.Sprintf("mirror link %d by %d", f.Index, f.To), syscall.EOPNOTSUPP)
}

// DeleteFilter finds none.
func (k *Kernel) DeleteFilter(ns kernel.NS, f kernel.Filter) error {
	return k.noTraffic(ns, "DeleteFilter", fmt.Sprintf("delete a filter of link %d", f.Index), syscall.ENOENT)
}

func (k *Kernel) noTraffic(ns kernel.NS, call, act string, errno syscall.Errno) error {
	return k.write(ns, call, act, func(*namespace) error { return refused(errno) })
}
