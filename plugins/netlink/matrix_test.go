package netlink_test

import (
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink"
)

// TestMatrix: docs/kernels.md says of Debian's kernels what they can.
func TestMatrix(t *testing.T) {
	suite := os.Getenv("PLUMB_KERNEL")
	text, err := os.ReadFile("../../docs/kernels.md")
	if err != nil {
		t.Fatal(err)
	}
	b := newKernel(t, netlink.Options{})
	under := b.add(t, b.Own(), kernel.LinkSpec{Name: "under", Veth: &kernel.VethSpec{PeerName: "over"}}).Index
	v4, v6 := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("fd00::1")
	mode, on := "active-backup", true
	specs := map[string]kernel.LinkSpec{
		"bridge":         {Bridge: &kernel.BridgeSpec{}},
		"bridge, VLANs":  {Bridge: &kernel.BridgeSpec{VLANFiltering: &on}},
		"veth":           {Veth: &kernel.VethSpec{PeerName: "peer"}},
		"vxlan":          {Vxlan: &kernel.VxlanSpec{VNI: 7, Remote: v4}},
		"vlan":           {Vlan: &kernel.VlanSpec{Parent: under, ID: 7}},
		"macvlan":        {Macvlan: &kernel.MacvlanSpec{Parent: under, Mode: "bridge"}},
		"ipvlan":         {Ipvlan: &kernel.IpvlanSpec{Parent: under, Mode: "l2"}},
		"dummy":          {Plain: "dummy"},
		"ifb":            {Plain: "ifb"},
		"tap":            {Tuntap: &kernel.TuntapSpec{}},
		"tun":            {Tuntap: &kernel.TuntapSpec{Tun: true}},
		"vrf":            {Vrf: &kernel.VrfSpec{Table: 7}},
		"bond":           {Bond: &kernel.BondSpec{Mode: &mode}},
		"wireguard":      {Plain: "wireguard"},
		"gre":            {Tunnel: &kernel.TunnelSpec{Kind: "gre", Remote: v4}},
		"gre in IPv6":    {Tunnel: &kernel.TunnelSpec{Kind: "ip6gre", Remote: v6}},
		"gretap":         {Tunnel: &kernel.TunnelSpec{Kind: "gretap", Remote: v4}},
		"gretap in IPv6": {Tunnel: &kernel.TunnelSpec{Kind: "ip6gretap", Remote: v6}},
		"ipip":           {Tunnel: &kernel.TunnelSpec{Kind: "ipip", Remote: v4}},
		"ipip in IPv6":   {Tunnel: &kernel.TunnelSpec{Kind: "ip6tnl", Remote: v6}},
		"sit":            {Tunnel: &kernel.TunnelSpec{Kind: "sit", Remote: v4}},
		"geneve":         {Geneve: &kernel.GeneveSpec{VNI: 7, Remote: v4, Port: 6081}},
	}
	column := map[bool]int{true: 3, false: 2}[strings.HasSuffix(suite, "-backports")]
	said := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		name := strings.ReplaceAll(strings.TrimSpace(cells[1]), "`", "")
		spec, ok := specs[name]
		if !ok {
			continue
		}
		said++
		spec.Name = "x"
		l, err := b.AddLink(b.Own(), spec)
		if err == nil {
			err = b.DeleteLink(b.Own(), l.Index)
		}
		has := err == nil
		if err != nil && !errors.Is(err, kernel.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
		if suite != "" && has != (strings.TrimSpace(cells[column]) == "yes") {
			t.Errorf("%s: docs/kernels.md says %q, and here: %v", name, strings.TrimSpace(cells[column]), err)
		}
	}
	if said != len(specs) {
		t.Errorf("docs/kernels.md speaks of %d of %d types", said, len(specs))
	}
}
