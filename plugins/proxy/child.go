package proxy

import (
	"encoding/json"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// command is the first argument of a process. The second is its mark, the third where
// its control socket is, the fourth how many processes it ends with.
const command = "proxy-child"

// The files that a process is born with, after the standard ones. Those from firstHolder
// on are pidfds.
const (
	listenFD = 3 + iota
	controlFD
	orderFD
	firstHolder
)

// order is what a process is started for.
type order struct {
	Mark string `json:"mark"`
	// From and To are the protocols.
	From  string            `json:"from"`
	To    string            `json:"to"`
	File  kernel.SocketFile `json:"file"`
	Rules kernel.ProxyRules `json:"rules"`
}

// Main is the life of a process that [Proxies.StartProxy] starts: if this process is one,
// it does not return. A program that starts proxies calls it before anything else.
func Main() {
	if len(os.Args) != 5 || os.Args[1] != command {
		return
	}
	holders, err := strconv.Atoi(os.Args[4])
	if err != nil {
		return
	}
	harden(holders)
	if err := live(holders); err != nil { // there is nobody to tell; the agent sees that it ended
		os.Exit(1)
	}
	os.Exit(0)
}

// harden closes what the agent itself was given by others, and keeps users of the host
// from looking into this process. That it has no capabilities and gets none it was born
// with.
func harden(holders int) {
	_ = os.WriteFile("/proc/self/comm", []byte("plumb-proxy"), 0o600) // for who reads ps
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	unix.Umask(0o077)
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		os.Exit(1)
	}
	for _, f := range files {
		fd, err := strconv.Atoi(f.Name())
		if err != nil || fd < listenFD {
			continue
		}
		// What the Go runtime has opened bears the flag; what we were given does not,
		// be it ours or not.
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC != 0 {
			continue
		}
		if fd >= firstHolder+holders {
			unix.Close(fd)
		}
	}
}

// live waits for its order and serves until it is killed.
func live(holders int) error {
	o, err := await(os.NewFile(orderFD, "order"))
	if err != nil {
		return err
	}
	endWith(holders)
	s := &service{order: o, figures: &figures{}, ended: make(chan struct{}, 1)}
	s.rules.Store(&o.Rules)
	control, err := listenerOf(controlFD)
	if err != nil {
		return err
	}
	s.slots.set(o.Rules.MaxSessions)
	ended := make(chan error, 2)
	if o.From == "udp" {
		c, err := net.FilePacketConn(os.NewFile(listenFD, "listen"))
		if err != nil {
			return err
		}
		go func() { ended <- newDatagrams(c.(*net.UDPConn), s).serve() }()
	} else {
		l, err := listenerOf(listenFD)
		if err != nil {
			return err
		}
		go func() { ended <- s.streams(l) }()
	}
	go func() { ended <- s.answer(control) }()
	go s.tidy()
	return <-ended
}

// tidyEvery is how long it takes until what ended connections have left is given back.
const tidyEvery = 2 * time.Second

// tidy gives back the pipes by which the kernel moves bytes. The runtime keeps them for
// later connections until memory is collected twice and once more, and in a process that
// does nothing that is not done for minutes.
func (s *service) tidy() {
	for range s.ended {
		for range 3 {
			time.Sleep(tidyEvery)
			runtime.GC()
		}
	}
}

func listenerOf(fd uintptr) (net.Listener, error) {
	f := os.NewFile(fd, "listen")
	defer f.Close() // the listener has a copy
	l, err := net.FileListener(f)
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // the agent removes files
	}
	return l, err
}

// await reads the order, which ends when the agent has said all of it.
func await(r io.ReadCloser) (o order, err error) {
	defer r.Close()
	text, err := io.ReadAll(r)
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	return o, err
}

// endWith ends this process as soon as one of the processes ends to whom a namespace
// belongs: what we have open there would keep the links of a dead container.
func endWith(holders int) {
	if holders == 0 {
		return
	}
	fds := make([]unix.PollFd, holders)
	for i := range fds {
		fds[i] = unix.PollFd{Fd: int32(firstHolder + i), Events: unix.POLLIN}
	}
	go func() {
		for {
			if n, err := unix.Poll(fds, -1); n > 0 || err != nil && err != unix.EINTR {
				os.Exit(0)
			}
		}
	}()
}

// service is what a process does.
type service struct {
	order   order
	rules   atomic.Pointer[kernel.ProxyRules]
	slots   slots
	figures *figures
	// ended has room for one: connections have ended.
	ended chan struct{}
	// changed is called after the address is another; nil: nothing.
	changed func()
}

func (s *service) set(r kernel.ProxyRules) {
	before := s.rules.Swap(&r)
	s.slots.set(r.MaxSessions)
	if before.Address != r.Address && s.changed != nil {
		s.changed()
	}
}

// figures count what is done.
type figures struct {
	active                             atomic.Int64
	accepted, refused, evicted, failed atomic.Uint64
	last                               atomic.Pointer[string]
}

// note counts something that failed.
func (f *figures) note(count *atomic.Uint64, err error) {
	count.Add(1)
	text := err.Error()
	f.last.Store(&text)
}

func (f *figures) all() kernel.ProxyFigures {
	all := kernel.ProxyFigures{Active: f.active.Load(), Accepted: f.accepted.Load(), Refused: f.refused.Load(),
		Evicted: f.evicted.Load(), Failed: f.failed.Load()}
	if last := f.last.Load(); last != nil {
		all.LastError = *last
	}
	return all
}

// The other end is given so long to answer.
const connectTime = 10 * time.Second
