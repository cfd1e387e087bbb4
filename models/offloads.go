package models

import (
	"maps"
	"slices"
	"strings"
)

// maxFeature is the kernel's bound for the name of a feature, in bytes.
const maxFeature = 31

// featuresOf are the names that ethtool(8) has for one feature of the kernel or for several.
// The kernel does not know them.
var featuresOf = map[string][]string{
	"rx":     {"rx-checksum"},
	"tx":     {"tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6", "tx-checksum-sctp"},
	"sg":     {"tx-scatter-gather", "tx-scatter-gather-fraglist"},
	"tso":    {"tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-tcp-ecn-segmentation", "tx-tcp-mangleid-segmentation"},
	"gso":    {"tx-generic-segmentation"},
	"gro":    {"rx-gro"},
	"lro":    {"rx-lro"},
	"rxvlan": {"rx-vlan-hw-parse"},
	"txvlan": {"tx-vlan-hw-insert"},
	"ntuple": {"rx-ntuple-filter"},
	"rxhash": {"rx-hashing"},
}

// longFeatures are what ethtool(8) prints in the place of its short names.
var longFeatures = map[string]string{
	"rx-checksumming": "rx", "tx-checksumming": "tx", "scatter-gather": "sg", "tcp-segmentation-offload": "tso",
	"generic-segmentation-offload": "gso", "generic-receive-offload": "gro", "large-receive-offload": "lro",
	"rx-vlan-offload": "rxvlan", "tx-vlan-offload": "txvlan", "ntuple-filters": "ntuple", "receive-hashing": "rxhash",
}

// checkOffloads checks the names of features as far as they do not depend on the kernel.
func (x *Interface) checkOffloads(f *findings) {
	for _, name := range slices.Sorted(maps.Keys(x.Features)) {
		at := join("features", name)
		short := name
		if s, long := longFeatures[name]; long {
			short = s
		}
		switch of := featuresOf[short]; {
		case name == "":
			f.add("features", "a name must not be empty; write the kernel's, such as rx-gro")
		case len(of) == 1:
			f.add(at, "is a name of ethtool's; the kernel's is %s", of[0])
		case len(of) > 1:
			f.add(at, "is ethtool's name for several; write those that are meant of %s", strings.Join(of, ", "))
		case len(name) > maxFeature:
			f.add(at, "has %d bytes, and the kernel has no names with more than %d", len(name), maxFeature)
		}
	}
}
