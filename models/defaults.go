package models

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// defaultOf returns the default of a field by its full name in models.proto, "" if it has none.
func defaultOf(field protoreflect.FullName) string {
	return defaults[strings.TrimPrefix(string(field), "plumb.v1.")]
}

// defaults are the values that fields have if they are not set, or how they are found. The
// functions Effective… apply them.
var defaults = map[string]string{
	"Interface.host_name":           "the key's name, or lo for a loopback",
	"Interface.enabled":             "true, but existing links are left as they are",
	"Interface.duplicate_detection": "kernel",
	"Vxlan.port":                    "4789",
	"Vlan.protocol":                 "802.1q",
	"Macvlan.mode":                  "bridge",
	"Ipvlan.mode":                   "l2",
	"Bond.miimon":                   "100, or 0 with arp_interval",
	"Bond.lacp_rate":                "slow",
	"Bond.xmit_hash_policy":         "layer2",
	"Bond.fail_over_mac":            "none",
	"Gre.ttl":                       "that of the inner packet, in IPv6 64",
	"Tunnel.ttl":                    "that of the inner packet, in IPv6 64",
	"Sit.ttl":                       "that of the inner packet",
	"Geneve.port":                   "6081",
	"Route.metric":                  "0, in IPv6 1024",
	"Route.table":                   "254",
	"Route.scope":                   "link without a gateway, else global",
	"Route.type":                    "unicast",
	"NextHop.weight":                "1",
	"Address.scope":                 "global",
	"Address.preferred_lifetime":    "that of valid_lifetime",
	"Address.prefix_route":          "kernel",
	"Address.duplicate_detection":   "kernel",
	"Rule.action":                   "lookup",
	"Rule.fwmask":                   "all bits",
	"Nexthop.family":                "that of gateway",
	"NexthopMember.weight":          "1",
	"Nftables.family":               "inet",
	"Nftables.table":                "the key's name",
	"Chain.priority":                "0",
	"Chain.policy":                  "accept",
	"Flowtable.priority":            "0",
	"Tbf.burst":                     "what the rate sends in 10 milliseconds, at least 32768",
	"Tbf.latency":                   "50, without limit",
	"Tbf.limit":                     "what the rate sends in latency, and burst",
	"Netem.limit":                   "1000",
	"Mirror.direction":              "ingress",
	"Proxy.max_sessions":            "1024",
	"Proxy.idle_timeout":            "60",
	"ProxyListen.protocol":          "unix if the address begins with / or @, else tcp",
	"ProxyListen.mode":              "0600",
	"ProxyForward.protocol":         "unix if the address begins with / or @, else that of listen, or tcp",
	"IPPool.claim_length":           "that of network",
}
