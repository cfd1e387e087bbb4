package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// inside runs work on a thread of a namespace, which then goes back to where it came from.
// It must not end: the agent was started by some thread, and is killed when that one ends.
func inside(ns *netlinktest.Namespace, work func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
		if err != nil {
			runtime.UnlockOSThread()
			result <- err
			return
		}
		defer home.Close()
		f, err := os.Open(ns.Path)
		if err == nil {
			err = unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
			f.Close()
		}
		if err == nil {
			err = work()
		}
		back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET)
		if back == nil {
			runtime.UnlockOSThread()
		}
		result <- errors.Join(err, back)
	}()
	return <-result
}

// serve answers everybody who speaks at the address with a name and what he has said, until
// the test ends or stop is called.
func serve(t testing.TB, ns *netlinktest.Namespace, network, address, name string) (stop func()) {
	t.Helper()
	var l io.Closer
	err := inside(ns, func() (err error) {
		if network == "udp" {
			l, err = net.ListenPacket(network, address)
		} else {
			l, err = net.Listen(network, address)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	over := make(chan struct{})
	all.Go(func() {
		switch l := l.(type) {
		case net.PacketConn:
			answerDatagrams(l, name)
		case net.Listener:
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				all.Go(func() {
					// A firewall may have dropped the packet with which the other side has closed it.
					answered := make(chan struct{})
					all.Go(func() {
						select {
						case <-over:
							c.Close()
						case <-answered:
						}
					})
					answerStream(c, name)
					close(answered)
				})
			}
		}
	})
	stop = sync.OnceFunc(func() { l.Close(); close(over); all.Wait() })
	t.Cleanup(stop)
	return stop
}

func answerDatagrams(c net.PacketConn, name string) {
	buf := make([]byte, 1<<16)
	for {
		n, from, err := c.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			_, _ = c.WriteTo(append([]byte(name+": "), buf[:n]...), from)
		}
	}
}

// answerStream answers each thing that is said, and at the end says that it has ended.
func answerStream(c net.Conn, name string) {
	defer c.Close()
	buf := make([]byte, 1<<16)
	for {
		n, err := c.Read(buf)
		if n > 0 {
			_, _ = fmt.Fprintf(c, "%s: %s", name, buf[:n])
		}
		if errors.Is(err, io.EOF) {
			_, _ = fmt.Fprintf(c, ", %s ends", name)
		}
		if err != nil {
			return
		}
	}
}

// dial connects from a namespace.
func dial(ns *netlinktest.Namespace, network, address string) (c net.Conn, err error) {
	err = inside(ns, func() (err error) { c, err = net.Dial(network, address); return err })
	if err == nil {
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	}
	return c, err
}

// say says something from a namespace, and returns all that is answered.
func say(ns *netlinktest.Namespace, network, address, text string) string {
	c, err := dial(ns, network, address)
	if err != nil {
		return told(err)
	}
	defer c.Close()
	_, err = c.Write([]byte(text))
	var answer []byte
	if half, ok := c.(interface{ CloseWrite() error }); err == nil && ok {
		_ = half.CloseWrite()
		answer, err = io.ReadAll(c)
	} else if err == nil {
		answer = make([]byte, 1<<16)
		var n int
		n, err = c.Read(answer)
		answer = answer[:n]
	}
	if err != nil {
		return strings.TrimSpace(string(answer) + " " + told(err))
	}
	return string(answer)
}

// told is an error by its name, without addresses that are another each time.
func told(err error) string {
	for _, known := range []error{unix.ECONNREFUSED, unix.ECONNRESET, unix.EPIPE, unix.ENOENT, unix.EACCES, os.ErrDeadlineExceeded} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return err.Error()
}

// talk says something over a connection and returns the answer.
func talk(t testing.TB, c net.Conn, text string) string {
	t.Helper()
	buf := make([]byte, 1000)
	_, err := c.Write([]byte(text))
	n := 0
	if err == nil {
		n, err = c.Read(buf)
	}
	if err != nil {
		t.Fatalf("say %q: %v", text, err)
	}
	return string(buf[:n])
}
