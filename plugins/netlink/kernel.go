package netlink

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/vishvananda/netns"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/openfiles"
)

// Options of a Kernel. The zero value serves an agent in its own namespace.
type Options struct {
	// OwnPath is the namespace file of [Kernel.Own], by default that of this
	// process.
	OwnPath string
	// NamedDir is where named namespaces are, by default /run/netns.
	NamedDir string
	// ReceiveBuffer of every event socket in bytes, by default 32 MiB; memory
	// is used only while events wait in it.
	ReceiveBuffer int
	// Random gives group numbers for bulk deletions, by default from the
	// system's source.
	Random func() uint32
}

func (o *Options) setDefaults() {
	if o.OwnPath == "" {
		o.OwnPath = selfPath
	}
	if o.NamedDir == "" {
		o.NamedDir = "/run/netns"
	}
	if o.ReceiveBuffer == 0 {
		o.ReceiveBuffer = 32 << 20
	}
	if o.Random == nil {
		o.Random = func() uint32 {
			var b [4]byte
			_, _ = rand.Read(b[:]) // never fails
			return binary.NativeEndian.Uint32(b[:])
		}
	}
}

// Kernel is the kernel port on this host. Make it with [New], end it with
// [Kernel.Close].
type Kernel struct {
	opts   Options
	home   netns.NsHandle // to which threads return
	own    kernel.NS
	pool   *sync.Pool
	writes atomic.Uint64
	// namesMakers: addresses say who made them.
	namesMakers bool
	hub         *hub
	paths       *pathWatch
	calm        *idleConns
	packets     packetSockets
	actors      actors

	counted allowance

	// newcomers tells that a namespace was opened; see [Kernel.Opened].
	newcomers chan struct{}
	// opened counts namespaces that were opened, so that what was not to be
	// found among them is looked for again.
	opened atomic.Uint64

	mu         sync.RWMutex // guards what follows
	closed     bool
	namespaces map[kernel.NS]*entry

	namesMu sync.Mutex           // taken before mu; guards what follows
	named   map[string]kernel.NS // as last seen in NamedDir
}

// entry is an open namespace with those by whom it was opened.
type entry struct {
	*namespace
	holders []*holder
	tables  bool // they are watched
}

var _ kernel.Kernel = (*Kernel)(nil)

// New opens the own namespace and starts to watch the paths of others.
func New(opts Options) (*Kernel, error) {
	opts.setDefaults()
	home, err := netns.GetFromPath(selfPath)
	if err != nil {
		return nil, fmt.Errorf("open the namespace of this process: %w", err)
	}
	k := &Kernel{
		opts: opts,
		home: home,
		pool: &sync.Pool{New: func() any { return new([bufferSize]byte) }},
		calm: &idleConns{},

		namesMakers: namesMakers(),
		namespaces:  map[kernel.NS]*entry{},
		newcomers:   make(chan struct{}, 1),
	}
	if k.hub, err = newHub(k); err != nil {
		home.Close()
		return nil, openfiles.Explain(err)
	}
	_ = k.lookAtNames() // the watch of paths looks again, until it is read
	if k.paths, err = watchPaths(k.opts.NamedDir, func() error { k.endPaths(); return k.lookAtNames() }); err != nil {
		k.hub.close()
		home.Close()
		return nil, openfiles.Explain(err)
	}
	if k.own, err = k.openOwn(opts.OwnPath); err != nil {
		k.Close()
		return nil, fmt.Errorf("open own namespace: %w", err)
	}
	return k, nil
}

// Close releases all handles and ends every Watch.
func (k *Kernel) Close() error {
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return nil
	}
	k.closed = true
	for _, w := range k.hub.list() {
		w.stop(ErrClosed)
	}
	for id, e := range k.namespaces {
		k.drop(id, e)
	}
	k.mu.Unlock()
	k.hub.close()
	k.paths.close()
	k.packets.wait()
	k.home.Close()
	return nil
}

// Own is the agent's own namespace.
func (k *Kernel) Own() kernel.NS { return k.own }

// Alive reports whether a namespace is open and what it was opened by is there.
func (k *Kernel) Alive(ns kernel.NS) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	e := k.namespaces[ns]
	if e == nil || !slices.ContainsFunc(e.holders, (*holder).alive) {
		return false
	}
	e.touched.Store(true) // who asks is about to use it
	return true
}

// InUse are the open namespaces in order.
func (k *Kernel) InUse() []kernel.NS {
	k.mu.RLock()
	defer k.mu.RUnlock()
	list := make([]kernel.NS, 0, len(k.namespaces))
	for id := range k.namespaces {
		list = append(list, id)
	}
	slices.Sort(list)
	return list
}

// Writes counts the requests to the kernel, in all namespaces, that may have
// changed something: all but dumps and gets, whether they succeeded or not.
func (k *Kernel) Writes() uint64 { return k.writes.Load() }

// WritesIn counts those of one namespace since it was opened.
func (k *Kernel) WritesIn(ns kernel.NS) uint64 {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if e := k.namespaces[ns]; e != nil {
		return e.writes.here.Load()
	}
	return 0
}

// enter looks a namespace up and keeps it open until leave is called on it.
func (k *Kernel) enter(ns kernel.NS) (*namespace, error) {
	k.mu.RLock()
	e := k.namespaces[ns]
	closed := k.closed
	k.mu.RUnlock()
	if closed {
		return nil, ErrClosed
	}
	if e == nil || !e.enter() {
		return nil, fmt.Errorf("%w (or was never opened): %d", kernel.ErrNoNamespace, ns)
	}
	e.touched.Store(true)
	return e.namespace, nil
}

// in runs f in a namespace and says in its error what was to be done.
func (k *Kernel) in(ns kernel.NS, act string, f func(n *namespace) error) error {
	n, err := k.enter(ns)
	if err == nil {
		err = f(n)
		n.leave()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", act, openfiles.Explain(err))
	}
	return nil
}

// inMany runs f in a namespace for many things at once. f notes the error of each in errs, and
// here is said in it what was to be done.
func (k *Kernel) inMany(ns kernel.NS, errs []error, act func(i int) string, f func(n *namespace)) {
	n, err := k.enter(ns)
	if err == nil {
		f(n)
		n.leave()
	}
	for i := range errs {
		if errs[i] = cmp.Or(errs[i], err); errs[i] != nil {
			errs[i] = fmt.Errorf("%s: %w", act(i), openfiles.Explain(errs[i]))
		}
	}
}

// Within runs work on a thread that is in the namespace, as are the processes that
// it starts; writes is how many requests it is counted as.
func (k *Kernel) Within(ns kernel.NS, writes int, work func() error) error {
	n, err := k.enter(ns)
	if err != nil {
		return err
	}
	defer n.leave()
	n.writes.add(writes)
	return n.within(work)
}

// drop closes a namespace and tells the watchers. k.mu is held.
func (k *Kernel) drop(id kernel.NS, e *entry) {
	delete(k.namespaces, id)
	k.hub.forgetAll(id)
	for _, w := range k.hub.list() {
		w.post(kernel.Event{NS: id, Gone: true})
	}
	for _, h := range e.holders {
		h.close()
	}
	e.close()
}

// Watch calls f for every change until ctx ends; see the port.
func (k *Kernel) Watch(ctx context.Context, f func(kernel.Event)) error {
	w := newWatcher(k.opts.ReceiveBuffer)
	if err := k.join(w); err != nil {
		return fmt.Errorf("watch the kernel: %w", openfiles.Explain(err))
	}
	defer k.part(w)
	defer context.AfterFunc(ctx, func() { w.stop(nil) })()
	f(kernel.Event{Ready: true})
	return w.run(f)
}

// join gives a watcher the events of all open namespaces and of those to come. The
// first one has the sockets opened.
func (k *Kernel) join(w *watcher) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return ErrClosed
	}
	before := k.hub.list()
	if len(before) == 0 {
		for _, e := range k.namespaces {
			if err := k.hub.addAll(e); err != nil {
				k.closeSockets()
				return err
			}
		}
	}
	now := append(slices.Clone(before), w)
	k.hub.watchers.Store(&now)
	return nil
}

// part takes a watcher out; the last one has the sockets closed.
func (k *Kernel) part(w *watcher) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := slices.DeleteFunc(slices.Clone(k.hub.list()), func(other *watcher) bool { return other == w })
	k.hub.watchers.Store(&now)
	if len(now) == 0 {
		k.closeSockets()
	}
}

func (k *Kernel) closeSockets() {
	for id := range k.namespaces {
		k.hub.forgetAll(id)
	}
}
