package spec

import (
	"fmt"
	"net/netip"
)

// Way is a route of a container as a configuration writes it.
type Way struct {
	Dst string `json:"dst"`
	// GW is the next router. Default: the gateway of the network.
	GW string `json:"gw"`
	// Metric and Table are those of the network if they are not there.
	Metric *uint32 `json:"metric"`
	Table  *uint32 `json:"table"`
}

// check says what is wrong, "" if nothing is.
func (w Way) check() string {
	dst, err := netip.ParsePrefix(w.Dst)
	if err != nil {
		return fmt.Sprintf("dst: %q is no network such as 10.7.0.0/16 or ::/0", w.Dst)
	}
	if w.GW == "" {
		return ""
	}
	gw, err := netip.ParseAddr(w.GW)
	switch {
	case err != nil || gw.Zone() != "":
		return fmt.Sprintf("gw: %q is no IP address", w.GW)
	case gw.Is4() != dst.Addr().Is4():
		return fmt.Sprintf("gw: %s is not of the family of %s", gw, dst)
	}
	return ""
}
