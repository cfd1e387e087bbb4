package spec

import (
	"fmt"
	"slices"
	"strings"
)

// Modes are the values of mode. ptp is another name for routed.
var Modes = []string{"bridge", "routed", "ptp", "macvlan", "ipvlan", "vlan", "intent"}

// Link describes the link of an attachment.
type Link struct {
	// Master is the logical name of an interface of the intent: the bridge that attachments of mode
	// bridge join instead of one of their own, or the parent in modes macvlan, ipvlan and vlan.
	Master string `json:"master"`
	// LinkMode is the mode of a macvlan (bridge, private, vepa, passthru) or of an ipvlan (l2, l3, l3s).
	// Default: bridge or l2.
	LinkMode string `json:"linkMode"`
	// VLAN is the identifier of the VLAN in mode vlan. In mode bridge it is the VLAN of untagged frames on the port.
	VLAN uint32 `json:"vlan"`
	// VLANTrunk are the VLANs of tagged frames on the bridge port.
	VLANTrunk []VLANRange `json:"vlanTrunk"`
	// PreserveDefaultVLAN keeps the bridge port in VLAN 1, untagged, beside VLAN and VLANTrunk.
	PreserveDefaultVLAN bool `json:"preserveDefaultVlan"`
	// HairpinMode lets the bridge send frames back by the port on which they came in.
	HairpinMode bool `json:"hairpinMode"`
}

// VLANRange holds the VLAN ID, the VLANs from MinID to MaxID, or both.
type VLANRange struct {
	ID    uint32 `json:"id"`
	MinID uint32 `json:"minID"`
	MaxID uint32 `json:"maxID"`
}

// maxVLAN is the largest identifier of a VLAN (IEEE 802.1Q).
const maxVLAN = 4094

// linkKeys are the keys that only some modes have. Mode routed ignores bridge, as it always has.
var linkKeys = []struct {
	name  string
	given func(*Config) bool
	modes []string
}{
	{"master", func(c *Config) bool { return c.Master != "" }, []string{"bridge", "macvlan", "ipvlan", "vlan"}},
	{"linkMode", func(c *Config) bool { return c.LinkMode != "" }, []string{"macvlan", "ipvlan"}},
	{"vlan", func(c *Config) bool { return c.VLAN != 0 }, []string{"bridge", "vlan"}},
	{"vlanTrunk", func(c *Config) bool { return len(c.VLANTrunk) > 0 }, []string{"bridge"}},
	{"preserveDefaultVlan", func(c *Config) bool { return c.PreserveDefaultVLAN }, []string{"bridge"}},
	{"hairpinMode", func(c *Config) bool { return c.HairpinMode }, []string{"bridge"}},
	{"bridge", func(c *Config) bool { return c.Bridge != "" }, []string{"bridge", "routed", "intent"}},
	{"portIsolation", func(c *Config) bool { return c.PortIsolation }, []string{"bridge"}},
	{"macspoofchk", func(c *Config) bool { return c.MacSpoofChk }, []string{"bridge", "routed"}},
	{"ipspoofchk", func(c *Config) bool { return c.IPSpoofChk }, []string{"bridge", "routed"}},
	{"masquerade", func(c *Config) bool { return c.Masquerade }, []string{"bridge", "routed", "intent"}},
	{"forward", func(c *Config) bool { return c.Forward }, []string{"bridge", "routed", "intent"}},
}

// linkModes are the values of linkMode.
var linkModes = map[string][]string{
	"macvlan": {"bridge", "private", "vepa", "passthru"},
	"ipvlan":  {"l2", "l3", "l3s"},
}

// checkLink returns the error of the keys that depend on the mode, or "".
func (c *Config) checkLink() string {
	mode := c.Mode
	if mode == "" {
		mode = "bridge"
	}
	for _, k := range linkKeys {
		if k.given(c) && !slices.Contains(k.modes, mode) {
			return fmt.Sprintf("%s: not in mode %s; the modes with this key are %s", k.name, mode, strings.Join(k.modes, ", "))
		}
	}
	switch {
	case c.Master != "" && c.Bridge != "":
		return "bridge: not together with master, which names the bridge; keep one"
	case c.Master != "" && (c.Masquerade || c.Forward):
		return "masquerade, forward: not together with master: the router of the network is not this host"
	case c.Master == "" && (mode == "macvlan" || mode == "ipvlan" || mode == "vlan"):
		return fmt.Sprintf("master is missing: in mode %s the logical name of the interface below, such as eth1 for interface/eth1", mode)
	case c.Master == "" && (c.VLAN != 0 || len(c.VLANTrunk) > 0 || c.PreserveDefaultVLAN):
		return "vlan, vlanTrunk, preserveDefaultVlan: they need master, a bridge of the intent with vlan_filtering"
	case c.PreserveDefaultVLAN && c.VLAN == 0 && len(c.VLANTrunk) == 0:
		return "preserveDefaultVlan: it needs vlan or vlanTrunk; without them the port has the default VLAN of the bridge"
	case mode == "vlan" && c.VLAN == 0:
		return fmt.Sprintf("vlan is missing: in mode vlan the identifier of the VLAN, 1 to %d", maxVLAN)
	case c.VLAN > maxVLAN:
		return fmt.Sprintf("vlan: %d is not between 1 and %d", c.VLAN, maxVLAN)
	case c.LinkMode != "" && !slices.Contains(linkModes[mode], c.LinkMode):
		return fmt.Sprintf("linkMode: %q is none of %s", c.LinkMode, strings.Join(linkModes[mode], ", "))
	case c.Layer2() && mode == "routed":
		return "ipam: {} stands for a network without addresses, which mode routed needs; write a pool"
	}
	for i, r := range c.VLANTrunk {
		if wrong := r.check(); wrong != "" {
			return fmt.Sprintf("vlanTrunk[%d]: %s", i, wrong)
		}
	}
	return ""
}

func (r VLANRange) check() string {
	switch {
	case r.ID == 0 && r.MinID == 0 && r.MaxID == 0:
		return "it names no VLAN; write id, or minID and maxID"
	case r.MinID == 0 && r.MaxID != 0 || r.MinID != 0 && r.MaxID == 0:
		return "minID and maxID: one of them is missing"
	case r.MinID > r.MaxID:
		return fmt.Sprintf("minID: %d is larger than maxID, %d", r.MinID, r.MaxID)
	case r.ID > maxVLAN || r.MaxID > maxVLAN:
		return fmt.Sprintf("a VLAN is between 1 and %d", maxVLAN)
	}
	return ""
}
