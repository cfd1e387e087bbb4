// Package kernel is the port through which descriptors speak to the network
// stack: namespaces, links, addresses, routes, settings and their events. It is
// implemented on netlink by plugins/netlink.
//
// All methods may be called from any goroutine. Errors that descriptors branch
// on are [ErrExist], [ErrNotExist], [ErrNoNamespace], [ErrInUse] and [ErrUnsupported];
// test with errors.Is.
package kernel

import (
	"context"
	"errors"
	"net/netip"
)

// Errors of the port.
var (
	// ErrExist: an object with that identity is there already.
	ErrExist = errors.New("exists")
	// ErrNotExist: the object is not there.
	ErrNotExist = errors.New("does not exist")
	// ErrNoNamespace: the namespace is gone, and all that was in it.
	ErrNoNamespace error = noNamespace{}
	// ErrNotNamespace: what stands there is no network namespace, but a file of
	// another kind or a namespace of another type.
	ErrNotNamespace = errors.New("not a network namespace")
	// ErrInUse: a port of UDP is another socket's.
	ErrInUse = errors.New("in use")
	// ErrUnsupported: this kernel cannot do it.
	ErrUnsupported = errors.New("not supported by this kernel")
)

// IsGone reports whether an error says that an object is surely not there: it went by
// itself, or with its namespace.
func IsGone(err error) bool {
	return errors.Is(err, ErrNotExist) || errors.Is(err, ErrNoNamespace)
}

type noNamespace struct{}

func (noNamespace) Error() string { return "namespace is gone" }

// Lapsed says that an operation in it has not failed: what it needs has gone; see
// scheduler.Lapsed.
func (noNamespace) Lapsed() bool { return true }

// NS identifies a network namespace by the inode of its nsfs file, which is
// unique among the namespaces that live at one time. 0 is never valid.
type NS uint64

// Kernel is what descriptors ask of the network stack.
type Kernel interface {
	// Own is the agent's own namespace.
	Own() NS
	// Open makes the namespace behind a path (an nsfs file or
	// /proc/<pid>/ns/net) usable and returns its identity. A handle is cached
	// per identity; it is dropped when the last process or path that it was
	// opened by ends. Nothing but a network namespace is accepted, see
	// ErrNotNamespace; where there is nothing the error is both ErrNoNamespace
	// and ErrNotExist.
	Open(path string) (NS, error)
	// Alive reports whether the namespace is open and its process, if it was
	// opened by one, still runs.
	Alive(ns NS) bool
	// InUse are the namespaces that are open, the agent's own among them.
	InUse() []NS
	// CreateNamed makes /run/netns/<name>; DeleteNamed removes it. An existing
	// name is ErrExist.
	CreateNamed(name string) (NS, error)
	DeleteNamed(name string) error
	// ListNamed are the names in /run/netns with their identity.
	ListNamed() (map[string]NS, error)

	Links(ns NS) ([]Link, error)
	Link(ns NS, name string) (Link, error)
	LinkByIndex(ns NS, index int) (Link, error)
	// AddLink makes a link in place, with all that the spec says, and returns
	// it, perhaps without Port. ErrExist when the name is taken; then nothing was changed.
	AddLink(ns NS, spec LinkSpec) (Link, error)
	// SetLink changes what the patch names.
	SetLink(ns NS, index int, p LinkPatch) error
	// DeleteLink removes one link; ErrNotExist if it is gone. DeleteLinks
	// removes many at once: it gives them a group of their own, makes sure that
	// nothing else is in it, and deletes the group. There links that are gone
	// are no error.
	DeleteLink(ns NS, index int) error
	DeleteLinks(ns NS, indexes []int) error

	// BridgeVLANs are those of the port of a bridge, or of a bridge itself, in their order;
	// SetBridgeVLANs makes them those of the list. A change is told by Watch as one of a
	// port.
	BridgeVLANs(ns NS, index int) ([]BridgeVLAN, error)
	SetBridgeVLANs(ns NS, index int, list []BridgeVLAN) error

	// WireGuard reads the settings of a WireGuard device. SetWireGuard writes them all;
	// peers that are not named go, and the others keep their sessions. Nothing is told of
	// it by Watch.
	WireGuard(ns NS, index int) (WireGuard, error)
	SetWireGuard(ns NS, index int, w WireGuard) error

	// Addresses of one link, or of all with index 0.
	Addresses(ns NS, index int) ([]Address, error)
	AddAddress(ns NS, a Address) error
	DeleteAddress(ns NS, a Address) error

	// Neighbors are those of all links that somebody has set: they are permanent. What
	// the kernel has learnt is not among them.
	Neighbors(ns NS) ([]Neighbor, error)
	// Neighbor is the permanent one of that link and address; ErrNotExist if there is
	// none.
	Neighbor(ns NS, index int, a netip.Addr) (Neighbor, error)
	// AddNeighbor makes a permanent neighbor, also in the place of one that the kernel
	// has learnt. A permanent one at its address is ErrExist, whatever it holds.
	AddNeighbor(ns NS, n Neighbor) error
	ReplaceNeighbor(ns NS, n Neighbor) error
	// DeleteNeighbor removes the neighbor of that link and address.
	DeleteNeighbor(ns NS, n Neighbor) error

	// Rules of policy routing of both families.
	Rules(ns NS) ([]Rule, error)
	// AddRule never makes a second one: a rule that says the same and is of the same
	// protocol is ErrExist. Before Linux 4.17 any that says the same is.
	AddRule(ns NS, r Rule) error
	// DeleteRule removes the rule that says the same and is of the same protocol.
	DeleteRule(ns NS, r Rule) error

	// FDB are the forwarding entries of all bridges and vxlans that somebody has set: they
	// do not age, or a daemon keeps them. What is learnt is not among them.
	FDB(ns NS) ([]FDBEntry, error)
	// FDBEntry is the one that somebody has set in the place of e, which is its table, MAC
	// and VLAN, and of the all-zero MAC also the address; ErrNotExist if there is none.
	FDBEntry(ns NS, e FDBEntry) (FDBEntry, error)
	// AddFDBEntry makes an entry, also in the place of one that was learnt. One that
	// somebody has set in its place is ErrExist, also one of a VLAN of the port if e has
	// none: the kernel makes it for all of them.
	AddFDBEntry(ns NS, e FDBEntry) error
	DeleteFDBEntry(ns NS, e FDBEntry) error

	// Routes of all tables but the kernel's own entries in table local.
	Routes(ns NS) ([]Route, error)
	// AddRoute never replaces or appends: an equal identity is ErrExist.
	AddRoute(ns NS, r Route) error
	ReplaceRoute(ns NS, r Route) error
	DeleteRoute(ns NS, r Route) error

	Sysctls

	// Watch calls f for every change in the namespaces that are open, now or
	// later, until ctx ends, which is no error. It never blocks the kernel:
	// when events were lost, f gets an event with Lost set and nothing else
	// but NS. Its first event is Ready: what is read after it cannot be missed.
	// A namespace that is opened later is watched before Open returns.
	Watch(ctx context.Context, f func(Event)) error
}

// Sysctls are the settings of a namespace, by their place below /proc/sys, such
// as net/ipv4/ip_forward. There are no events about them.
type Sysctls interface {
	// Sysctl reads a setting, without the end of the line. ErrNotExist when the
	// namespace has none at this place.
	Sysctl(ns NS, place string) (string, error)
	SetSysctl(ns NS, place, value string) error
}

// Address is an address of a link.
type Address struct {
	Index     int
	Prefix    netip.Prefix // address and length, host bits kept
	Label     string
	Scope     int
	Valid     uint32 // seconds, 0 for ever
	Preferred uint32
	// Protocol says who made it, 0 unknown, 1–3 the kernel (Linux 5.18).
	Protocol uint8
	// Kernel marks addresses that the kernel made (link-local, autoconf) or
	// whose lifetime a daemon runs: those with an end and no protocol of their
	// own. Ignored by AddAddress.
	Kernel    bool
	Secondary bool
	Broadcast netip.Addr
}

// Neighbor says which hardware address has an address on the network of a link.
type Neighbor struct {
	Index   int
	Address netip.Addr
	MAC     string // lower case; ignored by DeleteNeighbor
	// Protocol says who made it, as that of a route does; 0 unknown (Linux 5.2).
	Protocol uint8
}

// Rule says which table packets are routed by. All that it says is its identity.
type Rule struct {
	IPv6     bool
	Priority uint32
	From, To netip.Prefix // the zero prefix: any
	Mark     uint32
	Mask     uint32 // 0: the mark does not count
	Iif, Oif string // names in the kernel
	Table    uint32 // 0 unless Action is lookup
	Action   string // "lookup", "blackhole", …
	Protocol uint8  // who made it, as that of a route does; 0 unknown (Linux 4.17)
	// More: it says something that is not here, such as a range of ports.
	More bool
}

// FDBEntry says where a bridge or a vxlan sends the frames for a MAC. The kernel keeps no
// protocol with it.
type FDBEntry struct {
	// Table is the link whose entry it is: the bridge, or the vxlan.
	Table int
	MAC   string // lower case; all zero is what a vxlan does with all others
	// Port of the bridge; the bridge moves also what somebody has set when the station
	// speaks at another port. 0 in a vxlan.
	Port int
	// VLAN of the bridge; 0 none.
	VLAN int
	// Address of the other end of a vxlan, else invalid.
	Address netip.Addr
	// Local: the bridge takes these frames itself, such as those for the MAC of a port.
	Local bool
	// Special entries are more than AddFDBEntry makes: of a daemon, to a group, to a port
	// or VNI of their own.
	Special bool
}

// ZeroMAC is that of the entries by which a vxlan floods.
const ZeroMAC = "00:00:00:00:00:00"

// FDBPlace is what the kernel knows a forwarding entry by within a namespace.
type FDBPlace struct {
	table int
	mac   string
	vlan  int
	flood netip.Addr // only the all-zero MAC has several
}

// Place is where the entry is: of two with the same there can be only one.
func (e FDBEntry) Place() FDBPlace {
	p := FDBPlace{table: e.Table, mac: e.MAC, vlan: e.VLAN}
	if e.MAC == ZeroMAC {
		p.flood = e.Address
	}
	return p
}

// Route is an entry of a routing table.
type Route struct {
	Dst      netip.Prefix // 0.0.0.0/0 and ::/0 for the defaults
	Table    uint32
	Metric   uint32
	Protocol uint8
	Type     string // "unicast", "blackhole", …
	Scope    string // "global", "link", …
	Src      netip.Addr
	MTU      int
	Index    int // 0 with NextHops or without a device
	Gateway  netip.Addr
	Onlink   bool
	NextHops []NextHop
}

// NextHop is one of several ways of a route.
type NextHop struct {
	Index   int
	Gateway netip.Addr
	Weight  int
}

// Event says that something changed, and what to read again.
type Event struct {
	NS NS
	// Ready is the first event of a Watch and has no NS.
	Ready bool
	// Lost: events of this namespace were lost; read all of it.
	Lost bool
	// Gone: the namespace has ended.
	Gone bool
	// Link is set for link events, Deleted tells which way.
	Link *Link
	// Port is the index of a link of which its bridge says something new: a VLAN, a
	// setting, or that it forwards now.
	Port    int
	Address *Address
	Route   *Route
	Rule    *Rule
	// Neighbor is one that was permanent, or is; of those that the kernel learns nothing
	// is told.
	Neighbor *Neighbor
	// FDB is a forwarding entry that somebody had set, or has; of what is learnt beside
	// these nothing is told. Deleted: it is not there, or not set any more.
	FDB     *FDBEntry
	Deleted bool
	// Named is the name under /run/netns that came or, with Deleted, went.
	// NS is its identity; it need not be open.
	Named string
}
