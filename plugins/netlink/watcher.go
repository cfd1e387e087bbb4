package netlink

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// groups are what an event socket is subscribed to. One socket has them all,
// so the order within a namespace is the kernel's own.
const groups = 1<<(unix.RTNLGRP_LINK-1) |
	1<<(unix.RTNLGRP_IPV4_IFADDR-1) | 1<<(unix.RTNLGRP_IPV6_IFADDR-1) |
	1<<(unix.RTNLGRP_IPV4_ROUTE-1) | 1<<(unix.RTNLGRP_IPV6_ROUTE-1)

// turn is how many datagrams of one namespace are read before the next one's.
const turn = 64

// watcher is one Watch: the event sockets of all open namespaces, read by the
// goroutine that called Watch.
//
// The kernel does not tell everything: nothing of a new alias or group of a
// link that is down, and nothing of the IPv4 routes and, in part, addresses that
// go with their link. Who is told of a link has to look at what stands on it.
type watcher struct {
	k    *Kernel
	poll *poller

	mu      sync.Mutex // guards what follows
	byToken map[int32]*source
	byNS    map[kernel.NS]*source
	posted  []kernel.Event // what does not come from a socket
	stopped bool
	err     error
}

// source is the event socket of one namespace.
type source struct {
	n     *namespace
	token int32
	mu    sync.Mutex // guards fd: it is closed by another goroutine than reads it
	fd    int
}

func newWatcher(k *Kernel) (*watcher, error) {
	p, err := newPoller()
	if err != nil {
		return nil, err
	}
	return &watcher{k: k, poll: p, byToken: map[int32]*source{}, byNS: map[kernel.NS]*source{}}, nil
}

// add subscribes to a namespace. k.mu is held.
func (w *watcher) add(n *namespace) error {
	s := &source{n: n, fd: -1}
	err := inNamespace(n.home, n.fd, func() (err error) {
		s.fd, err = subscribe(w.k.opts.ReceiveBuffer)
		return err
	})
	if err != nil {
		return fmt.Errorf("subscribe to events: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.token, err = w.poll.add(s.fd, unix.EPOLLIN); err != nil {
		s.close()
		return err
	}
	w.byToken[s.token] = s
	w.byNS[n.id] = s
	return nil
}

// subscribe opens an event socket in the namespace of the calling thread.
func subscribe(buffer int) (int, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return -1, err
	}
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, buffer)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// drop closes the socket of a namespace and says that the namespace is gone.
func (w *watcher) drop(id kernel.NS) {
	if w.forget(id) {
		w.post(kernel.Event{NS: id, Gone: true})
	}
}

// forget closes the socket of a namespace, if there is one.
func (w *watcher) forget(id kernel.NS) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.byNS[id]
	if s == nil {
		return false
	}
	delete(w.byNS, id)
	delete(w.byToken, s.token)
	s.close()
	return true
}

func (s *source) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fd >= 0 {
		unix.Close(s.fd)
		s.fd = -1
	}
}

// post queues an event that does not come from a socket.
func (w *watcher) post(ev kernel.Event) {
	w.mu.Lock()
	w.posted = append(w.posted, ev)
	w.mu.Unlock()
	w.poll.wake()
}

// stop ends run with an error or, when nil, without.
func (w *watcher) stop(err error) {
	w.mu.Lock()
	if !w.stopped {
		w.stopped, w.err = true, err
	}
	w.mu.Unlock()
	w.poll.wake()
}

func (w *watcher) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.byNS {
		s.close()
	}
	w.poll.close()
}

// run hands events to f until stopped. What was posted goes first: when a
// namespace ends and comes again, its end is told before what it has then.
func (w *watcher) run(f func(kernel.Event)) error {
	events := make([]unix.EpollEvent, 64)
	buf := make([]byte, bufferSize)
	for {
		ready, err := w.poll.wait(events)
		if err != nil {
			return fmt.Errorf("wait for events: %w", err)
		}
		w.poll.clear()
		posted, stopped, err := w.take()
		if stopped {
			return err
		}
		for _, ev := range posted {
			f(ev)
		}
		for _, ev := range ready {
			if s := w.source(ev.Fd); s != nil {
				s.read(w.k, buf, f)
			}
		}
	}
}

func (w *watcher) source(token int32) *source {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.byToken[token]
}

func (w *watcher) take() (posted []kernel.Event, stopped bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	posted, w.posted = w.posted, nil
	return posted, w.stopped, w.err
}

// read hands over what waits in the socket, at most one turn of it.
func (s *source) read(k *Kernel, buf []byte, f func(kernel.Event)) {
	for range turn {
		b, err := s.receive(buf)
		var errno unix.Errno
		if errors.As(err, &errno) && (errno == unix.ENOBUFS || errno == unix.EMSGSIZE) {
			f(kernel.Event{NS: s.n.id, Lost: true})
			continue
		}
		if err != nil {
			return // nothing more, or closed
		}
		for h, body := range messages(b) {
			if ev, ok := k.event(s.n, h.Type, body); ok {
				f(ev)
			}
		}
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

// event translates one message; false for what the port does not show.
func (k *Kernel) event(n *namespace, typ uint16, body []byte) (kernel.Event, bool) {
	ev := kernel.Event{NS: n.id}
	switch typ {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		parsed, ok := parseLink(n.id, body)
		if ok {
			l := k.complete(n, parsed)
			ev.Link, ev.Deleted = &l, typ == unix.RTM_DELLINK
		}
		return ev, ok
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		a, ok := parseAddress(body)
		ev.Address, ev.Deleted = &a, typ == unix.RTM_DELADDR
		return ev, ok
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		r, ok := parseRoute(body)
		ev.Route, ev.Deleted = &r, typ == unix.RTM_DELROUTE
		return ev, ok
	}
	return ev, false
}
