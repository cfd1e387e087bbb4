package models

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// MaxName bounds the name in a key that operators write, in bytes. Observed
// names may be as long as a path, before escaping.
const (
	MaxName         = 200
	maxObservedName = 4096
)

// Keys of values that operators write. Names are taken as they are.

// NetNSKey is the key of a named network namespace.
func NetNSKey(name string) string { return KindNetNS + "/" + name }

// InterfaceKey is the key of an interface, by its logical name.
func InterfaceKey(name string) string { return KindInterface + "/" + name }

// RouteKey is the key of a route.
func RouteKey(name string) string { return KindRoute + "/" + name }

// AddressKey is the key under which an interface derives an address of its
// list: a CIDR or claim:<ipclaim>. The address is brought to its one spelling.
func AddressKey(iface, addr string) string {
	if p, err := netip.ParsePrefix(addr); err == nil {
		addr = p.String()
	}
	return AddressPrefix(iface) + addr
}

// AddressPrefix holds the addresses that an interface derives.
func AddressPrefix(iface string) string { return KindAddress + "/" + iface + "/" }

// NeighborKey is the key of a neighbor that is set by hand.
func NeighborKey(name string) string { return KindNeighbor + "/" + name }

// RuleKey is the key of a rule of policy routing.
func RuleKey(name string) string { return KindRule + "/" + name }

// NexthopKey is the key of a nexthop.
func NexthopKey(name string) string { return KindNexthop + "/" + name }

// FDBKey is the key of a forwarding entry of a bridge or a vxlan.
func FDBKey(name string) string { return KindFDB + "/" + name }

// QdiscKey is the key of the queueing discipline of an interface.
func QdiscKey(name string) string { return KindQdisc + "/" + name }

// MirrorKey is the key of a copy of the traffic of an interface.
func MirrorKey(name string) string { return KindMirror + "/" + name }

// NftablesKey is the key of a table of nftables.
func NftablesKey(name string) string { return KindNftables + "/" + name }

// ForwardKey is the key of what lets packets of an interface pass.
func ForwardKey(name string) string { return KindForward + "/" + name }

// ProxyKey is the key of a proxy.
func ProxyKey(name string) string { return KindProxy + "/" + name }

// SysctlKey is the key of a setting of the kernel.
func SysctlKey(name string) string { return KindSysctl + "/" + name }

// IPPoolKey is the key of a pool of addresses.
func IPPoolKey(name string) string { return KindIPPool + "/" + name }

// IPClaimKey is the key of a claim of an address.
func IPClaimKey(name string) string { return KindIPClaim + "/" + name }

// OnLinkKey is the key under which a route derives the network that it makes reachable on a link.
func OnLinkKey(iface, route string) string { return OnLinkPrefix(iface) + route }

// OnLinkPrefix holds what routes without a gateway make reachable on the link of an interface.
func OnLinkPrefix(iface string) string { return KindOnLink + "/" + iface + "/" }

// Keys of what is observed. Names are escaped.

// IPLeaseKey is the key of what a pool has for a claim that asks for this address,
// or for any if there is none.
func IPLeaseKey(pool, claim string, addr netip.Addr) string {
	name := pool + "/" + claim
	if addr.IsValid() {
		name += "/" + addr.String()
	}
	return KindIPLease + "/" + Escape(name)
}

// SplitIPLease is the reverse of [IPLeaseKey].
func SplitIPLease(key string) (pool, claim string, addr netip.Addr, ok bool) {
	name, err := Unescape(strings.TrimPrefix(key, KindIPLease+"/"))
	parts := strings.Split(name, "/")
	switch {
	case err != nil || len(parts) < 2 || len(parts) > 3:
		return "", "", addr, false
	case len(parts) == 3:
		addr, err = netip.ParseAddr(parts[2])
	}
	return parts[0], parts[1], addr, err == nil
}

// MicroserviceKey is the key of a container by its service label.
func MicroserviceKey(label string) string { return KindMicroservice + "/" + Escape(label) }

// ContainerKey is the key of a container: runtime is "docker" or
// "containerd:<namespace>", id the full id.
func ContainerKey(runtime, id string) string {
	return KindContainer + "/" + Escape(runtime+":"+id)
}

// HostLinkKey is the key of a link by its name in the kernel.
func HostLinkKey(name string) string { return KindHostLink + "/" + Escape(name) }

// NamespacePIDKey is the key of the network namespace of a process.
func NamespacePIDKey(pid uint32) string {
	return KindNamespace + "/pid:" + strconv.FormatUint(uint64(pid), 10)
}

// NamespacePathKey is the key of the network namespace behind a file.
func NamespacePathKey(path string) string {
	return KindNamespace + "/" + Escape("path:"+path)
}

// NamespacePodKey is the key of the network namespace of a pod.
func NamespacePodKey(pod string) string {
	return KindNamespace + "/" + Escape("pod:"+pod)
}

// SplitKey takes a key apart and checks it: the kind is known and the name
// follows the rule. Errors are of type InvalidError.
func SplitKey(key string) (kind, name string, err error) {
	kind, name, found := strings.Cut(key, "/")
	if !found {
		return "", "", invalid("", "%q is no key; a key is <kind>/<name>, for example interface/web", key)
	}
	k, err := KindByName(kind)
	if err != nil {
		return "", "", err
	}
	switch {
	case !k.Writable:
		err = checkObservedName(name)
	case kind == KindAddress && strings.Contains(name, "/"):
		err = checkDerivedAddress(name)
	default:
		err = CheckName(name)
	}
	if err != nil {
		return "", "", invalid("", "key %q: %v", key, err)
	}
	return kind, name, nil
}

// CheckName tells what is wrong with a name that an operator gives.
func CheckName(name string) error {
	if name == "" {
		return fmt.Errorf("the name is empty")
	}
	if len(name) > MaxName {
		return fmt.Errorf("the name has %d bytes; at most %d are allowed", len(name), MaxName)
	}
	for i, r := range name {
		if r < 0x80 && nameByte(byte(r), i == 0) {
			continue
		}
		if i == 0 {
			return fmt.Errorf("a name cannot begin with %q; it begins with a letter, a digit or _", r)
		}
		return fmt.Errorf("a name cannot hold %q; allowed are letters, digits and . _ : -", r)
	}
	return nil
}

func checkObservedName(name string) error {
	if name == "" {
		return fmt.Errorf("the name is empty")
	}
	text, err := Unescape(name)
	if err != nil {
		return err
	}
	if len(text) > maxObservedName {
		return fmt.Errorf("the name has %d bytes; at most %d are allowed", len(text), maxObservedName)
	}
	return nil
}

// checkDerivedAddress checks <interface>/<cidr or claim>.
func checkDerivedAddress(name string) error {
	iface, addr, _ := strings.Cut(name, "/")
	if err := CheckName(iface); err != nil {
		return err
	}
	if claim, ok := strings.CutPrefix(addr, ClaimPrefix); ok {
		return CheckName(claim)
	}
	p, err := netip.ParsePrefix(addr)
	if err != nil {
		return fmt.Errorf("%q is neither an address in CIDR notation nor claim:<ipclaim>", addr)
	}
	if p.String() != addr {
		return fmt.Errorf("%s must be written %s", addr, p)
	}
	return nil
}
