package netlink

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// stream is what an event socket is subscribed to, and how its messages are read.
type stream struct {
	protocol int
	groups   uint32
	event    func(k *Kernel, n *namespace, h unix.NlMsghdr, body []byte) (kernel.Event, bool)
}

// routes are the events of every namespace that is open, tables those of the namespaces
// whose tables are watched.
var (
	routes = &stream{unix.NETLINK_ROUTE, groups, (*Kernel).event}
	tables = &stream{unix.NETLINK_NETFILTER, 1 << (unix.NFNLGRP_NFTABLES - 1), (*Kernel).tablesEvent}
)

// groups are those of the routes. One socket has them all, so the order within a
// namespace is the kernel's own.
const groups = 1<<(unix.RTNLGRP_LINK-1) | 1<<(unix.RTNLGRP_NEIGH-1) |
	1<<(unix.RTNLGRP_IPV4_IFADDR-1) | 1<<(unix.RTNLGRP_IPV6_IFADDR-1) |
	1<<(unix.RTNLGRP_IPV4_ROUTE-1) | 1<<(unix.RTNLGRP_IPV6_ROUTE-1) |
	1<<(unix.RTNLGRP_IPV4_RULE-1) | 1<<(unix.RTNLGRP_IPV6_RULE-1) |
	1<<(unix.RTNLGRP_NEXTHOP-1) | 1<<(unix.RTNLGRP_TC-1)

// turn is how many datagrams of one namespace are read before the next one's.
const turn = 64

// hub reads the events of all open namespaces, one socket for each stream, and gives
// every watcher all of them. It has sockets only while somebody watches.
//
// The kernel does not tell everything: nothing of a new alias or group of a
// link that is down, and nothing of the IPv4 routes, the nexthops and, in part, addresses
// that go with their link. Who is told of a link has to look at what stands on it.
type hub struct {
	k      *Kernel
	poll   *poller
	done   sync.WaitGroup
	closed atomic.Bool
	// watchers are replaced as a whole, under k.mu.
	watchers atomic.Pointer[[]*watcher]

	mu      sync.Mutex // guards what follows
	byToken map[int32]*source
	byNS    map[from]*source
}

// from is where events come from.
type from struct {
	ns kernel.NS
	*stream
}

// source is an event socket of one namespace.
type source struct {
	n     *namespace
	of    *stream
	token int32
	mu    sync.Mutex // guards fd: it is closed by another goroutine than reads it
	fd    int
}

func newHub(k *Kernel) (*hub, error) {
	p, err := newPoller()
	if err != nil {
		return nil, err
	}
	h := &hub{k: k, poll: p, byToken: map[int32]*source{}, byNS: map[from]*source{}}
	h.watchers.Store(new([]*watcher))
	h.done.Go(h.run)
	return h, nil
}

func (h *hub) list() []*watcher { return *h.watchers.Load() }

// addAll subscribes to all that is watched in a namespace. k.mu is held.
func (h *hub) addAll(e *entry) error {
	err := h.add(e.namespace, routes)
	if err == nil && e.tables {
		err = h.add(e.namespace, tables)
	}
	return err
}

// add subscribes to a stream of a namespace. k.mu is held.
func (h *hub) add(n *namespace, of *stream) error {
	s := &source{n: n, of: of, fd: -1}
	err := n.within(func() (err error) {
		s.fd, err = of.subscribe(h.k.opts.ReceiveBuffer)
		return err
	})
	if err != nil {
		return fmt.Errorf("subscribe to events: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.token, err = h.poll.add(s.fd, unix.EPOLLIN); err != nil {
		s.close()
		return err
	}
	h.byToken[s.token] = s
	h.byNS[from{n.id, of}] = s
	return nil
}

// subscribe opens an event socket in the namespace of the calling thread.
func (of *stream) subscribe(buffer int) (int, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, of.protocol)
	if err != nil {
		return -1, err
	}
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, buffer)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: of.groups}); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// forgetAll closes the sockets of a namespace. Nothing is told of it after that.
func (h *hub) forgetAll(id kernel.NS) {
	h.forget(id, routes)
	h.forget(id, tables)
}

// forget closes the socket of a stream, if there is one.
func (h *hub) forget(id kernel.NS, of *stream) {
	h.mu.Lock()
	s := h.byNS[from{id, of}]
	if s != nil {
		delete(h.byNS, from{id, of})
		delete(h.byToken, s.token)
	}
	h.mu.Unlock()
	if s != nil {
		s.close()
	}
}

func (s *source) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fd >= 0 {
		unix.Close(s.fd)
		s.fd = -1
	}
}

func (h *hub) close() {
	h.closed.Store(true)
	h.poll.wake()
	h.done.Wait()
	h.poll.close()
}

// run reads what comes until the hub is closed.
func (h *hub) run() {
	events := make([]unix.EpollEvent, 64)
	buf := make([]byte, bufferSize)
	for {
		ready, err := h.poll.wait(events)
		if h.closed.Load() {
			return
		}
		if err != nil {
			for _, w := range h.list() {
				w.stop(fmt.Errorf("wait for events: %w", err))
			}
			return
		}
		for _, ev := range ready {
			if s := h.source(ev.Fd); s != nil {
				h.read(s, buf)
			}
		}
	}
}

func (h *hub) source(token int32) *source {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.byToken[token]
}

// read hands over what waits in the socket, at most one turn of it.
func (h *hub) read(s *source, buf []byte) {
	for range turn {
		b, err := s.receive(buf)
		var errno unix.Errno
		if errors.As(err, &errno) && (errno == unix.ENOBUFS || errno == unix.EMSGSIZE) {
			h.tell(s, kernel.Event{NS: s.n.id, Lost: true})
			continue
		}
		if err != nil {
			return // nothing more, or closed
		}
		for m, body := range messages(b) {
			if ev, ok := s.of.event(h.k, s.n, m, body); ok {
				h.tell(s, ev)
			}
		}
	}
}

// tell gives an event to all who watch, unless the namespace has been closed since
// it was read: its end was told, and is the last that is told.
func (h *hub) tell(s *source, ev kernel.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fd < 0 {
		return
	}
	for _, w := range h.list() {
		w.push(ev)
	}
}

func (s *source) receive(buf []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fd < 0 {
		return nil, unix.EBADF
	}
	return receive(s.fd, buf, unix.MSG_DONTWAIT)
}

// event translates one message of rtnetlink; false for what the port does not show.
func (k *Kernel) event(n *namespace, h unix.NlMsghdr, body []byte) (kernel.Event, bool) {
	ev := kernel.Event{NS: n.id, Actor: actorOf(h)}
	switch typ := h.Type; typ {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		if ev.Port = parsePortOf(body); ev.Port != 0 {
			return ev, typ == unix.RTM_NEWLINK
		}
		parsed, ok := parseLink(n.id, body)
		if ok {
			l := k.complete(n, parsed)
			ev.Link, ev.Deleted = &l, typ == unix.RTM_DELLINK
		}
		return ev, ok
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		a, ok := parseAddress(body, k.namesMakers)
		ev.Address, ev.Deleted = &a, typ == unix.RTM_DELADDR
		return ev, ok
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		if e, ok := parseFDB(body); ok {
			ev.FDB, ev.Deleted = &e.FDBEntry, typ == unix.RTM_DELNEIGH || !e.set
			return ev, n.fdb.tell(e, ev.Deleted)
		}
		r, ok := parseNeighbor(body)
		ev.Neighbor, ev.Deleted = &r.Neighbor, typ == unix.RTM_DELNEIGH || !r.permanent
		// What the kernel learns comes and goes with every packet, and has no protocol.
		return ev, ok && (r.permanent || r.Protocol != 0)
	case unix.RTM_NEWRULE, unix.RTM_DELRULE:
		r, ok := parseRule(body)
		ev.Rule, ev.Deleted = &r, typ == unix.RTM_DELRULE
		return ev, ok
	case unix.RTM_NEWNEXTHOP, unix.RTM_DELNEXTHOP:
		r, ok := parseNexthop(body)
		ev.Nexthop, ev.Deleted = &r, typ == unix.RTM_DELNEXTHOP
		return ev, ok
	case unix.RTM_NEWQDISC, unix.RTM_DELQDISC:
		q, ok := parseQdisc(body)
		ev.Qdisc, ev.Deleted = &q, typ == unix.RTM_DELQDISC
		return ev, ok
	case unix.RTM_NEWTFILTER, unix.RTM_DELTFILTER:
		r, ok := parseFilter(body)
		ev.Filter, ev.Deleted = &r, typ == unix.RTM_DELTFILTER
		return ev, ok && (r.Handle != 0 || ev.Deleted)
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		r, ok := parseAnyRoute(body)
		ev.Route, ev.Deleted = &r, typ == unix.RTM_DELROUTE
		if kernelsOwn(r) && !(ev.Deleted && r.OfAddress()) {
			return ev, false
		}
		if ev.Actor.Port != 0 && !ev.Deleted {
			ev.Actor.Protocol = r.Protocol
		}
		return ev, ok
	}
	return ev, false
}
