package kerneltest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// Proxies listen, and forward nothing: there are no processes, only what is known of such. They
// belong to the kernel, so that an agent that comes finds those of the one before.
func (k *Kernel) Proxies() kernel.Proxies { return proxies{k} }

type proxies struct{ k *Kernel }

// proxy is a process that runs.
type proxy struct {
	kernel.ProxyProcess
	listen, forward kernel.ProxyEnd
	rules           kernel.ProxyRules
}

// listener is who listens at a place: a proxy, or somebody else.
type listener struct {
	end   kernel.ProxyEnd
	by    string
	of    *proxy
	inode uint64 // of the socket file
}

// socketFile is one in the file system, which is that of all namespaces. It stays when nobody
// listens at it any more.
type socketFile struct {
	inode uint64
	mode  uint32
	made  time.Time
}

// sockets are what there is of proxies and of others who listen.
type sockets struct {
	running   map[int]*proxy // by PID
	listeners []*listener
	files     map[string]socketFile
	last      uint64 // number of a process or a file
	watches   []*proxyWatch
	missed    []string // ends that nobody has heard of
}

// proxyWatch is one who waits for proxies to end.
type proxyWatch struct {
	ended []string
	wake  chan struct{} // has room for one
}

// StartProxy has one listen; see the port.
func (p proxies) StartProxy(_ context.Context, spec kernel.Proxy, record func(kernel.ProxyProcess) error) (kernel.ProxyProcess, error) {
	var made *proxy
	err := p.k.call("StartProxy", "start a proxy", func() (err error) {
		p.k.writes++
		made, err = p.k.bear(spec)
		return err
	})
	if err != nil {
		return kernel.ProxyProcess{}, err
	}
	err = record(made.ProxyProcess) // it may ask the kernel something
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	if err == nil && p.k.sockets.running[made.PID] != made {
		err = fmt.Errorf("the process ended before it was told what to do: %w", kernel.ErrNoNamespace)
	}
	if err != nil {
		p.k.endProxy(made)
		p.k.removeLeft(made.File)
	}
	return made.ProxyProcess, err
}

// bear makes a proxy, if nobody listens at its place.
func (k *Kernel) bear(spec kernel.Proxy) (*proxy, error) {
	for _, end := range []kernel.ProxyEnd{spec.Listen, spec.Forward} {
		if end.NS != 0 && !k.isOpen(end.NS) {
			return nil, fmt.Errorf("%w (or was never opened): %d", kernel.ErrNoNamespace, end.NS)
		}
	}
	if err := k.mayListen(spec.Listen, spec.Since); err != nil {
		return nil, err
	}
	t := &k.sockets
	t.last++
	p := &proxy{ProxyProcess: kernel.ProxyProcess{Mark: spec.Mark, PID: int(t.last), Start: t.last}, listen: spec.Listen, forward: spec.Forward, rules: spec.Rules}
	if path := spec.Listen.Address; isFile(spec.Listen) {
		p.File = kernel.SocketFile{Path: path, Dev: 1, Inode: k.makeFile(path, spec.Mode)}
	}
	t.running[p.PID] = p
	t.listeners = append(t.listeners, &listener{spec.Listen, fmt.Sprintf("process %d (plumb-proxy)", p.PID), p, p.File.Inode})
	return p, nil
}

func isFile(end kernel.ProxyEnd) bool { return strings.HasPrefix(end.Address, "/") }

func (k *Kernel) makeFile(path string, mode uint32) (inode uint64) {
	k.sockets.last++
	k.sockets.files[path] = socketFile{inode: k.sockets.last, mode: mode, made: time.Now()}
	return k.sockets.last
}

// mayListen says who listens already where one would. A file at which nobody does is in the way
// too, unless it was made since.
func (k *Kernel) mayListen(end kernel.ProxyEnd, since time.Time) error {
	if isFile(end) {
		f, there := k.sockets.files[end.Address]
		if !there || k.isLeft(kernel.SocketFile{Path: end.Address, Since: since}) {
			return nil
		}
		taken := &kernel.TakenError{Address: end.Address, By: "a socket file at which nobody listens any more; remove it"}
		if l := k.server(f); l != nil {
			taken.By = l.by
		}
		return taken
	}
	for _, l := range k.sockets.listeners {
		if !overlap(l.end, end) {
			continue
		}
		taken := &kernel.TakenError{Address: end.Protocol + " " + end.Address, By: l.by}
		if end.Protocol == "unix" {
			taken.Address = end.Address
		} else if l.of != nil {
			taken.Mark = l.of.Mark
		}
		return taken
	}
	if end.Protocol == "unix" {
		return nil
	}
	a, err := netip.ParseAddrPort(end.Address)
	if err != nil {
		return err
	}
	if n := k.all[end.NS]; n != nil && !n.canBind(a.Addr()) {
		return fmt.Errorf("%s is no address of the namespace, or not yet", a.Addr())
	}
	return nil
}

// server is who listens at a socket file, nil if nobody.
func (k *Kernel) server(f socketFile) *listener {
	i := slices.IndexFunc(k.sockets.listeners, func(l *listener) bool { return l.inode == f.inode })
	if i < 0 {
		return nil
	}
	return k.sockets.listeners[i]
}

// overlap reports whether nobody can listen at both of them. Who does at all addresses of IPv6
// does at those of IPv4 too.
func overlap(a, b kernel.ProxyEnd) bool {
	if a.Protocol != b.Protocol || a.NS != b.NS {
		return false
	}
	x, errX := netip.ParseAddrPort(a.Address)
	y, errY := netip.ParseAddrPort(b.Address)
	if errX != nil || errY != nil {
		return a.Address == b.Address
	}
	takes := func(all, one netip.Addr) bool { return all.IsUnspecified() && (all.Is6() || one.Is4()) }
	return x.Port() == y.Port() && (x.Addr() == y.Addr() || takes(x.Addr(), y.Addr()) || takes(y.Addr(), x.Addr()))
}

// canBind reports whether an address is one of the namespace, if only of a link that is down.
func (n *namespace) canBind(a netip.Addr) bool {
	if a.IsLoopback() && a.Is4() {
		a = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return a.IsUnspecified() || n.isLocal(a)
}

// proxy is the one that a process is; ErrNotExist when it has gone.
func (k *Kernel) proxy(p kernel.ProxyProcess) (*proxy, error) {
	if one := k.sockets.running[p.PID]; one != nil && one.Start == p.Start && one.Mark == p.Mark {
		return one, nil
	}
	return nil, fmt.Errorf("the process %w", kernel.ErrNotExist)
}

// ReadProxy tells what a process does; see the port.
func (p proxies) ReadProxy(_ context.Context, process kernel.ProxyProcess) (state kernel.ProxyState, err error) {
	err = p.k.call("ReadProxy", "ask a proxy", func() error {
		one, err := p.k.proxy(process)
		switch {
		case err == nil:
			state.Rules = one.rules
		case p.k.isLeft(process.File):
			return kernel.ErrProxyEnded
		}
		return err
	})
	return state, err
}

// SetProxy changes what a process does, and its socket file; see the port.
func (p proxies) SetProxy(_ context.Context, process kernel.ProxyProcess, r kernel.ProxyRules, mode uint32) error {
	return p.k.call("SetProxy", "change a proxy", func() error {
		p.k.writes++
		one, err := p.k.proxy(process)
		if err != nil {
			return err
		}
		one.rules = r
		if process.File.Path == "" {
			return nil
		}
		f, err := p.k.file(process.File)
		if err == nil {
			f.mode = mode
			p.k.sockets.files[process.File.Path] = f
		}
		return err
	})
}

// StopProxy ends a process and removes its file; see the port.
func (p proxies) StopProxy(_ context.Context, process kernel.ProxyProcess) error {
	return p.k.call("StopProxy", "stop a proxy", func() error {
		p.k.writes++
		if one, err := p.k.proxy(process); err == nil {
			p.k.endProxy(one)
		}
		p.k.removeLeft(process.File)
		return nil
	})
}

// endProxy ends a proxy, whose file stays.
func (k *Kernel) endProxy(p *proxy) {
	delete(k.sockets.running, p.PID)
	k.sockets.listeners = slices.DeleteFunc(k.sockets.listeners, func(l *listener) bool { return l.of == p })
}

// file is a socket file that was made, if it is there still.
func (k *Kernel) file(f kernel.SocketFile) (socketFile, error) {
	one, there := k.sockets.files[f.Path]
	switch {
	case !there:
		return one, fmt.Errorf("%s %w", f.Path, kernel.ErrNotExist)
	case one.inode != f.Inode:
		return one, fmt.Errorf("what is at %s is not ours: ours %w", f.Path, kernel.ErrNotExist)
	}
	return one, nil
}

// isLeft reports whether a socket file of ours is there that nobody serves: the one that was made,
// or as long as that is not known one that was made since.
func (k *Kernel) isLeft(f kernel.SocketFile) bool {
	one, there := k.sockets.files[f.Path]
	if !there || k.server(one) != nil {
		return false
	}
	if f.Inode == 0 {
		return !f.Since.IsZero() && !one.made.Before(f.Since)
	}
	return one.inode == f.Inode
}

func (k *Kernel) removeLeft(f kernel.SocketFile) {
	if k.isLeft(f) {
		delete(k.sockets.files, f.Path)
	}
}

// MarkedProxies are the processes that run; see the port.
func (p proxies) MarkedProxies() (list []kernel.ProxyProcess, err error) {
	err = p.k.call("MarkedProxies", "list the proxies", func() error {
		for _, pid := range slices.Sorted(maps.Keys(p.k.sockets.running)) {
			list = append(list, p.k.sockets.running[pid].ProxyProcess)
		}
		return nil
	})
	return list, err
}

// ProxyFile looks at the socket file of a process; see the port.
func (p proxies) ProxyFile(process kernel.ProxyProcess) (mode uint32, err error) {
	err = p.k.call("ProxyFile", "look at a socket file", func() error {
		f, err := p.k.file(process.File)
		mode = f.mode
		return err
	})
	return mode, err
}

// Figures are none but zeros: nobody connects.
func (p proxies) Figures(context.Context) map[string]kernel.ProxyFigures {
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	all := map[string]kernel.ProxyFigures{}
	for _, one := range p.k.sockets.running {
		all[one.Mark] = kernel.ProxyFigures{}
	}
	return all
}

// WatchProxies tells of processes that end; see the port.
func (p proxies) WatchProxies(ctx context.Context, f func(mark string)) {
	t, w := &p.k.sockets, &proxyWatch{wake: make(chan struct{}, 1)}
	p.k.mu.Lock()
	t.watches = append(t.watches, w)
	w.ended, t.missed = t.missed, nil
	w.wake <- struct{}{}
	p.k.mu.Unlock()
	defer func() {
		p.k.mu.Lock()
		defer p.k.mu.Unlock()
		t.watches = slices.DeleteFunc(t.watches, func(o *proxyWatch) bool { return o == w })
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		}
		p.k.mu.Lock()
		ended := w.ended
		w.ended = nil
		p.k.mu.Unlock()
		for _, mark := range ended {
			f(mark)
		}
	}
}

// proxyDied ends a proxy that was not told to.
func (k *Kernel) proxyDied(p *proxy) {
	k.endProxy(p)
	if len(k.sockets.watches) == 0 {
		k.sockets.missed = append(k.sockets.missed, p.Mark)
	}
	for _, w := range k.sockets.watches {
		w.ended = append(w.ended, p.Mark)
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// endProxiesOf ends the proxies of a namespace that ends.
func (k *Kernel) endProxiesOf(ns kernel.NS) {
	for _, pid := range slices.Sorted(maps.Keys(k.sockets.running)) {
		if p := k.sockets.running[pid]; p.listen.NS == ns || p.forward.NS == ns {
			k.proxyDied(p)
		}
	}
}

// Listen has somebody else listen where a proxy might, until stop is called.
func (k *Kernel) Listen(at kernel.ProxyEnd, by string) (stop func(), err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.mayListen(at, time.Time{}); err != nil {
		return nil, err
	}
	l := &listener{end: at, by: by}
	if isFile(at) {
		l.inode = k.makeFile(at.Address, 0o755)
	}
	k.sockets.listeners = append(k.sockets.listeners, l)
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.sockets.listeners = slices.DeleteFunc(k.sockets.listeners, func(o *listener) bool { return o == l })
		if f := k.sockets.files[at.Address]; f.inode == l.inode {
			delete(k.sockets.files, at.Address)
		}
	}, nil
}

// KillProxies has somebody else kill the processes with a mark.
func (k *Kernel) KillProxies(mark string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, pid := range slices.Sorted(maps.Keys(k.sockets.running)) {
		if p := k.sockets.running[pid]; p.Mark == mark {
			k.proxyDied(p)
		}
	}
}

// RemoveFile has somebody else remove a socket file, whoever listens at it.
func (k *Kernel) RemoveFile(path string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.sockets.files, path)
}

// proxiesText is what listens and forwards. There is no command that makes it.
func (k *Kernel) proxiesText() (lines []string) {
	names := map[kernel.NS]string{}
	for name, ns := range k.named() {
		names[ns] = name
	}
	words := func(end kernel.ProxyEnd) string {
		text := end.Protocol + " " + end.Address
		if name := cmp.Or(names[end.NS], fmt.Sprintf("net:[%d]", end.NS)); end.NS != 0 && end.NS != k.own {
			text += " in " + name
		}
		return text
	}
	for _, pid := range slices.Sorted(maps.Keys(k.sockets.running)) {
		p := k.sockets.running[pid]
		to := p.forward
		to.Address = p.rules.Address
		lines = append(lines, fmt.Sprintf("# %s: %s to %s", p.Mark, words(p.listen), words(to)))
	}
	slices.Sort(lines)
	return lines
}
