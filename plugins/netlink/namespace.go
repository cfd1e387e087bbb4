package netlink

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// namespace is an open network namespace.
type namespace struct {
	id   kernel.NS
	home netns.NsHandle // where threads belong
	pool *sync.Pool
	// calm is where conns go when they are idle; idle are this namespace's there.
	calm *idleConns
	idle []*conn
	// touched says that it was used since it was last asked; see [Kernel.CloseUnused].
	touched atomic.Bool
	// writes counts the requests that may have changed something.
	writes *counter

	mu     sync.Mutex // guards what follows
	handle netns.NsHandle
	users  int // calls under way, which keep handle open
	closed bool

	peers peerIDs
	fdb   setEntries
}

// counter counts for one namespace and for all.
type counter struct{ here, all *atomic.Uint64 }

func (c *counter) add(n int) {
	c.here.Add(uint64(n))
	c.all.Add(uint64(n))
}

// enter keeps the namespace open until leave; false if it is closed already.
func (n *namespace) enter() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return false
	}
	n.users++
	return true
}

func (n *namespace) leave() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.users--
	n.release()
}

// close lets go of the namespace: at once, or after the calls under way.
func (n *namespace) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	n.release()
}

func (n *namespace) release() {
	if !n.closed {
		return
	}
	n.calm.closeOf(n)
	if n.users == 0 && n.handle.IsOpen() {
		n.handle.Close()
		n.handle = netns.None() // whatever Close says: the number may be another file's by now
	}
}

// borrow gives out a conn; the caller is between enter and leave. At the limit of
// open files those that are idle elsewhere make way.
func (n *namespace) borrow() (c *conn, err error) {
	if c := n.calm.take(n); c != nil {
		return c, nil
	}
	for {
		err = n.within(func() (err error) {
			c, err = dial(unix.NETLINK_ROUTE)
			return err
		})
		if !errors.Is(err, unix.EMFILE) || !n.calm.closeAll() {
			return c, err
		}
	}
}

// giveBack takes a conn back. After an error that is not an answer of the
// kernel nobody knows what is still under way on it, so it is closed.
func (n *namespace) giveBack(c *conn, err error) {
	var r *refusal
	usable := err == nil || errors.As(err, &r) || errors.Is(err, errInterrupted)
	n.mu.Lock()
	defer n.mu.Unlock()
	if usable && !n.closed {
		n.calm.put(n, c)
		return
	}
	c.close()
}

// do sends one request and hands the messages of its answer to each.
func (n *namespace) do(m *message, each func(typ uint16, body []byte)) error {
	c, err := n.borrow()
	if err != nil {
		return err
	}
	if !isGet(m.typ()) {
		n.writes.add(1)
	}
	buf := n.pool.Get().(*[bufferSize]byte)
	err = c.request(m, buf[:], each)
	n.pool.Put(buf)
	n.giveBack(c, err)
	return refused(err)
}

// batchSize bounds how many answers wait in a socket, batchBytes what is sent at once: a
// socket takes some 200 KB. Of links that are shown it takes some 40.
const (
	batchSize  = 64
	batchShown = 32
	batchBytes = 64 << 10
)

// doAll sends many requests, all of them reading or none, with few calls, and returns one error
// for each. What the kernel says of them besides is handed to each, which may be nil, with their
// place.
func (n *namespace) doAll(ms []*message, each func(i int, typ uint16, body []byte)) ([]error, error) {
	if len(ms) == 0 {
		return nil, nil
	}
	c, err := n.borrow()
	if err != nil {
		return nil, err
	}
	buf := n.pool.Get().(*[bufferSize]byte)
	defer n.pool.Put(buf)
	var errs []error
	for len(errs) < len(ms) && err == nil {
		begin := len(errs)
		part := ms[begin:]
		part = part[:fitting(part)]
		if !isGet(part[0].typ()) {
			n.writes.add(len(part))
		}
		var some []error
		some, err = c.batch(part, buf[:], func(i int, typ uint16, body []byte) {
			if each != nil {
				each(begin+i, typ, body)
			}
		})
		for _, e := range some {
			errs = append(errs, refused(e))
		}
	}
	n.giveBack(c, err)
	return errs, err
}

// doEach is doAll for those to whom it is all the same whether the kernel refuses something
// or cannot be asked.
func (n *namespace) doEach(ms []*message, each func(i int, typ uint16, body []byte)) []error {
	errs, err := n.doAll(ms, each)
	for len(errs) < len(ms) {
		errs = append(errs, err)
	}
	return errs
}

// fitting is how many of the requests go at once, at least one.
func fitting(ms []*message) int {
	bytes, shown := 0, 0
	for i, m := range ms[:min(batchSize, len(ms))] {
		if bytes += len(m.b); isGet(m.typ()) || m.flags()&unix.NLM_F_ECHO != 0 {
			shown++
		}
		if i > 0 && (bytes > batchBytes || shown > batchShown) {
			return i
		}
	}
	return min(batchSize, len(ms))
}

// dumpTries and dumpPause bound the reading of tables that keep changing.
const (
	dumpTries = 40
	dumpPause = time.Millisecond
)

// dump reads all objects that m asks for, again when they changed meanwhile.
// begin is called before every try.
func (n *namespace) dump(m *message, begin func(), each func(typ uint16, body []byte)) error {
	for try := 1; ; try++ {
		begin()
		err := n.do(m, each)
		if !errors.Is(err, errInterrupted) {
			return err
		}
		if try == dumpTries {
			return fmt.Errorf("read %d times: %w", try, err)
		}
		time.Sleep(time.Duration(try) * dumpPause)
	}
}
