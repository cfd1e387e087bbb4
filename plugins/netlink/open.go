package netlink

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync/atomic"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/openfiles"
	"github.com/plumb-net/plumb/plugins/pidfd"
)

// selfPath is the namespace of the main thread, which never leaves it.
const selfPath = "/proc/self/ns/net"

// processPath is the namespace file of a process, or of one of its threads.
var processPath = regexp.MustCompile(`^/proc/(\d+|self)/(?:task/\d+/)?ns/net$`)

// Open makes the namespace behind a path usable and returns its identity.
func (k *Kernel) Open(path string) (kernel.NS, error) {
	id, err := k.open(path, false)
	if err != nil {
		return 0, fmt.Errorf("open network namespace %s: %w", path, openfiles.Explain(err))
	}
	return id, nil
}

// Behind is the inode of the file at a path; see the port.
func (k *Kernel) Behind(path string) kernel.NS {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0
	}
	return kernel.NS(st.Ino)
}

// Cookie is the number that the kernel has given to a namespace, since Linux 5.14.
func (k *Kernel) Cookie(ns kernel.NS) (cookie uint64) {
	_ = k.Within(ns, 0, func() error { // one that is gone has none
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		cookie, err = unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
		return err
	})
	return cookie
}

// Started tells when a process started, in clock ticks since the boot.
func (k *Kernel) Started(pid int) (uint64, error) { return pidfd.StartTime(pid) }

// openOwn opens a namespace that stays open until the end.
func (k *Kernel) openOwn(path string) (kernel.NS, error) { return k.open(path, true) }

func (k *Kernel) open(path string, forGood bool) (kernel.NS, error) {
	h := &holder{path: path, forGood: forGood}
	if pid := processOf(path); pid != 0 && !forGood {
		// The process first: if it is still there once its file is open, then
		// the file is that of this process and of no later one with its number.
		p, err := pidfd.Open(pid)
		if err != nil {
			return 0, fmt.Errorf("process %d: %w", pid, nowhere(err))
		}
		h.pid, h.process = pid, p
	}
	handle, err := h.open()
	if err != nil {
		h.close()
		return 0, err
	}
	return h.id, k.hold(handle, h)
}

// open opens the file of the path and learns its identity. A process has to be
// there still when that is done.
func (h *holder) open() (netns.NsHandle, error) {
	handle, id, err := openFile(h.path)
	if err != nil {
		return netns.None(), err
	}
	if !h.running() {
		handle.Close()
		return netns.None(), fmt.Errorf("process %d has ended: %w", h.pid, nowhere(unix.ESRCH))
	}
	h.id = id
	return handle, nil
}

// hold makes a namespace known, or known by one more holder. It owns handle.
func (k *Kernel) hold(handle netns.NsHandle, h *holder) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		handle.Close()
		h.close()
		return ErrClosed
	}
	e := k.namespaces[h.id]
	if e != nil {
		handle.Close()
		for _, other := range e.holders {
			if other.same(h) {
				h.close()
				return nil
			}
		}
		e.touched.Store(true)
	} else {
		var err error
		if e, err = k.admit(handle, h.id); err != nil {
			h.close()
			return err
		}
	}
	e.holders = append(e.holders, h)
	if h.process != nil {
		h.process.OnEnd(func() {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.end(h)
		})
	}
	// A path may have changed since, without anybody being told of it yet.
	if h.pid == 0 && !h.alive() {
		k.end(h)
		return nowhere(unix.ENOENT)
	}
	return nil
}

// admit makes a namespace known that was not, if there is room for what it costs: a
// host that has more namespaces than files must still answer. It owns handle. k.mu is held.
func (k *Kernel) admit(handle netns.NsHandle, id kernel.NS) (*entry, error) {
	e := &entry{namespace: k.newNamespace(handle, id)}
	if err := k.room(); err != nil {
		e.close()
		return nil, err
	}
	if len(k.hub.list()) > 0 {
		if err := k.hub.addAll(e); err != nil {
			e.close()
			return nil, err
		}
	}
	e.touched.Store(true)
	k.namespaces[id] = e
	k.opened.Add(1)
	select {
	case k.newcomers <- struct{}{}:
	default:
	}
	return e, nil
}

func (k *Kernel) newNamespace(handle netns.NsHandle, id kernel.NS) *namespace {
	return &namespace{
		id: id, home: k.home, handle: handle, pool: k.pool, calm: k.calm,
		writes: &counter{here: new(atomic.Uint64), all: &k.writes},
	}
}

// end takes a holder away, and the namespace with its last one. k.mu is held.
func (k *Kernel) end(h *holder) {
	e := k.namespaces[h.id]
	if e == nil {
		return
	}
	for i, other := range e.holders {
		if other == h {
			e.holders = append(e.holders[:i:i], e.holders[i+1:]...)
			h.close()
			break
		}
	}
	if len(e.holders) == 0 {
		k.drop(h.id, e)
	}
}

// processOf is the process whose namespace a path shows, 0 if it shows another
// kind of file. Links that lead to such a path are followed.
func processOf(path string) int {
	for range 8 {
		if m := processPath.FindStringSubmatch(path); m != nil {
			if m[1] == "self" {
				return os.Getpid()
			}
			pid, _ := strconv.Atoi(m[1])
			return pid
		}
		to, err := os.Readlink(path)
		if err != nil {
			return 0
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = filepath.Clean(to)
	}
	return 0
}

// openFile opens the namespace file behind a path. What is no namespace file is
// not really opened, so a pipe does not block and a device is left alone.
func openFile(path string) (netns.NsHandle, kernel.NS, error) {
	probe, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return netns.None(), 0, nowhere(err)
	}
	defer unix.Close(probe)
	var fs unix.Statfs_t
	if err := unix.Fstatfs(probe, &fs); err != nil {
		return netns.None(), 0, err
	}
	if fs.Type != unix.NSFS_MAGIC {
		return netns.None(), 0, fmt.Errorf("%w: it is not a namespace file", kernel.ErrNotNamespace)
	}
	handle, err := netns.GetFromPath(fileOf(probe))
	if err != nil {
		return netns.None(), 0, err
	}
	id, err := identify(handle)
	if err != nil {
		handle.Close()
		return netns.None(), 0, err
	}
	return handle, id, nil
}

// fileOf is a path to what a file descriptor of this process shows.
func fileOf(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// identify reads the identity of an open namespace file.
func identify(handle netns.NsHandle) (kernel.NS, error) {
	kind, err := unix.IoctlRetInt(int(handle), unix.NS_GET_NSTYPE)
	if err != nil {
		return 0, fmt.Errorf("ask for the type of the namespace: %w", err)
	}
	if kind != unix.CLONE_NEWNET {
		return 0, fmt.Errorf("%w: it is a namespace of another type%s", kernel.ErrNotNamespace, namespaceType(kind))
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(handle), &st); err != nil {
		return 0, err
	}
	return kernel.NS(st.Ino), nil
}

// namespaceType names a type of namespaces as /proc/<pid>/ns does.
func namespaceType(kind int) string {
	name := map[int]string{
		unix.CLONE_NEWNS: "mnt", unix.CLONE_NEWPID: "pid", unix.CLONE_NEWUSER: "user", unix.CLONE_NEWUTS: "uts",
		unix.CLONE_NEWIPC: "ipc", unix.CLONE_NEWCGROUP: "cgroup", unix.CLONE_NEWTIME: "time",
	}[kind]
	if name == "" {
		return ""
	}
	return " (" + name + ")"
}

// inodeAt is the identity of the namespace file at a path, 0 if there is none.
func inodeAt(path string) kernel.NS {
	var fs unix.Statfs_t
	var st unix.Stat_t
	if unix.Statfs(path, &fs) != nil || fs.Type != unix.NSFS_MAGIC || unix.Stat(path, &st) != nil {
		return 0
	}
	return kernel.NS(st.Ino)
}

// nowhere marks the errors that mean that there is no namespace.
func nowhere(err error) error {
	for _, none := range []error{unix.ENOENT, unix.ESRCH, unix.EINVAL, unix.ENOTDIR} {
		if errors.Is(err, none) {
			return fmt.Errorf("%w: %w", kernel.ErrNoNamespace, refused(unix.ESRCH))
		}
	}
	return err
}
