package kind

import (
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
)

// SetNetwork sets the network settings of a value to those of an address in the kernel: the peer, the
// route to the network, and whether other hosts that have the address were detected.
func SetNetwork(v *models.Address, a kernel.Address) {
	if a.Peer.IsValid() {
		v.Peer = a.Peer.String()
	}
	v.Metric = a.Metric
	if a.NoPrefixRoute {
		v.PrefixRoute = "none"
	}
	if a.NoDetection {
		v.DuplicateDetection = "none"
	}
}
