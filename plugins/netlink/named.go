package netlink

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/openfiles"
)

// CreateNamed makes a namespace with a name, as `ip netns add` does.
func (k *Kernel) CreateNamed(name string) (kernel.NS, error) {
	id, err := k.createNamed(name)
	if err != nil {
		return 0, fmt.Errorf("create network namespace %q: %w", name, openfiles.Explain(err))
	}
	return id, nil
}

func (k *Kernel) createNamed(name string) (kernel.NS, error) {
	path, err := k.namedPath(name)
	if err != nil {
		return 0, err
	}
	if err := k.prepareNamedDir(); err != nil {
		return 0, err
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, refused(err)
	}
	unix.Close(fd)
	k.writes.Add(1)
	id, err := k.createAt(path)
	if err != nil {
		_ = unix.Unmount(path, unix.MNT_DETACH)
		_ = unix.Unlink(path)
		return 0, err
	}
	return id, nil
}

// createAt makes a namespace, mounts it on a file that is there, and holds it.
func (k *Kernel) createAt(path string) (kernel.NS, error) {
	made := netns.None()
	err := onThread(k.home, func() (err error) {
		made, err = netns.New()
		return err
	})
	if err == nil {
		err = unix.Mount(fileOf(int(made)), path, "none", unix.MS_BIND, "")
	}
	var id kernel.NS
	if err == nil {
		id, err = identify(made)
	}
	if err != nil {
		if made.IsOpen() {
			made.Close()
		}
		return 0, err
	}
	return id, k.hold(made, &holder{id: id, path: path})
}

// prepareNamedDir makes the directory a shared mount, so that namespaces made
// in one mount namespace can be removed in all.
func (k *Kernel) prepareNamedDir() error {
	dir := k.opts.NamedDir
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		// The names are everybody's to see, whatever the umask of the agent.
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(dir, 0o755)); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	err := unix.Mount("", dir, "none", unix.MS_SHARED|unix.MS_REC, "")
	if err == nil || err != unix.EINVAL {
		return err
	}
	// Not a mount yet: make it one.
	if err := unix.Mount(dir, dir, "none", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount %s on itself: %w", dir, err)
	}
	if err := unix.Mount("", dir, "none", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("share the mount %s: %w", dir, err)
	}
	return nil
}

// DeleteNamed removes a name, and with it the namespace unless processes still
// live in it. Our own handles of that name are closed at once.
func (k *Kernel) DeleteNamed(name string) error {
	path, err := k.namedPath(name)
	if err == nil {
		err = k.deleteNamed(path)
	}
	if err != nil {
		return fmt.Errorf("delete network namespace %q: %w", name, err)
	}
	return nil
}

func (k *Kernel) deleteNamed(path string) error {
	k.writes.Add(1)
	// EINVAL: a file that is not a mount, left by a creation that failed.
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && err != unix.EINVAL {
		return refused(err)
	}
	if err := unix.Unlink(path); err != nil {
		return refused(err)
	}
	k.endPaths()
	_ = k.lookAtNames() // the watch of paths looks as well, until it is read
	return nil
}

func (k *Kernel) namedPath(name string) (string, error) {
	if name == "" || name == "." || name == ".." || len(name) > 255 || strings.ContainsAny(name, "/\x00") {
		return "", fmt.Errorf("not a name for a namespace: %w", unix.EINVAL)
	}
	return filepath.Join(k.opts.NamedDir, name), nil
}

// ListNamed are the named namespaces; files that are none are left out.
func (k *Kernel) ListNamed() (map[string]kernel.NS, error) { return k.listNamed(nil) }

// listNamed does not look closely at files that are as known.
func (k *Kernel) listNamed(known map[string]kernel.NS) (map[string]kernel.NS, error) {
	names := map[string]kernel.NS{}
	files, err := os.ReadDir(k.opts.NamedDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("list network namespaces: %w", openfiles.Explain(err))
	}
	for _, f := range files {
		path := filepath.Join(k.opts.NamedDir, f.Name())
		id := inodeAt(path)
		if id != 0 && id != known[f.Name()] {
			if id, err = networkAt(path); err != nil {
				return nil, fmt.Errorf("list network namespaces: %s: %w", f.Name(), openfiles.Explain(err))
			}
		}
		if id != 0 {
			names[f.Name()] = id
		}
	}
	return names, nil
}

// networkAt is the identity of the network namespace at a path, 0 if it is a
// namespace of another type or gone. It fails where nobody can tell.
func networkAt(path string) (kernel.NS, error) {
	handle, id, err := openFile(path)
	if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM) {
		return 0, err
	}
	if err != nil {
		return 0, nil
	}
	handle.Close()
	return id, nil
}

// endPaths ends the holders whose path no longer shows their namespace.
func (k *Kernel) endPaths() {
	var paths []*holder
	k.mu.RLock()
	for _, e := range k.namespaces {
		for _, h := range e.holders {
			if h.pid == 0 {
				paths = append(paths, h)
			}
		}
	}
	k.mu.RUnlock()
	slices.SortFunc(paths, func(a, b *holder) int { return strings.Compare(a.path, b.path) })
	for _, h := range paths {
		if !h.alive() {
			k.mu.Lock()
			k.end(h)
			k.mu.Unlock()
		}
	}
}

// lookAtNames tells the watchers which names came and went since the last look.
func (k *Kernel) lookAtNames() error {
	k.namesMu.Lock()
	defer k.namesMu.Unlock()
	names, err := k.listNamed(k.named)
	if err != nil {
		return err // nothing is known, so nothing is told
	}
	events := namedChanges(k.named, names)
	k.named = names
	k.mu.RLock()
	defer k.mu.RUnlock()
	for _, ev := range events {
		for _, w := range k.hub.list() {
			w.post(ev)
		}
	}
	return nil
}

// namedChanges are the events between two looks at the directory, in order.
func namedChanges(before, after map[string]kernel.NS) []kernel.Event {
	var events []kernel.Event
	for name, id := range before {
		if after[name] != id {
			events = append(events, kernel.Event{NS: id, Named: name, Deleted: true})
		}
	}
	for name, id := range after {
		if before[name] != id {
			events = append(events, kernel.Event{NS: id, Named: name})
		}
	}
	slices.SortFunc(events, func(a, b kernel.Event) int {
		if c := strings.Compare(a.Named, b.Named); c != 0 || a.Deleted == b.Deleted {
			return c
		}
		if a.Deleted {
			return -1
		}
		return 1
	})
	return events
}
