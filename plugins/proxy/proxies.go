package proxy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// Namespaces runs what must be done in a namespace; see netlink.Kernel.
type Namespaces interface {
	// Within runs work on a thread of the namespace; writes is how many changes of
	// the kernel it is counted as.
	Within(ns kernel.NS, writes int, work func() error) error
}

// Options say where the files are.
type Options struct {
	// Dir is for the sockets by which processes are asked; it is root's alone.
	Dir string
	// FilesDir is made if a socket file is to be in it; "": none is made.
	FilesDir string
}

// Proxies are the processes that forward on this host.
type Proxies struct {
	namespaces Namespaces
	opts       Options

	mu       sync.Mutex
	held     map[string]*held // by mark
	watchers map[int]func(mark string)
	next     int
	missed   []string // ends that nobody has heard of
}

var _ kernel.Proxies = (*Proxies)(nil)

// New makes the port.
func New(n Namespaces, o Options) *Proxies {
	return &Proxies{namespaces: n, opts: o, held: map[string]*held{}, watchers: map[int]func(string){}}
}

// Close lets go of the processes, which go on.
func (p *Proxies) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for mark, h := range p.held {
		delete(p.held, mark)
		h.process.Close()
	}
}

// controlOf is where a process is asked, by its mark.
func (p *Proxies) controlOf(mark string) string {
	sum := sha256.Sum256([]byte(mark))
	return filepath.Join(p.opts.Dir, hex.EncodeToString(sum[:12]))
}

// hold follows a process to its end. ErrNotExist if it has gone.
func (p *Proxies) hold(process kernel.ProxyProcess) (*held, error) { return p.follow(process, false) }

func (p *Proxies) follow(process kernel.ProxyProcess, newborn bool) (*held, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h := p.held[process.Mark]; h != nil && h.PID == process.PID && h.Start == process.Start && h.process.Alive() {
		return h, nil
	}
	pidfd, err := open(process, newborn)
	if err != nil {
		return nil, err
	}
	if h := p.held[process.Mark]; h != nil && !h.process.Alive() {
		h.told = true // who asked finds out now
	}
	h := &held{ProxyProcess: process, process: pidfd, done: make(chan struct{})}
	p.held[process.Mark] = h
	pidfd.OnEnd(func() { p.ended(h) })
	return h, nil
}

// ended is called when a process has ended.
func (p *Proxies) ended(h *held) {
	_, _ = unix.Wait4(h.PID, nil, unix.WNOHANG, nil) // another's child is not ours to bury
	p.mu.Lock()
	if p.held[h.Mark] == h {
		delete(p.held, h.Mark)
	}
	h.process.Close()
	var tell []func(string)
	switch {
	case h.told:
	case len(p.watchers) == 0:
		p.missed = append(p.missed, h.Mark)
	default:
		for _, f := range p.watchers {
			tell = append(tell, f)
		}
	}
	p.mu.Unlock()
	close(h.done)
	for _, f := range tell {
		f(h.Mark)
	}
}

// WatchProxies tells of processes that end; see the port.
func (p *Proxies) WatchProxies(ctx context.Context, f func(mark string)) {
	p.mu.Lock()
	id := p.next
	p.next++
	p.watchers[id] = f
	missed := p.missed
	p.missed = nil
	p.mu.Unlock()
	for _, mark := range missed {
		f(mark)
	}
	<-ctx.Done()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.watchers, id)
}

// ReadProxy asks a process what it does; see the port.
func (p *Proxies) ReadProxy(ctx context.Context, process kernel.ProxyProcess) (kernel.ProxyState, error) {
	_, err := p.hold(process)
	if errors.Is(err, kernel.ErrNotExist) {
		if isLeft(process.File) {
			return kernel.ProxyState{}, kernel.ErrProxyEnded
		}
		return kernel.ProxyState{}, fmt.Errorf("the process %w", kernel.ErrNotExist)
	}
	if err != nil {
		return kernel.ProxyState{}, err
	}
	a, err := ask(ctx, process, request{})
	return a.State, err
}

// SetProxy changes what a process does; see the port.
func (p *Proxies) SetProxy(ctx context.Context, process kernel.ProxyProcess, r kernel.ProxyRules, mode uint32) error {
	if _, err := p.hold(process); err != nil {
		return err
	}
	if _, err := ask(ctx, process, request{Set: &r}); err != nil {
		return err
	}
	if process.File.Path == "" {
		return nil
	}
	return onFile(process.File, func(short string) error { return os.Chmod(short, os.FileMode(mode)) })
}

// StopProxy ends a process and removes its files; see the port.
func (p *Proxies) StopProxy(ctx context.Context, process kernel.ProxyProcess) error {
	h, err := p.hold(process)
	if err == nil {
		err = p.end(ctx, h)
	}
	if err != nil && !errors.Is(err, kernel.ErrNotExist) {
		return err
	}
	if process.Control == "" {
		process.Control = p.controlOf(process.Mark)
	}
	return p.removeFiles(process)
}

// removeFiles removes the files of a process that does not run.
func (p *Proxies) removeFiles(process kernel.ProxyProcess) error {
	errs := []error{removed(os.Remove(process.Control))}
	if isLeft(process.File) {
		errs = append(errs, removed(os.Remove(process.File.Path)))
	}
	return errors.Join(errs...)
}

func removed(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// isLeft reports whether a socket file of ours is there that nobody serves.
func isLeft(f kernel.SocketFile) bool {
	if f.Path == "" {
		return false
	}
	if f.Inode == 0 {
		return leftover(f.Path, f.Since)
	}
	return isFile(f) == nil && dead(f.Path)
}

// isFile reports whether a socket file is still the one that was made.
func isFile(f kernel.SocketFile) error {
	return onFile(f, func(string) error { return nil })
}

// onFile calls act with a path to the socket file that was made, whatever has its name
// meanwhile.
func onFile(f kernel.SocketFile, act func(short string) error) error {
	fd, err := unix.Open(f.Path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return fmt.Errorf("%s %w", f.Path, kernel.ErrNotExist)
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", f.Path, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK || st.Dev != f.Dev || st.Ino != f.Inode {
		return fmt.Errorf("what is at %s is not ours: ours %w", f.Path, kernel.ErrNotExist)
	}
	return act(fmt.Sprintf("/proc/self/fd/%d", fd))
}

// ProxyFile looks at the socket file of a process; see the port.
func (p *Proxies) ProxyFile(process kernel.ProxyProcess) (mode uint32, err error) {
	err = onFile(process.File, func(short string) error {
		info, err := os.Stat(short)
		if err == nil {
			mode = uint32(info.Mode().Perm())
		}
		return err
	})
	return mode, err
}

// MarkedProxies are the processes that bear a mark; see the port.
func (p *Proxies) MarkedProxies() (list []kernel.ProxyProcess, err error) {
	for _, process := range marked() {
		// What it made it knows itself.
		if a, err := ask(context.Background(), process, request{}); err == nil {
			process.File = a.File
		}
		list = append(list, process)
	}
	return list, nil
}
