package kerneltest

import (
	"slices"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// Track adds tracked connections to a namespace, as packets do. Nothing translates them here.
func (k *Kernel) Track(ns kernel.NS, flows ...kernel.Flow) error {
	return k.in(ns, "Track", "track connections", func(n *namespace) error {
		n.flows = append(n.flows, flows...)
		return nil
	})
}

// DeleteFlows deletes those that stale selects; see the port.
func (k *Kernel) DeleteFlows(ns kernel.NS, stale func(kernel.Flow) bool, like ...kernel.Flow) (deleted int, err error) {
	err = k.in(ns, "DeleteFlows", "delete tracked connections", func(n *namespace) error {
		before := len(n.flows)
		n.flows = slices.DeleteFunc(n.flows, func(f kernel.Flow) bool { return f.LikeAny(like) && stale(f) })
		deleted = before - len(n.flows)
		return nil
	})
	return deleted, err
}

// Tracked returns the tracked connections of a namespace.
func (k *Kernel) Tracked(ns kernel.NS) (flows []kernel.Flow) {
	_ = k.in(ns, "Tracked", "list tracked connections", func(n *namespace) error {
		flows = slices.Clone(n.flows)
		return nil
	})
	return flows
}
