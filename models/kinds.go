package models

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
)

// Names of the kinds.
const (
	KindNetNS        = "netns"
	KindInterface    = "interface"
	KindRoute        = "route"
	KindAddress      = "address"
	KindOnLink       = "onlink"
	KindNeighbor     = "neighbor"
	KindRule         = "rule"
	KindNexthop      = "nexthop"
	KindFDB          = "fdb"
	KindQdisc        = "qdisc"
	KindMirror       = "mirror"
	KindNftables     = "nftables"
	KindSysctl       = "sysctl"
	KindForward      = "forward"
	KindProxy        = "proxy"
	KindIPPool       = "ippool"
	KindIPClaim      = "ipclaim"
	KindIPLease      = "iplease"
	KindMicroservice = "microservice"
	KindContainer    = "container"
	KindHostLink     = "hostlink"
	KindKeyFile      = "keyfile"
	KindNamespace    = "namespace"
)

// Kind is one kind of thing that keys name.
type Kind struct {
	Name string
	// Prefix of its keys: "route/".
	Prefix string
	// New makes an empty value.
	New func() proto.Message
	// Writable reports whether sources may want it. The others come and go by themselves: they
	// are observed, or derived from values of other kinds.
	Writable bool
}

// kinds is the table, in the order in which people think of them.
var kinds = []Kind{
	{KindNetNS, "netns/", func() proto.Message { return new(NetNS) }, true},
	{KindInterface, "interface/", func() proto.Message { return new(Interface) }, true},
	{KindRoute, "route/", func() proto.Message { return new(Route) }, true},
	{KindAddress, "address/", func() proto.Message { return new(Address) }, true},
	{KindNeighbor, "neighbor/", func() proto.Message { return new(Neighbor) }, true},
	{KindRule, "rule/", func() proto.Message { return new(Rule) }, true},
	{KindNexthop, "nexthop/", func() proto.Message { return new(Nexthop) }, true},
	{KindFDB, "fdb/", func() proto.Message { return new(FDB) }, true},
	{KindQdisc, "qdisc/", func() proto.Message { return new(Qdisc) }, true},
	{KindMirror, "mirror/", func() proto.Message { return new(Mirror) }, true},
	{KindNftables, "nftables/", func() proto.Message { return new(Nftables) }, true},
	{KindSysctl, "sysctl/", func() proto.Message { return new(Sysctl) }, true},
	{KindForward, "forward/", func() proto.Message { return new(Forward) }, true},
	{KindProxy, "proxy/", func() proto.Message { return new(Proxy) }, true},
	{KindIPPool, "ippool/", func() proto.Message { return new(IPPool) }, true},
	{KindIPClaim, "ipclaim/", func() proto.Message { return new(IPClaim) }, true},
	{KindOnLink, "onlink/", func() proto.Message { return new(OnLink) }, false},
	{KindMicroservice, "microservice/", func() proto.Message { return new(Microservice) }, false},
	{KindContainer, "container/", func() proto.Message { return new(Container) }, false},
	{KindHostLink, "hostlink/", func() proto.Message { return new(HostLink) }, false},
	{KindKeyFile, "keyfile/", func() proto.Message { return new(KeyFile) }, false},
	{KindNamespace, "namespace/", func() proto.Message { return new(NamespaceRef) }, false},
	{KindIPLease, "iplease/", func() proto.Message { return new(IPLease) }, false},
}

// Kinds are all kinds, the writable ones first.
func Kinds() []Kind { return slices.Clone(kinds) }

// KindByName finds a kind. An unknown one is an InvalidError that names the nearest.
func KindByName(name string) (Kind, error) {
	for _, k := range kinds {
		if k.Name == name {
			return k, nil
		}
	}
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.Name
	}
	if near := Nearest(name, names); near != "" {
		return Kind{}, invalid("", "unknown kind %q, did you mean %s?", name, near)
	}
	return Kind{}, invalid("", "unknown kind %q; known are %s", name, strings.Join(names, ", "))
}
