package network

import (
	"fmt"
	"net/netip"

	"github.com/plumb-net/plumb/models"
)

// Multicast reaches all on the link, whoever is on it.
var multicast4, multicast6 = netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("ff00::/8")

// addMasquerade: what containers send to others than each other has an address of the
// host, so that answers come back from where nobody knows the network.
func (n *Network) addMasquerade(name string) {
	var rules []string
	for _, s := range n.Subnets {
		family, multicast := "ip", multicast4
		if s.Prefix.Addr().Is6() {
			family, multicast = "ip6", multicast6
		}
		rules = append(rules, fmt.Sprintf("%[1]s saddr %[2]s %[1]s daddr != { %[2]s, %[3]s } masquerade", family, s.Prefix, multicast))
	}
	n.Shared = append(n.Shared, Want{models.NftablesKey(n.Name), &models.Nftables{Table: "plumb-cni-" + name, Chains: []*models.Chain{
		{Name: "postrouting", Type: "nat", Hook: "postrouting", Priority: "srcnat", Rules: rules}}}})
}
