package cni

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/scheduler"
)

// Host gives access to the host on which the service runs. Its methods may be called from any
// goroutine. All except Watch return quickly.
type Host interface {
	// Boot returns the id of this boot. No network namespace outlives a boot.
	Boot() string
	// Namespace returns the inode of the network namespace at a path, 0 if there is none. own
	// reports whether it is the namespace of the host.
	Namespace(path string) (inode uint64, own bool)
	// Running reports whether a runtime runs a container with this id. sure is false while a
	// runtime does not answer.
	Running(id string) (running, sure bool)
	// Watch calls f with the ids of containers that may have changed, until ctx ends. Without
	// ids, all containers may have changed.
	Watch(ctx context.Context, f func(ids ...string)) error
	// Carries reports whether packets pass a link.
	Carries(at kernel.LinkRef) bool
	// Full reports whether an ippool has no free address.
	Full(pool string) bool
	// User returns the ipclaim that uses an address of an ippool, or "".
	User(pool string, a netip.Addr) (claim string)
	// BridgesCall reports whether packets between ports of a bridge traverse the iptables rules
	// of a family, 4 or 6.
	BridgesCall(family int) bool
	// Cut returns why the firewall of the host drops packets of a family, 4 or 6, from the link
	// in to the link out, or "". If both name the same bridge, Cut is about packets between its
	// ports. An empty out stands for the link of the default route.
	Cut(family int, in, out string) string
	// Routes returns the routes of the network namespace at a path, except those through the
	// link named but.
	Routes(path, but string) ([]kernel.Route, error)
	// Listener names the process of the host that uses a port at an address, or returns "". The
	// unspecified address stands for all of its family, that of IPv6 for those of both.
	Listener(protocol string, at netip.AddrPort) string
	// DeleteFlows deletes the tracked connections of the host with any of these addresses.
	DeleteFlows(of ...netip.Addr) error
	// Link returns a link in the network namespace at a path; "" is the namespace of the host.
	Link(path, name string) (kernel.Link, error)
	// Networks returns the networks of the host that overlap a prefix.
	Networks(of netip.Prefix) ([]HostNetwork, error)
	// Trouble returns why no ADD can be served, and why existing attachments are affected as
	// well; each is "" if that is not so.
	Trouble() (unready, lost string)
	// Frozen returns why nothing may be created now, or "". A DEL works during a freeze too.
	Frozen() string
	// Lost returns why attachments may exist that are not in the store, or "".
	Lost() string
	// Containers returns the ids of the containers of all runtimes.
	Containers() []string
	// Awaited returns why values for a pod that is being attached may still come, or "". An error means that
	// none will come, since the pod was deleted.
	Awaited(p Pod) (why string, err error)
	// AttachmentsChanged is called when a pod has been attached to a network or detached from it.
	AttachmentsChanged(p Pod)
	// Leave queues a DEL that the next start has to repeat.
	Leave(r Request) error
	// Paths returns the paths of network namespaces by their inodes.
	Paths() map[uint64]string
}

// ErrGone reports that the container, or its network namespace, ended while an ADD waited.
var ErrGone = errors.New("the container has gone")

// deleteFlows deletes the connections that the host tracks with the addresses of an attachment.
// Packets of connections of a previous owner would reach the current owner of an address. It is
// called before a container uses its addresses, since the previous owner may have ended without a
// DEL, and after a container has ended, so that clients stop sending to it.
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

// refused returns why nothing may be created in the namespace of a call, or nil. The plugin makes
// the same checks, but it may be of another release, or have received false arguments.
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

// there reports whether the namespace of an attachment is still at its path. stranger reports that
// it has been replaced by another one, or that the host has rebooted.
func (s *Service) there(a Attachment) (here, stranger bool) {
	inode, _ := s.host.Namespace(a.Netns)
	here = inode == a.Inode && a.Boot == s.host.Boot()
	return here, !here && (inode != 0 || a.Boot != s.host.Boot())
}

// watched returns the keys whose events may mean that a container has gone.
func watched(c Call) []scheduler.Key {
	return []scheduler.Key{scheduler.Key(models.NamespacePathKey(c.Netns)), containerKey(c.ContainerID)}
}

// containerKey returns the key that stands for a container of any runtime.
func containerKey(id string) scheduler.Key { return scheduler.Key(models.KindContainer + "/" + id) }

// gone returns an error if the container of a call, or its namespace, has ended. A container counts
// as ended only if seen was set by an earlier call, since its network is created before it runs.
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
