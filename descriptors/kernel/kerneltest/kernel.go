package kerneltest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// Options of a Kernel. The zero value works.
type Options struct {
	// NamedDir is where named namespaces seem to be, by default /run/netns. Nothing is
	// there on disk.
	NamedDir string
	// Queue is how many events wait for one who watches before those that follow are lost,
	// by default 32768.
	Queue int
	// Fallbacks has tunnels bring what Linux puts into every namespace with the first one of a
	// type, such as gre0, unless its setting net.core.fb_tunnels_only_for_init_net says no.
	Fallbacks bool
	// Announced is called for each announcement that is sent, with the MAC of the link. It
	// must not call the kernel. Nil: nobody listens.
	Announced func(ns kernel.NS, a kernel.Announcement, mac string)
}

// Kernel is a kernel in memory. All of it may be used from any goroutine.
type Kernel struct {
	opts Options
	own  kernel.NS

	mu       sync.Mutex // guards what follows
	all      map[kernel.NS]*namespace
	paths    map[string]kernel.NS // what can be opened
	lastNS   kernel.NS
	lastMAC  uint32
	writes   uint64
	watchers []*watcher
	faults   []*fault
	opened   chan struct{}
	sockets  sockets
	loaded   []string // the types of tunnels that there was one of
}

// namespace is a network namespace.
type namespace struct {
	id kernel.NS
	// paths lead to it; it ends with the last one. holders are those by which it was
	// opened; it is closed with the last one.
	paths, holders map[string]bool

	lastIndex int
	links     map[int]*link
	names     map[string]*link // alternative ones too
	routes    table
	rules     []kernel.Rule
	nexthops  map[uint32]*kernel.Nexthop
	settings  map[string]string
	// hadIPv4: it has, or had, an address. Before that Linux takes no gateway for one.
	hadIPv4 bool
	tables  map[tableID]kernel.Table
	// firewalls are by the program that makes them.
	firewalls map[string]*kernel.Firewall
	flows     []kernel.Flow
	// generation counts the changes of tables, and of what iptables keeps in such.
	generation  uint32
	tellsTables bool
	// local are the links that have an address, in the order in which they got it.
	local map[netip.Addr][]*link
}

var _ kernel.Kernel = (*Kernel)(nil)

// ownPath is that of the own namespace.
const ownPath = "/proc/self/ns/net"

// New makes a kernel with one namespace, in which there is a loopback.
func New(opts Options) *Kernel {
	opts.NamedDir = cmp.Or(opts.NamedDir, "/run/netns")
	opts.Queue = cmp.Or(opts.Queue, 32<<10)
	k := &Kernel{
		opts: opts, all: map[kernel.NS]*namespace{}, paths: map[string]kernel.NS{},
		lastNS: 0xf0000000, opened: make(chan struct{}, 1),
		sockets: sockets{running: map[int]*proxy{}, files: map[string]socketFile{}},
	}
	k.own = k.newNamespace(ownPath).id
	k.all[k.own].holders[ownPath] = true
	return k
}

// newNamespace makes a namespace behind a path.
func (k *Kernel) newNamespace(at string) *namespace {
	k.lastNS++
	n := &namespace{
		id: k.lastNS, paths: map[string]bool{at: true}, holders: map[string]bool{},
		links: map[int]*link{}, names: map[string]*link{}, nexthops: map[uint32]*kernel.Nexthop{}, local: map[netip.Addr][]*link{},
		settings: map[string]string{}, rules: slices.Clone(firstRules), tables: map[tableID]kernel.Table{}, firewalls: map[string]*kernel.Firewall{}, generation: 1,
	}
	k.all[n.id], k.paths[at] = n, n.id
	k.addLoopback(n)
	for _, kind := range k.loaded {
		k.addFallback(n, kind)
	}
	return n
}

// Own is the agent's own namespace.
func (k *Kernel) Own() kernel.NS { return k.own }

// Start makes a namespace as that of a process: Open finds it at /proc/<pid>/ns/net. End ends
// the process, and the namespace if it has no name.
func (k *Kernel) Start(pid int) kernel.NS {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.newNamespace(processPath(pid)).id
}

// End ends the process of a namespace that Start made.
func (k *Kernel) End(pid int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.removePath(processPath(pid))
}

func processPath(pid int) string { return fmt.Sprintf("/proc/%d/ns/net", pid) }

// Open makes the namespace behind a path usable.
func (k *Kernel) Open(at string) (ns kernel.NS, err error) {
	err = k.call("Open", "open network namespace "+at, func() error {
		n := k.all[k.paths[path.Clean(at)]]
		if n == nil {
			return fmt.Errorf("%w: %w", kernel.ErrNoNamespace, refused(syscall.ENOENT))
		}
		k.hold(n, path.Clean(at))
		ns = n.id
		return nil
	})
	return ns, err
}

// Behind is the namespace behind a path.
func (k *Kernel) Behind(at string) kernel.NS {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.paths[path.Clean(at)]
}

// Cookie is the number of the namespace, which is given once.
func (k *Kernel) Cookie(ns kernel.NS) uint64 {
	if !k.Alive(ns) {
		return 0
	}
	return uint64(ns)
}

// Started tells when the process of a namespace started: later ones have later namespaces.
func (k *Kernel) Started(pid int) (uint64, error) {
	if ns := k.Behind(processPath(pid)); ns != 0 {
		return uint64(ns), nil
	}
	return 0, fmt.Errorf("process %d: %w", pid, syscall.ESRCH)
}

// hold opens a namespace, or gives it one more who holds it open.
func (k *Kernel) hold(n *namespace, at string) {
	isNew := len(n.holders) == 0
	n.holders[at] = true
	if isNew {
		n.tellsTables = false // that ended when it was closed
		select {
		case k.opened <- struct{}{}:
		default:
		}
	}
}

// Alive reports whether a namespace is open.
func (k *Kernel) Alive(ns kernel.NS) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.isOpen(ns)
}

func (k *Kernel) isOpen(ns kernel.NS) bool {
	n := k.all[ns]
	return n != nil && len(n.holders) > 0
}

// InUse are the open namespaces in order.
func (k *Kernel) InUse() (list []kernel.NS) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for ns := range k.all {
		if k.isOpen(ns) {
			list = append(list, ns)
		}
	}
	slices.Sort(list)
	return list
}

// Opened yields a value after a namespace was opened, one for many.
func (k *Kernel) Opened() <-chan struct{} { return k.opened }

// CloseUnused closes the namespaces that nobody uses; the own one stays.
func (k *Kernel) CloseUnused(used func(kernel.NS) bool) (left int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for ns, n := range k.all {
		if ns != k.own && len(n.holders) > 0 && !used(ns) {
			clear(n.holders)
			k.post(kernel.Event{NS: ns, Gone: true})
		}
	}
	return 0
}

// CreateNamed makes a namespace with a name.
func (k *Kernel) CreateNamed(name string) (ns kernel.NS, err error) {
	err = k.call("CreateNamed", fmt.Sprintf("create network namespace %q", name), func() error {
		k.writes++
		at, err := k.namedPath(name)
		if err != nil {
			return err
		}
		if k.paths[at] != 0 {
			return refused(syscall.EEXIST)
		}
		n := k.newNamespace(at)
		k.hold(n, at)
		ns = n.id
		k.post(kernel.Event{NS: ns, Named: name})
		return nil
	})
	return ns, err
}

// DeleteNamed removes a name, and with it the namespace unless processes still live in it.
func (k *Kernel) DeleteNamed(name string) error {
	return k.call("DeleteNamed", fmt.Sprintf("delete network namespace %q", name), func() error {
		k.writes++
		at, err := k.namedPath(name)
		if err != nil {
			return err
		}
		ns := k.paths[at]
		if ns == 0 {
			return refused(syscall.ENOENT)
		}
		k.removePath(at)
		k.post(kernel.Event{NS: ns, Named: name, Deleted: true})
		return nil
	})
}

func (k *Kernel) namedPath(name string) (string, error) {
	if name == "" || name == "." || name == ".." || len(name) > 255 || strings.ContainsAny(name, "/\x00") {
		return "", fmt.Errorf("not a name for a namespace: %w", syscall.EINVAL)
	}
	return path.Join(k.opts.NamedDir, name), nil
}

// ListNamed are the named namespaces.
func (k *Kernel) ListNamed() (names map[string]kernel.NS, err error) {
	err = k.call("ListNamed", "list network namespaces", func() error {
		names = k.named()
		return nil
	})
	return names, err
}

// removePath takes one way to a namespace away. Without any it ends, and without one by which
// it was opened it is closed.
func (k *Kernel) removePath(at string) {
	n := k.all[k.paths[at]]
	if n == nil {
		return
	}
	wasOpen := len(n.holders) > 0
	delete(k.paths, at)
	delete(n.paths, at)
	delete(n.holders, at)
	if wasOpen && len(n.holders) == 0 {
		k.post(kernel.Event{NS: n.id, Gone: true})
	}
	if len(n.paths) > 0 {
		return
	}
	for _, l := range n.sorted() {
		k.unregister(l)
	}
	k.endProxiesOf(n.id)
	delete(k.all, n.id)
}

// Writes counts the calls that may have changed something, whether they did or not.
func (k *Kernel) Writes() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.writes
}

// Who knows nobody: there are no processes.
func (k *Kernel) Who(kernel.NS, kernel.Actor) string { return "" }

// call runs one call of the port, unless it is to fail.
func (k *Kernel) call(name, act string, f func() error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	err := k.fails(name)
	if err == nil {
		err = f()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", act, err)
	}
	return nil
}

// in runs one call in an open namespace.
func (k *Kernel) in(ns kernel.NS, name, act string, f func(n *namespace) error) error {
	return k.call(name, act, func() error {
		if !k.isOpen(ns) {
			return fmt.Errorf("%w (or was never opened): %d", kernel.ErrNoNamespace, ns)
		}
		return f(k.all[ns])
	})
}

// write is in, for a call that changes something.
func (k *Kernel) write(ns kernel.NS, name, act string, f func(n *namespace) error) error {
	return k.in(ns, name, act, func(n *namespace) error {
		k.writes++
		return f(n)
	})
}

// refused is an error as the kernel answers it, with the sentinel of the port.
func refused(errno syscall.Errno) error {
	for sentinel, all := range map[error][]syscall.Errno{
		kernel.ErrExist:       {syscall.EEXIST},
		kernel.ErrNotExist:    {syscall.ENODEV, syscall.ENOENT, syscall.ESRCH, syscall.EADDRNOTAVAIL, syscall.ENXIO},
		kernel.ErrDown:        {syscall.ENETDOWN},
		kernel.ErrUnsupported: {syscall.EOPNOTSUPP, syscall.EAFNOSUPPORT, syscall.EPROTONOSUPPORT},
	} {
		if slices.Contains(all, errno) {
			return fmt.Errorf("%w: %w", sentinel, errno)
		}
	}
	return errno
}

// fault is a call that is to fail.
type fault struct {
	call string
	nth  int
	err  error
}

// Fail has a call fail that is still to come: of those of a method of the port, such as
// "AddAddress", the nth from now on. It then does nothing.
func (k *Kernel) Fail(method string, nth int, errno syscall.Errno) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.faults = append(k.faults, &fault{method, nth, refused(errno)})
}

// fails is the error of a call that is to fail.
func (k *Kernel) fails(call string) (err error) {
	k.faults = slices.DeleteFunc(k.faults, func(f *fault) bool {
		if f.call != call {
			return false
		}
		f.nth--
		if f.nth == 0 {
			err = errors.Join(err, f.err)
		}
		return f.nth <= 0
	})
	return err
}

// sorted are the links in the order of their indexes.
func (n *namespace) sorted() (list []*link) {
	for _, index := range slices.Sorted(maps.Keys(n.links)) {
		list = append(list, n.links[index])
	}
	return list
}

// String is all that there is, as commands: what [Text] tells, and what there is of
// nftables, of iptables and of proxies.
func (k *Kernel) String() string {
	text, err := Text(k)
	if err != nil {
		return err.Error()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	var b strings.Builder
	b.WriteString(text)
	write := func(at string, ns kernel.NS) {
		for _, line := range slices.Concat(k.all[ns].tablesText(), k.all[ns].firewallsText()) {
			b.WriteString(at + line + "\n")
		}
	}
	write("", k.own)
	named := k.named()
	for _, name := range slices.Sorted(maps.Keys(named)) {
		write("ip netns exec "+name+" ", named[name])
	}
	for _, line := range k.proxiesText() {
		b.WriteString(line + "\n")
	}
	return b.String()
}

// named are the namespaces with a name.
func (k *Kernel) named() map[string]kernel.NS {
	names := map[string]kernel.NS{}
	for at, ns := range k.paths {
		if path.Dir(at) == k.opts.NamedDir {
			names[path.Base(at)] = ns
		}
	}
	return names
}
