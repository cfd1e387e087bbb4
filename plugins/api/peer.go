package api

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"syscall"
)

// guarded is a listener that hands out only connections of root and of the
// agent's own user. The modes of the socket and its directory say the same;
// this is the second lock, for the day when somebody opens the first.
type guarded struct {
	*net.UnixListener
	lock *os.File
	uid  int
	log  *slog.Logger
}

// Accept drops strangers without reading a byte of what they say.
func (g *guarded) Accept() (net.Conn, error) {
	for {
		conn, err := g.AcceptUnix()
		if err != nil {
			return nil, err
		}
		uid, err := peer(conn)
		if err == nil && (uid == 0 || uid == g.uid) {
			return conn, nil
		}
		conn.Close()
		if g.log != nil {
			g.log.Warn("a connection to the API was refused: only root and the agent's user may connect", "uid", uid, "error", err)
		}
	}
}

// Close also removes the socket.
func (g *guarded) Close() error {
	err := g.UnixListener.Close()
	g.lock.Close()
	return err
}

// peer is the user at the other end.
func peer(conn *net.UnixConn) (uid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, err
	}
	var cred *syscall.Ucred
	var sockopt error
	err = raw.Control(func(fd uintptr) {
		cred, sockopt = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err != nil {
		return -1, err
	}
	if sockopt != nil {
		return -1, fmt.Errorf("credentials of the peer: %w", sockopt)
	}
	return int(cred.Uid), nil
}
