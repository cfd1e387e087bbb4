package network

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// guards is what a network keeps its containers from.
type guards struct {
	isolated bool // reaching each other by the bridge
	mac      bool // sending from other hardware addresses
	ip       bool // sending from other IP addresses, or announcing them; implies mac
}

func guardsOf(conf spec.Config) guards {
	return guards{isolated: conf.PortIsolation, mac: conf.MacSpoofChk || conf.IPSpoofChk, ip: conf.IPSpoofChk}
}

// sources drops what a container sends from addresses that are not its own, by a table of the
// attachment's own. On a bridge it stands before the bridge learns where an address is; in mode
// routed before the host routes.
func (n Network) sources(id, outside, mac string, list []address) []Want {
	if !n.guards.mac {
		return nil
	}
	table := &models.Nftables{Family: "bridge", Table: "plumb-sources-" + id}
	rules := []string{fmt.Sprintf("ether saddr != %s drop", mac), fmt.Sprintf("arp saddr ether != %s drop", mac)}
	if n.guards.ip {
		rules = append(rules, n.ownAddresses(mac, list)...)
	}
	hook := models.Chain{Name: "sent", Type: "filter", Hook: "prerouting", Priority: "-300"}
	if n.Mode == ModeRouted {
		// ARP needs no filter: what a container says of addresses is of its own link alone.
		table.Family, hook.Priority = "inet", "raw"
		rules = slices.DeleteFunc(rules, func(rule string) bool {
			return strings.HasPrefix(rule, "arp ") || strings.HasPrefix(rule, "ether type")
		})
	}
	for i, rule := range rules {
		rules[i] = fmt.Sprintf("iifname %q %s", outside, rule)
	}
	hook.Rules = rules
	table.Chains = []*models.Chain{&hook}
	return []Want{{models.NftablesKey(n.Name + ":" + id + "-sources"), table}}
}

// ownAddresses drop IP packets, ARP and neighbor advertisements of other addresses than those of
// the container, and what no container has to say: router advertisements and redirects.
func (n Network) ownAddresses(mac string, list []address) []string {
	var four, six []string
	for _, a := range list {
		if FamilyOf(a.Prefix.Addr()) == "ip" {
			four = append(four, inRule(a))
		} else {
			six = append(six, inRule(a))
		}
	}
	// Before it has an address a host asks whether anybody else has it, or DHCP for one.
	own4, link := setOf(append([]string{"0.0.0.0"}, four...)), linkLocal(mac)
	own6, targets := setOf(append([]string{link.String()}, six...)), []string{number(link.String())}
	for _, a := range six {
		targets = append(targets, number(a))
	}
	return []string{
		"ether type != { ip, arp, ip6 } drop",
		"arp saddr ip != " + own4 + " drop",
		"ip saddr != " + own4 + " drop",
		"ip saddr 0.0.0.0 meta l4proto != { udp, igmp } drop",
		"icmp type redirect drop",
		"ip6 saddr :: icmpv6 type { nd-neighbor-solicit, nd-router-solicit, mld2-listener-report, mld-listener-report } accept",
		"ip6 saddr != " + own6 + " drop",
		"icmpv6 type { nd-router-advert, nd-redirect } drop",
		// The target of a neighbor advertisement, behind eight bytes of the header.
		"icmpv6 type nd-neighbor-advert @th,64,128 != " + setOf(targets) + " drop",
	}
}

func setOf(elements []string) string { return "{ " + strings.Join(elements, ", ") + " }" }

// number is an address of a rule, or the claim that stands for it, as raw payload is compared
// with.
func number(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return "0x" + address
	}
	return "0x" + hex.EncodeToString(a.AsSlice())
}

// linkLocal is the link-local address that the kernel makes of a hardware address.
func linkLocal(mac string) netip.Addr {
	hw, err := net.ParseMAC(mac)
	if err != nil || len(hw) != 6 {
		return netip.MustParseAddr("fe80::") // of nobody
	}
	return netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80, 8: hw[0] ^ 2, 9: hw[1], 10: hw[2], 11: 0xff, 12: 0xfe, 13: hw[3], 14: hw[4], 15: hw[5]})
}
