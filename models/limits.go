package models

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// limit is what a field may hold besides being of its type. It serves the
// validation and the JSON Schema alike.
type limit struct {
	// words are the values of an enumeration; the empty string is always
	// allowed and means the default.
	words []string
	// min and max bound a number, if max is set.
	min, max uint64
	// zero reports whether 0 (unset) is allowed although it is below min.
	zero bool
	// required strings must not be empty; the check of the message says so in
	// its own words. Numbers are required when zero is not allowed.
	required bool
}

// limitOf knows the limits of fields by their full name in models.proto.
func limitOf(field protoreflect.FullName) (limit, bool) {
	l, ok := limits[strings.TrimPrefix(string(field), "plumb.v1.")]
	return l, ok
}

// limits is the table for limitOf.
var limits = map[string]limit{
	"Namespace.pid":                      {min: 1, max: 1<<31 - 1},
	"Interface.mtu":                      {min: minMTU, max: maxMTU, zero: true},
	"Bridge.default_pvid":                {max: 4094},
	"Bridge.priority":                    {max: 65535},
	"Bridge.forward_delay":               {min: 2, max: 30},
	"BridgePort.cost":                    {min: 1, max: 65535},
	"BridgePort.priority":                {max: 63},
	"BridgeVlan.id":                      {min: 1, max: 4094},
	"BridgeVlan.to":                      {min: 1, max: 4094, zero: true},
	"Vxlan.vni":                          {min: 1, max: 1<<24 - 1, zero: true},
	"Vxlan.port":                         {min: 1, max: 65535, zero: true},
	"Vlan.id":                            {min: 1, max: 4094},
	"Vlan.protocol":                      {words: []string{"802.1q", "802.1ad"}},
	"Macvlan.mode":                       {words: []string{"bridge", "private", "vepa", "passthru"}},
	"Ipvlan.mode":                        {words: []string{"l2", "l3", "l3s"}},
	"Vrf.table":                          {min: 1, max: 1<<32 - 1},
	"Bond.mode":                          {required: true, words: []string{"balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb"}},
	"Bond.miimon":                        {max: maxInt32},
	"Bond.updelay":                       {max: maxInt32},
	"Bond.downdelay":                     {max: maxInt32},
	"Bond.lacp_rate":                     {words: []string{"slow", "fast"}},
	"Bond.xmit_hash_policy":              {words: []string{"layer2", "layer2+3", "layer3+4", "encap2+3", "encap3+4", "vlan+srcmac"}},
	"Bond.min_links":                     {max: maxInt32},
	"Bond.fail_over_mac":                 {words: []string{"none", "active", "follow"}},
	"Bond.arp_interval":                  {max: maxInt32},
	"WireGuard.private_key_file":         {required: true},
	"WireGuard.listen_port":              {max: 65535},
	"WireGuardPeer.public_key":           {required: true},
	"WireGuardPeer.persistent_keepalive": {max: 65535},
	"Gre.ttl":                            {max: 255},
	"Gre.encap_limit":                    {max: 255},
	"Tunnel.ttl":                         {max: 255},
	"Tunnel.encap_limit":                 {max: 255},
	"Sit.ttl":                            {max: 255},
	"Geneve.vni":                         {min: 1, max: 1<<24 - 1, zero: true},
	"Geneve.port":                        {min: 1, max: 65535, zero: true},
	"Geneve.ttl":                         {max: 255},
	"Route.mtu":                          {min: minMTU, max: maxRouteMTU, zero: true},
	"Encap.ttl":                          {max: 255},
	"Encap.tos":                          {max: 255},
	"Route.scope":                        {words: []string{"global", "site", "link", "host", "nowhere"}},
	"Route.type":                         {words: []string{"unicast", "blackhole", "unreachable", "prohibit", "throw"}},
	"NextHop.weight":                     {min: 1, max: 256, zero: true},
	"Veth.peer":                          {required: true},
	"Vlan.parent":                        {required: true},
	"Macvlan.parent":                     {required: true},
	"Ipvlan.parent":                      {required: true},
	"Route.destination":                  {required: true},
	"NextHop.interface":                  {required: true},
	"Address.interface":                  {required: true},
	"Address.valid_lifetime":             {max: maxLifetime},
	"Address.preferred_lifetime":         {max: maxLifetime},
	"Neighbor.interface":                 {required: true},
	"Neighbor.address":                   {required: true},
	"Neighbor.mac_address":               {required: true},
	"Rule.priority":                      {min: 1, max: 1<<32 - 1},
	"Rule.action":                        {words: []string{"lookup", "blackhole", "unreachable", "prohibit"}},
	"Rule.family":                        {words: []string{"ipv4", "ipv6"}},
	"Nexthop.id":                         {min: 1, max: 1<<32 - 1},
	"Nexthop.family":                     {words: []string{"ipv4", "ipv6"}},
	"NexthopMember.nexthop":              {required: true},
	"NexthopMember.weight":               {min: 1, max: 255, zero: true}, // 256 only since Linux 6.12
	"FDB.interface":                      {required: true},
	"FDB.mac_address":                    {required: true},
	"FDB.vlan":                           {min: 1, max: 4094, zero: true},
	"Qdisc.interface":                    {required: true},
	"Tbf.rate":                           {min: 8, max: maxRate},
	"Tbf.burst":                          {min: 1, max: maxInt32, zero: true},
	"Tbf.latency":                        {min: 1, max: 1<<20 - 1, zero: true},
	"Netem.delay":                        {max: 1<<32 - 1},
	"Netem.jitter":                       {max: maxInt32 / 1000}, // the kernel counts it in nanoseconds
	"Netem.loss":                         {max: million},
	"Netem.duplicate":                    {max: million},
	"Netem.corrupt":                      {max: million},
	"Netem.reorder":                      {max: million},
	"Netem.rate":                         {max: maxRate},
	"Mirror.interface":                   {required: true},
	"Mirror.to":                          {required: true},
	"Mirror.direction":                   {words: []string{"ingress", "egress", "both"}},
	"Nftables.family":                    {words: []string{"ip", "ip6", "inet", "bridge", "arp", "netdev"}},
	"Chain.name":                         {required: true},
	"Chain.type":                         {words: []string{"filter", "nat", "route"}},
	"Chain.hook":                         {words: []string{"prerouting", "input", "forward", "output", "postrouting", "ingress", "egress"}},
	"NamedSet.name":                      {required: true},
	"NamedSet.type":                      {required: true},
	"NamedMap.name":                      {required: true},
	"NamedMap.type":                      {required: true},
	"NamedMap.data":                      {required: true},
	"Flowtable.name":                     {required: true},
	"Chain.policy":                       {words: []string{"accept", "drop"}},
	"Sysctl.key":                         {required: true},
	"Sysctl.value":                       {required: true},
	"Forward.interface":                  {required: true},
	"IPPool.network":                     {required: true},
	"IPPool.claim_length":                {min: 1, max: 128, zero: true},
	"IPClaim.pool":                       {required: true},
	"Address.scope":                      {words: []string{"global", "site", "link", "host"}},
	"Address.prefix_route":               {words: []string{"kernel", "none"}},
	"Address.duplicate_detection":        {words: []string{"kernel", "none"}},
	"Interface.duplicate_detection":      {words: []string{"kernel", "none"}},

	"Proxy.listen":          {required: true},
	"Proxy.forward":         {required: true},
	"Proxy.max_sessions":    {min: 1, max: 65535, zero: true},
	"Proxy.idle_timeout":    {min: 1, max: 86400, zero: true},
	"ProxyListen.protocol":  {words: proxyProtocols},
	"ProxyListen.address":   {required: true},
	"ProxyForward.protocol": {words: proxyProtocols},
	"ProxyForward.address":  {required: true},
}

// The kernel takes no smaller packets for IPv4, and for IPv6 none below 1280. It makes
// 65520 of more on a route; a tap needs room for the header of Ethernet, and a vrf must
// be able to carry IPv6.
const (
	maxInt32    = 1<<31 - 1
	maxLifetime = 1<<32 - 2 // one more is for ever
	minMTU      = 68
	minMTUv6    = 1280
	maxMTU      = 65535
	maxRouteMTU = 65520
	maxTapMTU   = 65521
)

// checkLimits checks every field of the message and of the messages within.
func checkLimits(m protoreflect.Message, path string, f *findings) {
	for _, l := range limitedOf(m.Descriptor()) {
		switch {
		case !l.fd.HasPresence() && l.fd.Message() != nil:
			for j := range m.Get(l.fd).List().Len() {
				checkLimits(m.Get(l.fd).List().Get(j).Message(), fmt.Sprintf("%s[%d]", join(path, l.name), j), f)
			}
		case l.fd.HasPresence() && !m.Has(l.fd):
		case l.fd.Message() != nil:
			checkLimits(m.Get(l.fd).Message(), join(path, l.name), f)
		default:
			l.check(m.Get(l.fd), path, l.name, f)
		}
	}
}

// limited is a field that has a limit, or whose message has such fields.
type limited struct {
	fd   protoreflect.FieldDescriptor
	name string
	limit
}

// limitedFields are the limited fields of each message. They are sought once: every value is
// checked, and few fields have limits.
var limitedFields sync.Map

func limitedOf(md protoreflect.MessageDescriptor) []limited {
	if known, ok := limitedFields.Load(md); ok {
		return known.([]limited)
	}
	var list []limited
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		l, has := limitOf(fd.FullName())
		if fd.Message() != nil {
			has = !fd.IsMap() && len(limitedOf(fd.Message())) > 0
		}
		if has && (fd.Message() != nil || !fd.IsList()) {
			list = append(list, limited{fd: fd, name: string(fd.Name()), limit: l})
		}
	}
	limitedFields.Store(md, list)
	return list
}

func (l limit) check(v protoreflect.Value, path, name string, f *findings) {
	switch x := v.Interface().(type) {
	case string:
		if x == "" || l.words == nil || slices.Contains(l.words, x) {
			return
		}
		path = join(path, name)
		if near := Nearest(x, l.words); near != "" {
			f.add(path, "%q is none of %s; did you mean %s?", x, strings.Join(l.words, ", "), near)
			return
		}
		f.add(path, "%q is none of %s", x, strings.Join(l.words, ", "))
	case uint32:
		switch n := uint64(x); {
		case n == 0 && l.zero, l.min <= n && n <= l.max:
		case n == 0:
			f.add(join(path, name), "must be given, from %d to %d", l.min, l.max)
		default:
			f.add(join(path, name), "must be from %d to %d, not %d", l.min, l.max, n)
		}
	}
}
