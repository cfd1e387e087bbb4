package kerneltest

import (
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// Offloads by the names of the kernel, as it has them where they are done in software. What is not
// named for a type nobody can change.
var (
	offloadsOff = strings.Fields("rx-gro-list rx-udp-gro-forwarding tx-nocache-copy")
	// offloadsOfAll are on, on links of every type.
	offloadsOfAll = strings.Fields("rx-gro tx-generic-segmentation")
	// offloadsOfMost are not those of links that hand all to the one below.
	offloadsOfMost = strings.Fields(`tx-checksum-ip-generic tx-gso-list tx-scatter-gather tx-scatter-gather-fraglist
		tx-sctp-segmentation tx-tcp-ecn-segmentation tx-tcp-mangleid-segmentation tx-tcp-segmentation tx-tcp6-segmentation
		tx-udp-segmentation`)
	offloadsOfTags    = strings.Fields("tx-vlan-hw-insert tx-vlan-stag-hw-insert")
	offloadsOfTunnels = strings.Fields(`tx-gre-csum-segmentation tx-gre-segmentation tx-ipxip4-segmentation tx-ipxip6-segmentation
		tx-udp_tnl-csum-segmentation tx-udp_tnl-segmentation`)
	offloads = slices.Concat(offloadsOff, offloadsOfAll, offloadsOfMost, offloadsOfTags, offloadsOfTunnels)
)

// changeable are the offloads of a link that are on unless somebody has switched them off.
func (l *link) changeable() []string {
	switch l.Type {
	case "macvlan", "ipvlan":
		return offloadsOfAll
	case "bridge", "veth", "ifb":
		return slices.Concat(offloadsOfAll, offloadsOfMost, offloadsOfTags, offloadsOfTunnels)
	case "tun":
		return slices.Concat(offloadsOfAll, offloadsOfMost, offloadsOfTags)
	case "dummy", "vlan", "bond":
		return slices.Concat(offloadsOfAll, offloadsOfMost, offloadsOfTunnels)
	}
	return slices.Concat(offloadsOfAll, offloadsOfMost)
}

// Features are the offloads of a device.
func (k *Kernel) Features(ns kernel.NS, index int) (all map[string]kernel.Feature, err error) {
	err = k.in(ns, "Features", fmt.Sprintf("read features of link %d", index), func(n *namespace) error {
		l, err := n.link(index)
		if err != nil {
			return err
		}
		all = map[string]kernel.Feature{}
		for _, name := range offloads {
			all[name] = l.offload(name)
		}
		return nil
	})
	return all, err
}

func (l *link) offload(name string) kernel.Feature {
	on, changed := l.features[name]
	switch {
	case slices.Contains(offloadsOff, name):
	case !slices.Contains(l.changeable(), name):
		return kernel.Feature{Fixed: true}
	case !changed:
		on = true
	}
	return kernel.Feature{On: on, Requested: on}
}

// SetFeatures asks for features to be on or off. What nobody can change stays as it is.
func (k *Kernel) SetFeatures(ns kernel.NS, index int, on map[string]bool) error {
	return k.write(ns, "SetFeatures", fmt.Sprintf("change features of link %d", index), func(n *namespace) error {
		l, err := n.link(index)
		if err != nil {
			return err
		}
		for name := range on {
			if !slices.Contains(offloads, name) {
				return refused(syscall.EOPNOTSUPP)
			}
		}
		for name, on := range on {
			if !l.offload(name).Fixed {
				l.features[name] = on
			}
		}
		k.tellLink(l, false)
		return nil
	})
}

// Rings: no device here has any.
func (k *Kernel) Rings(ns kernel.NS, index int) (kernel.Rings, error) {
	return kernel.Rings{}, k.in(ns, "Rings", fmt.Sprintf("read rings of link %d", index), func(*namespace) error {
		return refused(syscall.EOPNOTSUPP)
	})
}

// SetRings cannot change any.
func (k *Kernel) SetRings(ns kernel.NS, index int, _, _ uint32) error {
	return k.write(ns, "SetRings", fmt.Sprintf("change rings of link %d", index), func(*namespace) error {
		return refused(syscall.EOPNOTSUPP)
	})
}
