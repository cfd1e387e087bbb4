package private

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// lockTime is for how long a lock is tried. A process that was just killed may
// leave its locks to a child that has been forked and has not yet begun its
// program; it lets them go within that time.
const lockTime = time.Second

// lockEvery is how often it is tried.
const lockEvery = 20 * time.Millisecond

// Held is the error of Take when another process has the lock.
type Held struct {
	Path string
	// PID is who has it, 0 if that is not known.
	PID int
}

func (h *Held) Error() string {
	who := "another process"
	if h.PID != 0 {
		who = fmt.Sprintf("process %d", h.PID)
	}
	return fmt.Sprintf("%s is locked by %s", h.Path, who)
}

// Lock is a lock that is held. The kernel ends it with the process.
type Lock struct{ file *os.File }

// Take takes the lock of the path, whose directory must be safe from others; see
// [Make]. It writes nothing into a file that is not ours to lock: a symbolic link,
// a pipe, or a file of somebody else.
func Take(path string) (*Lock, error) {
	f, err := openOwn(path, os.O_CREATE|os.O_RDWR)
	if errors.Is(err, syscall.EROFS) { // a lock needs no writing
		f, err = openOwn(path, os.O_RDONLY)
	}
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	for until := time.Now().Add(lockTime); ; time.Sleep(lockEvery) {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) || time.Now().After(until) {
			break
		}
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		defer f.Close()
		return nil, &Held{Path: path, PID: holder(f)}
	}
	if err == nil { // a disk that is full or read-only does not have the process
		_ = f.Truncate(0)
		_, _ = f.WriteAt(fmt.Appendf(nil, "%d", os.Getpid()), 0)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return &Lock{f}, nil
}

// holder reads who has written that he has the lock.
func holder(f *os.File) int {
	text := make([]byte, 32)
	n, _ := f.ReadAt(text, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text[:n])))
	if err != nil {
		return 0
	}
	return pid
}

// Path returns the name of the file.
func (l *Lock) Path() string { return l.file.Name() }

// stands reports whether the name of the file still leads to what is locked.
func (l *Lock) stands() bool {
	held, err := l.file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(l.file.Name())
	return err == nil && os.SameFile(held, named)
}

// Ensure takes the lock again if somebody removed or replaced its file: until then another process
// could take it. It reports whether that was necessary; a *Held error says that it came too late.
func (l *Lock) Ensure() (again bool, err error) {
	if l.stands() {
		return false, nil
	}
	path := l.file.Name()
	if err := Make(filepath.Dir(path)); err != nil {
		return false, err
	}
	next, err := Take(path)
	if err != nil {
		return false, err
	}
	l.file.Close()
	l.file = next.file
	return true, nil
}

// Release ends the lock. The file stays, so that nobody locks a name that is gone.
func (l *Lock) Release() {
	_ = l.file.Truncate(0)
	l.file.Close()
}

// openOwn opens a regular file of root or of our own, and never waits: not for the
// writer of a pipe, and over no symbolic link.
func openOwn(path string, flags int) (*os.File, error) {
	f, err := OpenFile(path, flags)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Sys().(*syscall.Stat_t).Nlink != 1 {
		err = fmt.Errorf("%s has other names as well; remove it", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// OpenFile opens a file of ours by its name, as in a state directory: a regular file of root
// or of the user of this process. It never waits for the writer of a pipe, and follows no
// symbolic link in place of the file. A file that is created is closed to others.
func OpenFile(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, flags&^os.O_TRUNC|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0o600)
	switch {
	case errors.Is(err, syscall.ELOOP):
		return nil, fmt.Errorf("%s is a symbolic link; remove it", path)
	case errors.Is(err, syscall.ENXIO): // a socket, or a pipe that nobody reads
		return nil, fmt.Errorf("%s is no regular file; remove it", path)
	case err != nil:
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is no regular file; remove it", path)
	case !trusted(owner(info)):
		err = fmt.Errorf("%s belongs to user %d; remove it", path, owner(info))
	case flags&os.O_TRUNC != 0: // now that it is known to be ours
		err = f.Truncate(0)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// ReadState is os.ReadFile for files of [OpenFile].
func ReadState(path string) ([]byte, error) {
	f, err := OpenFile(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// ErrTooLong: a file is longer than the caller of [ReadFile] expects.
var ErrTooLong = errors.New("longer than")

// ReadFile reads a regular file of root or of our own of at most limit bytes.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := openOwn(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s is %w %d bytes", path, ErrTooLong, limit)
	}
	return text, err
}
