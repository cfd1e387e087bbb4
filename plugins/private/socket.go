package private

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// maxSocketPath is what fits into the kernel's sun_path with its final zero.
const maxSocketPath = 107

// CheckSocket reports why the path cannot be a socket. It touches nothing, so that
// it can be asked before anything is started.
func CheckSocket(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("socket %s: the path must be absolute", path)
	}
	if len(path) > maxSocketPath {
		return fmt.Errorf("socket %s: the path has %d bytes and the kernel allows %d; choose a shorter --run-dir", path, len(path), maxSocketPath)
	}
	return nil
}

// Listener hands out only connections of root and of our own user.
type Listener struct {
	*net.UnixListener
	lock *Lock
	// Refused, if it is set before the first Accept, hears of strangers.
	Refused func(uid int, err error)
}

// Listen makes a socket that only root and our own user can reach, from the first
// moment on: its directory is safe from others, it gets its mode before it gets its
// name, and who connects is asked for credentials. The socket of a dead process is
// replaced, that of a live one is refused.
func Listen(path string) (*Listener, error) {
	if err := CheckSocket(path); err != nil {
		return nil, err
	}
	if err := Make(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	lock, err := Take(path + ".lock")
	var held *Held
	if errors.As(err, &held) {
		return nil, inUse(path)
	}
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	l, err := bind(path)
	if err != nil {
		lock.Release()
		return nil, err
	}
	return &Listener{UnixListener: l, lock: lock}, nil
}

func inUse(path string) error {
	return fmt.Errorf("socket %s: another agent listens there; stop it, or give this one another --run-dir", path)
}

func bind(path string) (*net.UnixListener, error) {
	if err := removeStale(path); err != nil {
		return nil, err
	}
	// A socket file takes its mode from the socket, less the umask.
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var chmod error
		err := c.Control(func(fd uintptr) { chmod = syscall.Fchmod(int(fd), 0o600) })
		return errors.Join(err, chmod)
	}}
	l, err := lc.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil { // an odd umask
		l.Close()
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	return l.(*net.UnixListener), nil
}

// removeStale removes the socket that a dead process left, and nothing else.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("socket %s: %w", path, err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("socket %s: something else is there; remove it, or choose another --run-dir", path)
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		conn.Close()
		return inUse(path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("socket %s: cannot tell whether an agent listens there: %w", path, err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("socket %s: %w", path, err)
	}
	return nil
}

// Accept drops strangers without reading a byte of what they say.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		p, err := Peer(conn)
		if err == nil && trusted(p.UID) {
			return conn, nil
		}
		conn.Close()
		if l.Refused != nil {
			l.Refused(p.UID, err)
		}
	}
}

// Close also removes the socket.
func (l *Listener) Close() error {
	err := l.UnixListener.Close()
	l.lock.Release() // last: until then nobody else may take the path
	return err
}

// Dial connects to the socket if root or our own user listens there. Nothing is
// said before that is known. An error about who listens is fs.ErrPermission.
func Dial(ctx context.Context, path string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	p, err := Peer(conn.(*net.UnixConn))
	if err == nil && !trusted(p.UID) {
		err = &Stranger{Path: path, UID: p.UID}
	}
	if err != nil {
		conn.Close()
		return nil, &net.OpError{Op: "dial", Net: "unix", Addr: &net.UnixAddr{Name: path, Net: "unix"}, Err: err}
	}
	return conn, nil
}

// Stranger is the error of Dial when somebody else listens.
type Stranger struct {
	Path string
	UID  int
}

func (s *Stranger) Error() string {
	return fmt.Sprintf("user %d listens at %s, not root; nothing was sent", s.UID, s.Path)
}

// Unwrap makes it a matter of permission, which trying again does not change.
func (s *Stranger) Unwrap() error { return fs.ErrPermission }

// Credentials are a user and one of his processes.
type Credentials struct{ UID, PID int }

// Peer is who is at the other end: who connected, or who called listen.
func Peer(conn *net.UnixConn) (Credentials, error) {
	nobody := Credentials{UID: -1}
	raw, err := conn.SyscallConn()
	if err != nil {
		return nobody, err
	}
	var cred *syscall.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err = errors.Join(err, failed); err != nil {
		return nobody, fmt.Errorf("credentials of the peer: %w", err)
	}
	return Credentials{UID: int(cred.Uid), PID: int(cred.Pid)}, nil
}
