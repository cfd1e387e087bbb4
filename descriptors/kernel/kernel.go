// Package kernel is the port through which descriptors speak to the network
// stack: namespaces, links, addresses, routes, settings and their events. It is
// implemented on netlink by plugins/netlink.
//
// All methods may be called from any goroutine. Errors that descriptors branch
// on are [ErrExist], [ErrNotExist], [ErrNoNamespace], [ErrInUse], [ErrDown] and [ErrUnsupported];
// test with errors.Is.
package kernel

import (
	"context"
	"errors"
	"time"
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
	// ErrDown: a link that it needs is down, or has no carrier.
	ErrDown = errors.New("the link is down")
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
	Namespaces
	Links
	Addresses
	Neighbors
	Rules
	Nexthops
	FDB
	Routes
	Sysctls
	TableEvents
	Traffic
	Announcements
	Flows

	// Watch calls f for every change in the namespaces that are open, now or
	// later, until ctx ends, which is no error. It never blocks the kernel:
	// when events were lost, f gets an event with Lost set and nothing else
	// but NS. Its first event is Ready: what is read after it cannot be missed.
	// A namespace that is opened later is watched before Open returns.
	Watch(ctx context.Context, f func(Event)) error

	// Who says in words who caused an event, "ip (process 4711)"; "" if nobody can know.
	// It looks at the processes there are now, so ask soon; it may take milliseconds.
	Who(ns NS, a Actor) string
}

// Namespaces are the network namespaces of the host.
type Namespaces interface {
	// Own is the agent's own namespace.
	Own() NS
	// Open makes the namespace behind a path (an nsfs file or
	// /proc/<pid>/ns/net) usable and returns its identity. A handle is cached
	// per identity; it is dropped when the last process or path that it was
	// opened by ends. Nothing but a network namespace is accepted, see
	// ErrNotNamespace; where there is nothing the error is both ErrNoNamespace
	// and ErrNotExist.
	Open(path string) (NS, error)
	// Behind is the identity of what is behind a path, without opening it, 0 if there is
	// nothing; it need not be a namespace. Started tells when a process started, in any unit
	// that only grows within a boot; who has ended, or never started, is an error.
	Behind(path string) NS
	Started(pid int) (uint64, error)
	// Cookie is a number that no other namespace of this boot has or had, unlike the inode; 0 if
	// the kernel does not tell it, or the namespace is gone.
	Cookie(ns NS) uint64
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
}

// Sysctls are the settings of a namespace, by their place below /proc/sys, such
// as net/ipv4/ip_forward. There are no events about them.
type Sysctls interface {
	// Sysctl reads a setting, without the end of the line. ErrNotExist when the
	// namespace has none at this place.
	Sysctl(ns NS, place string) (string, error)
	SetSysctl(ns NS, place, value string) error
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
	// Route is a route. Table local has events only for deleted routes of addresses.
	Route   *Route
	Rule    *Rule
	Nexthop *Nexthop
	// Neighbor is one that was permanent, or is; of those that the kernel learns nothing
	// is told.
	Neighbor *Neighbor
	// FDB is a forwarding entry that somebody had set, or has; of what is learnt beside
	// these nothing is told. Deleted: it is not there, or not set any more.
	FDB     *FDBEntry
	Deleted bool
	// Qdisc is one that came or, with Deleted, went.
	Qdisc *Qdisc
	// Filter came, or went; of all at a hook that go at once the Handle is 0.
	Filter *Filter
	// Tables of nftables were changed.
	Tables *TablesChange
	// Named is the name under /run/netns that came or, with Deleted, went.
	// NS is its identity; it need not be open.
	Named string
	// Actor is who caused it.
	Actor Actor
}

// Actor is who caused an event, as far as the kernel tells; see [Kernel.Who]. It is zero if
// that was the kernel itself, or we, or if it does not tell: of links and of IPv6 addresses
// it mostly does not.
type Actor struct {
	// Port is the port id of the socket of route netlink that asked for it.
	Port uint32
	// Protocol is that of a route that came.
	Protocol uint8
	// Process and Name are those of the process, of which nftables tells.
	Process int
	Name    string
	// Heard is when the event was read: a process that began later is another one.
	Heard time.Time
}
