package private

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
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

// checkEvery is how often a listener looks whether its path still leads to it.
const checkEvery = 2 * time.Second

// Listener hands out only connections of root and of our own user. Its socket is made again if
// somebody removes or replaces it, its directory or its lock; connections stay.
type Listener struct {
	path string
	// Refused, if it is set before the first Accept, is called for each connection of a stranger.
	Refused func(uid int, err error)
	// Restored, if it is set before the first Accept, is called with nil when the socket was made
	// again, and with an error when that failed; it is tried again. An error is reported once.
	Restored func(err error)
	// every is checkEvery, or less in tests.
	every time.Duration
	// due is when the path is looked at again, and failed the last error; Accept uses them.
	due    time.Time
	failed string

	mu     sync.Mutex // guards all below
	socket *net.UnixListener
	id     fileID // of the file that leads to it
	lock   *Lock
	closed bool
}

// fileID tells a file from others that had or will have its name.
type fileID struct{ dev, ino uint64 }

func idOf(path string) (fileID, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return fileID{}, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}, fmt.Errorf("%s has no inode", path)
	}
	return fileID{st.Dev, st.Ino}, nil
}

// Listen makes a socket that only root and our own user can reach, from the first
// moment on: its directory is safe from others, it gets its mode before it gets its
// name, and who connects is asked for credentials. The socket of a dead process is
// replaced, that of a live one is refused.
func Listen(path string) (*Listener, error) {
	if err := CheckSocket(path); err != nil {
		return nil, err
	}
	l := &Listener{path: path, every: checkEvery}
	if err := l.open(); err != nil {
		return nil, err
	}
	return l, nil
}

// open takes the lock, if it is not held, and makes the socket.
func (l *Listener) open() error {
	if err := Make(filepath.Dir(l.path)); err != nil {
		return fmt.Errorf("socket %s: %w", l.path, err)
	}
	lock := l.lock
	if lock == nil || !lock.stands() {
		var err error
		lock, err = Take(l.path + ".lock")
		var held *Held
		if errors.As(err, &held) {
			return inUse(l.path)
		}
		if err != nil {
			return fmt.Errorf("socket %s: %w", l.path, err)
		}
	}
	socket, err := bind(l.path)
	var id fileID
	if err == nil {
		if id, err = idOf(l.path); err != nil {
			socket.Close()
		}
	}
	if err != nil {
		if lock != l.lock {
			lock.Release()
		}
		return err
	}
	if l.lock != nil && l.lock != lock {
		l.lock.Release()
	}
	l.socket, l.id, l.lock = socket, id, lock
	return nil
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

// stands reports whether the path still leads to the socket, and the lock to what we hold.
func (l *Listener) stands() bool {
	id, err := idOf(l.path)
	return err == nil && id == l.id && l.lock.stands()
}

// restore makes the socket again if its path does not lead to it any more. Until that succeeds the
// former one is kept, since clients may have its address by another name.
func (l *Listener) restore() {
	l.mu.Lock()
	if l.closed || l.stands() {
		l.failed = ""
		l.mu.Unlock()
		return
	}
	former := l.socket
	former.SetUnlinkOnClose(false) // another one has its name
	if id, err := idOf(l.path); err == nil && id == l.id {
		_ = os.Remove(l.path) // the lock alone was lost
	}
	err := l.open()
	if err == nil {
		former.Close()
	}
	l.mu.Unlock()
	text := fmt.Sprint(err)
	if l.Restored != nil && text != l.failed {
		l.Restored(err)
	}
	l.failed = text
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
		conn, err := l.accept()
		if err != nil {
			return nil, err
		}
		if conn == nil {
			continue
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

// accept waits for a connection, and no longer than until the path is to be looked at; then it
// returns none.
func (l *Listener) accept() (*net.UnixConn, error) {
	if now := time.Now(); now.After(l.due) {
		l.restore()
		l.due = now.Add(l.every)
	}
	l.mu.Lock()
	socket, closed := l.socket, l.closed
	l.mu.Unlock()
	if closed {
		return nil, net.ErrClosed
	}
	err := socket.SetDeadline(l.due)
	if err != nil {
		return nil, err
	}
	conn, err := socket.AcceptUnix()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, nil
	}
	return conn, err
}

// Close also removes the socket.
func (l *Listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return net.ErrClosed
	}
	l.closed = true
	if id, err := idOf(l.path); err != nil || id != l.id {
		l.socket.SetUnlinkOnClose(false) // what has its name is not ours
	}
	err := l.socket.Close()
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
