package cni

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/network"
	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/scheduler"
)

// Host is what the service must know of where it runs. Its methods may be called
// from any goroutine and are quick, but for Watch.
type Host interface {
	// Boot names this boot: no network namespace outlives it.
	Boot() string
	// Namespace is the inode of the network namespace at a path, 0 if there is none;
	// own tells that it is the host's.
	Namespace(path string) (inode uint64, own bool)
	// Running reports whether some runtime runs a container with this id. It is not
	// sure while a runtime does not answer.
	Running(id string) (running, sure bool)
	// Watch calls f with the ids of containers that may have changed, without any
	// if all may have, until ctx ends.
	Watch(ctx context.Context, f func(ids ...string)) error
	// Carries reports whether packets pass a link.
	Carries(at kernel.LinkRef) bool
	// Full tells that an ippool has no free address.
	Full(pool string) bool
	// User is the ipclaim that uses an address of an ippool, "" if none does.
	User(pool string, a netip.Addr) (claim string)
	// BridgesCall reports whether what goes from port to port of a bridge passes the tables of
	// iptables of a family, 4 or 6.
	BridgesCall(family int) bool
	// Cut says why the firewall of the host stops packets of a family, 4 or 6, from one of
	// its links to another, "" if it may not. They may be ports of one bridge, which is
	// named twice; out may be empty for the link by which the default route leads.
	Cut(family int, in, out string) string
	// Routes are those of the network namespace at a path, but for those by the link of
	// that name.
	Routes(path, but string) ([]kernel.Route, error)
	// Listener names the process of the host that has a port at an address, "" if none has. The
	// unspecified address stands for all of its family, that of IPv6 for those of both.
	Listener(protocol string, at netip.AddrPort) string
	// DeleteFlows deletes the tracked connections of the host with any of these addresses.
	DeleteFlows(of ...netip.Addr) error
	// MAC returns the hardware address of a link in the network namespace at a path.
	MAC(path, link string) (string, error)
	// Networks are those of the host that have addresses of a prefix, or all of it.
	Networks(of netip.Prefix) ([]HostNetwork, error)
	// Trouble says why nothing new can be served, and why what is attached suffers
	// as well; "" if it does not.
	Trouble() (unready, lost string)
	// Frozen returns why nothing may be made now, "" if something may. What is attached can be
	// detached all the same.
	Frozen() string
	// Lost says why attachments may be there that are not in the store, "" if there
	// are none.
	Lost() string
	// Containers are the ids of those that runtimes know.
	Containers() []string
	// Leave notes a DEL that the next start has to do again.
	Leave(r Request) error
	// Paths are where network namespaces can be found, by their inodes.
	Paths() map[uint64]string
}

// ErrGone: the container, or its network namespace, ended while an ADD waited.
var ErrGone = errors.New("the container has gone")

// deleteFlows deletes the connections that the host tracks with the addresses of an attachment.
// They are of whoever had an address before, and their packets would reach who has it now. It is
// called before a container uses its addresses, as a former one may have ended in any way, and
// after it has ended, so that nobody keeps sending to it.
func (s *Service) deleteFlows(k Key, r *spec.Result) {
	if r == nil || len(r.IPs) == 0 {
		return
	}
	var of []netip.Addr
	for _, ip := range r.IPs {
		if p, err := netip.ParsePrefix(ip.Address); err == nil {
			of = append(of, p.Addr())
		}
	}
	if err := s.host.DeleteFlows(of...); err != nil {
		s.log.Warn("tracked connections of the addresses are not deleted", "attachment", k.String(), "error", err)
	}
}

// refused tells why nothing may be put into the namespace of a call. The plugin has
// looked as well, but may be of another release, or have been told lies.
func (s *Service) refused(c Call) *spec.Error {
	wrong := func(format string, args ...any) *spec.Error {
		return &spec.Error{Code: spec.BadNamespace, Msg: fmt.Sprintf(format, args...), Details: c.Netns}
	}
	switch inode, own := s.host.Namespace(c.Netns); {
	case own:
		return wrong("CNI_NETNS is the network namespace of the host")
	case inode == 0:
		return wrong("the agent finds no network namespace at CNI_NETNS")
	case inode != c.Inode:
		return wrong("the agent finds another network namespace at CNI_NETNS: %d, not %d", inode, c.Inode)
	}
	return nil
}

// there reports whether the namespace of an attachment is still at its path, or at
// least none: another one is a stranger's.
func (s *Service) there(a Attachment) (here, stranger bool) {
	inode, _ := s.host.Namespace(a.Netns)
	here = inode == a.Inode && a.Boot == s.host.Boot()
	return here, !here && (inode != 0 || a.Boot != s.host.Boot())
}

// watched are keys whose news may mean that a container has gone.
func watched(c Call) []scheduler.Key {
	return []scheduler.Key{scheduler.Key(models.NamespacePathKey(c.Netns)), containerKey(c.ContainerID)}
}

// containerKey stands for a container of whatever runtime.
func containerKey(id string) scheduler.Key { return scheduler.Key(models.KindContainer + "/" + id) }

// gone reports whether the container of a call has ended, or its namespace. It must
// have been seen running: networks are made before containers run.
func (s *Service) gone(c Call, seen *bool) error {
	if inode, _ := s.host.Namespace(c.Netns); inode != c.Inode {
		return fmt.Errorf("%w: its network namespace is no more at %s", ErrGone, c.Netns)
	}
	running, sure := s.host.Running(c.ContainerID)
	if *seen && sure && !running {
		return fmt.Errorf("%w: it has ended", ErrGone)
	}
	*seen = *seen || running
	return nil
}

// carrier is how long the kernel may take until packets pass the links of an
// attachment: both ends of a cable are up before either carries.
const carrier = 5 * time.Second

// waitCarrier waits until packets pass: who is answered sends some at once, and what is
// lost then is sent again a second later.
func (s *Service) waitCarrier(ctx context.Context, wants []network.Want) error {
	ctx, cancel := context.WithTimeoutCause(ctx, carrier, errors.New("it is up, but no packets pass"))
	defer cancel()
	for _, w := range wants {
		v, isInterface := w.Value.(*models.Interface)
		if !isInterface || v.GetVeth() == nil && v.GetBridge() == nil {
			continue
		}
		st, err := s.engine.Get(ctx, scheduler.Key(w.Key))
		if err != nil {
			return err
		}
		at, known := kind.LinkOfStatus(st)
		for wait := time.Millisecond; known && !s.host.Carries(at); wait = min(2*wait, 20*time.Millisecond) {
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s: %w", w.Key, context.Cause(ctx))
			case <-time.After(wait):
			}
		}
	}
	return nil
}
