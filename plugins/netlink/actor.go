package netlink

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// Who caused an event is told by its header: nlmsg_pid is the port id of the socket whose
// request led to it, 0 for the kernel's own doing (netlink(7)). Whose socket that is has to
// be found before it is closed.

// actorOf is who caused what a message of route netlink tells. It is asked of each message
// and looks at nothing.
func actorOf(h unix.NlMsghdr) kernel.Actor {
	if h.Pid == 0 || isOwnPort(h.Pid) {
		return kernel.Actor{}
	}
	return kernel.Actor{Port: h.Pid, Heard: time.Now()}
}

const (
	answersKept   = time.Second // who does much is looked for once a second
	maxAnswers    = 256
	restPerSearch = 20 // searches of all processes take at most a twentieth of the time
)

// actors are the answers to who had a port, for a while.
type actors struct {
	mu      sync.Mutex
	answers map[actorID]answer
	rest    time.Time // until then not all processes are searched
}

type actorID struct {
	ns   kernel.NS
	port uint32
}

type answer struct {
	text  string
	named bool // text names a process
	until time.Time
}

// Who names the process that caused an event, if it surely was that; see the port.
func (k *Kernel) Who(ns kernel.NS, a kernel.Actor) string {
	switch {
	case a.Name != "":
		return process{id: a.Process, name: a.Name}.String()
	case a.Port == 0:
		return ""
	}
	who := k.actors.who(actorID{ns, a.Port}, func(search bool) answer {
		return proc.whoHad(a.Port, sinceBoot(a.Heard), search, func() (uint64, error) { return k.socketAt(ns, a.Port) })
	})
	if !who.named && a.Protocol != 0 {
		return who.text + ", with a route of protocol " + kernel.ProtocolName(a.Protocol)
	}
	return who.text
}

func (s *actors) who(id actorID, look func(search bool) answer) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	began := time.Now()
	if a, known := s.answers[id]; known && began.Before(a.until) {
		return a
	}
	search := began.After(s.rest)
	a := look(search)
	now := time.Now()
	if search {
		s.rest = now.Add(restPerSearch * now.Sub(began))
	}
	if s.answers == nil || len(s.answers) >= maxAnswers {
		s.answers = map[actorID]answer{}
	}
	a.until = now.Add(answersKept)
	s.answers[id] = a
	return a
}

// socketAt is the inode of the socket of route netlink with a port in a namespace, 0 if
// there is none any more.
func (k *Kernel) socketAt(ns kernel.NS, port uint32) (inode uint64, err error) {
	n, err := k.enter(ns)
	if err != nil {
		return 0, err
	}
	defer n.leave()
	err = n.within(func() error {
		table, err := os.ReadFile("/proc/thread-self/net/netlink")
		inode = inodeOf(string(table), unix.NETLINK_ROUTE, port)
		return err
	})
	return inode, err
}
