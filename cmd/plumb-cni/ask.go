package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"

	"github.com/plumb-net/plumb/plugins/cni/wire"
	"github.com/plumb-net/plumb/plugins/private"
)

// patience is how long the agent may take.
type patience struct {
	reach  time.Duration // until it says hello
	answer time.Duration // until it answers
}

// patienceFor: for ADD a little more than the agent takes at most, so that its
// own error is the one that is seen; runtimes wait for minutes. DEL and STATUS must
// not hold anybody up.
func patienceFor(command string) patience {
	switch command {
	case "ADD":
		return patience{5 * time.Second, 35 * time.Second}
	case "STATUS":
		return patience{time.Second, 2 * time.Second}
	case "GC":
		return patience{5 * time.Second, time.Minute}
	case "DEL":
		return patience{2 * time.Second, 15 * time.Second}
	}
	return patience{5 * time.Second, 15 * time.Second}
}

// tryAgain is how often an agent that is not there is tried.
const tryAgain = 100 * time.Millisecond

// ask makes one call. It tries again until somebody says hello; a request is sent
// only once.
func (s system) ask(r wire.Request, socket string) (wire.Answer, error) {
	wait := patienceFor(r.Command)
	until := time.Now().Add(wait.reach)
	for {
		conn, lines, protocol, err := s.reach(socket, time.Until(until))
		if err == nil {
			defer conn.Close()
			r.Protocol, r.Timeout = protocol, wait.answer.Milliseconds()
			return send(conn, lines, r, wait.answer)
		}
		if final := errors.Is(err, wire.ErrNoCommon) || errors.Is(err, fs.ErrPermission); final || time.Until(until) <= tryAgain {
			return wire.Answer{}, err
		}
		time.Sleep(tryAgain)
	}
}

// reach connects and hears hello.
func (s system) reach(socket string, limit time.Duration) (net.Conn, *wire.Reader, int, error) {
	conn, err := s.dial(socket, limit)
	if err != nil {
		return nil, nil, 0, err
	}
	lines := wire.NewReader(conn)
	var hello wire.Hello
	err = conn.SetDeadline(time.Now().Add(limit))
	if err == nil {
		err = lines.Read(&hello)
	}
	if err != nil {
		err = withProcess(err, conn)
		conn.Close()
		return nil, nil, 0, fmt.Errorf("nobody says hello at %s: %w", socket, err)
	}
	protocol, err := wire.Agree(hello)
	if err != nil {
		conn.Close()
		return nil, nil, 0, err
	}
	return conn, lines, protocol, nil
}

func send(conn net.Conn, lines *wire.Reader, r wire.Request, limit time.Duration) (a wire.Answer, err error) {
	if err = conn.SetDeadline(time.Now().Add(limit)); err == nil {
		err = wire.Write(conn, r)
	}
	if err == nil {
		err = lines.Read(&a)
	}
	if err != nil {
		err = fmt.Errorf("no answer to %s: %w", r.Command, withProcess(err, conn))
	}
	return a, err
}

// withProcess adds to an error of time what is known of the process that listens.
func withProcess(err error, conn net.Conn) error {
	unix, ok := conn.(*net.UnixConn)
	if !ok || !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	p, failed := private.Peer(unix)
	if failed != nil {
		return err
	}
	return fmt.Errorf("%w; %s", err, private.Process(p.PID))
}
