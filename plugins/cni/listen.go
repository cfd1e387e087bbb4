package cni

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// socket is a unix socket for root alone.
type socket struct {
	*net.UnixListener
	path string
	lock *os.File
}

// listen makes the socket at the path. What an agent that died has left there is
// replaced; an agent that lives holds the lock.
func listen(path string) (_ *socket, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	s := &socket{path: path}
	if s.lock, err = os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(s.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		s.lock.Close()
		return nil, fmt.Errorf("%s: another agent serves it: %w", path, err)
	}
	// Under another name first: nobody may connect before the mode is right.
	young := path + ".new"
	err = os.Remove(young)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		s.UnixListener, err = net.ListenUnix("unix", &net.UnixAddr{Name: young, Net: "unix"})
	}
	if err == nil {
		s.SetUnlinkOnClose(false)
		err = os.Chmod(young, 0o600)
	}
	if err == nil {
		err = os.Rename(young, path)
	}
	if err != nil {
		s.lock.Close()
		if s.UnixListener != nil {
			s.UnixListener.Close()
		}
		return nil, fmt.Errorf("listen at %s: %w", path, err)
	}
	return s, nil
}

// close stops listening; nobody can connect any more.
func (s *socket) close() error {
	err := os.Remove(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	err = errors.Join(err, s.Close())
	s.lock.Close() // last: until then nobody else may take the path
	return err
}

// peerUser is who has connected.
func peerUser(conn *net.UnixConn) (uid uint32, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *syscall.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err = errors.Join(err, failed); err != nil {
		return 0, err
	}
	return cred.Uid, nil
}
