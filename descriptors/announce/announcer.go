package announce

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// repetitions are the delays between an announcement and the next one.
var repetitions = []time.Duration{time.Second, 2 * time.Second}

// Repetitions are sent in batches with a pause after each full one: a bridge copies each frame to
// all of its ports, and repetitions must not delay the creation of links. While more than crowd
// repetitions wait, the last one is left out.
const (
	turn  = 16
	rest  = 100 * time.Millisecond
	crowd = 64
)

// A frame for which the kernel has no buffer space is sent again after a short delay, a limited
// number of times.
const (
	retries = 8
	moment  = 50 * time.Millisecond
)

// Kernel is the part of the port that the announcer uses.
type Kernel interface {
	kernel.Announcements
	Watch(ctx context.Context, f func(kernel.Event)) error
	Addresses(ns kernel.NS, index int) ([]kernel.Address, error)
	Links(ns kernel.NS) ([]kernel.Link, error)
	LinkByIndex(ns kernel.NS, index int) (kernel.Link, error)
}

// Announcer announces the addresses of links. The first announcement of an address is sent by
// the caller; the repetitions, and the announcements that wait for a carrier, are sent by
// [Announcer.Run]. Its methods may be called from any goroutine, and on a nil Announcer,
// which announces nothing.
type Announcer struct {
	k            Kernel
	log          *slog.Logger
	sent, failed atomic.Uint64
	wake         chan struct{} // has room for one

	mu    sync.Mutex // guards the fields below
	links map[kernel.LinkRef]*link
	// queues hold scheduled repetitions in the order of time: one queue for each entry of
	// repetitions, and a last one for frames that the kernel had no buffer space for.
	queues [][]repetition
	// pausing is the earliest time of the next batch.
	pausing time.Time
	// waiting are the links with announcements that wait for a carrier.
	waiting map[kernel.LinkRef]bool
	// readdressed are links whose MAC changed; carrying are waiting links that may have a carrier
	// now; lost are namespaces whose events were lost.
	readdressed, carrying map[kernel.LinkRef]bool
	lost                  map[kernel.NS]bool
	// sending counts the announcements of an address that are being sent; idle is signalled when
	// some are complete.
	sending map[kernel.AddressRef]int
	idle    *sync.Cond
}

// link is the state of a managed link.
type link struct {
	mac  string         // the last known MAC, "" if unknown
	peer kernel.LinkRef // the peer of a veth, zero if unknown
	due  map[netip.Prefix]*announcement
}

// announcement is an address that is being announced.
type announcement struct {
	done    int // frames sent so far, including failed ones
	waiting bool
	// retried is how often the kernel had no buffer space for the next frame; retrying is set
	// while that frame is queued again.
	retried  int
	retrying bool
}

// repetition is a scheduled announcement of an address.
type repetition struct {
	at time.Time
	of kernel.AddressRef
	*announcement
}

// Figures are the counters of an announcer.
type Figures struct {
	Sent, Failed uint64
	// Waiting is the number of announcements that wait for a carrier.
	Waiting int
}

// New returns an announcer.
func New(k Kernel, log *slog.Logger) *Announcer {
	a := &Announcer{
		k: k, log: log, wake: make(chan struct{}, 1), links: map[kernel.LinkRef]*link{},
		queues: make([][]repetition, len(repetitions)+1), waiting: map[kernel.LinkRef]bool{},
		readdressed: map[kernel.LinkRef]bool{}, carrying: map[kernel.LinkRef]bool{}, lost: map[kernel.NS]bool{},
		sending: map[kernel.AddressRef]int{},
	}
	a.idle = sync.NewCond(&a.mu)
	return a
}

// Figures returns the current counters.
func (a *Announcer) Figures() Figures {
	if a == nil {
		return Figures{}
	}
	f := Figures{Sent: a.sent.Load(), Failed: a.failed.Load()}
	a.mu.Lock()
	defer a.mu.Unlock()
	for at := range a.waiting {
		for _, one := range a.links[at].due {
			if one.waiting {
				f.Waiting++
			}
		}
	}
	return f
}

// Added announces addresses that have been created.
func (a *Announcer) Added(addresses ...kernel.AddressRef) {
	if a != nil {
		a.send(a.begin(addresses))
	}
}

// Removed ends the announcement of an address that is about to be deleted. After it returns the
// address is no longer announced, so that no frame follows those of its next owner.
func (a *Announcer) Removed(at kernel.AddressRef) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drop(at)
	for a.sending[at] > 0 {
		a.idle.Wait()
	}
}

// Saw records the MAC of a link that has been read or created. If the MAC changed, the addresses
// of the link are announced asynchronously.
func (a *Announcer) Saw(l kernel.Link) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.links[l.Ref()] == nil {
		a.links[l.Ref()] = &link{}
	}
	a.note(l)
}

// SetUp announces the new addresses that links which were set up make reachable: those of the
// links, of their veth peers and of their masters, and all addresses of masters whose MAC changed.
func (a *Announcer) SetUp(links ...kernel.Link) {
	if a == nil || len(links) == 0 {
		return
	}
	fresh, masters := map[kernel.AddressRef]*announcement{}, map[kernel.LinkRef]bool{}
	a.mu.Lock()
	for _, l := range links {
		master := kernel.LinkRef{NS: l.NS, Index: l.Master}
		if a.links[master] != nil {
			masters[master] = true
		}
		for _, at := range []kernel.LinkRef{l.Ref(), peerOf(l), master} {
			if known := a.links[at]; known != nil {
				for p, one := range known.due {
					fresh[kernel.AddressRef{LinkRef: at, Prefix: p}] = one
				}
			}
		}
	}
	a.mu.Unlock()
	for at := range masters {
		if l, err := a.k.LinkByIndex(at.NS, at.Index); err == nil {
			a.Saw(l)
		}
	}
	a.announce(fresh, true)
	a.announceReaddressed()
}

// Moved announces all addresses of existing links that have another MAC or master, or are up
// again, and those of their veth peers, so that bridges on the path learn the new port.
func (a *Announcer) Moved(links ...kernel.Link) {
	if a == nil {
		return
	}
	for _, l := range links {
		a.Saw(l)
		for _, at := range []kernel.LinkRef{l.Ref(), peerOf(l)} {
			if at.Index != 0 && at.NS != 0 {
				a.announceAll(at)
			}
		}
	}
	a.SetUp(links...)
}

func peerOf(l kernel.Link) kernel.LinkRef {
	if l.Type != "veth" {
		return kernel.LinkRef{}
	}
	return kernel.LinkRef{NS: l.ParentNS, Index: l.Parent}
}

// begin starts the announcement of addresses.
func (a *Announcer) begin(addresses []kernel.AddressRef) map[kernel.AddressRef]*announcement {
	fresh := map[kernel.AddressRef]*announcement{}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, at := range addresses {
		if at.Prefix.Addr().IsLoopback() {
			continue
		}
		l := a.links[at.LinkRef]
		if l == nil {
			l = &link{}
			a.links[at.LinkRef] = l
		}
		if l.due == nil {
			l.due = map[netip.Prefix]*announcement{}
		}
		l.due[at.Prefix] = &announcement{}
		fresh[at] = l.due[at.Prefix]
	}
	return fresh
}

// announceAll announces all addresses of a link.
func (a *Announcer) announceAll(at kernel.LinkRef) {
	list, err := a.k.Addresses(at.NS, at.Index)
	if err != nil {
		return // the link has been deleted or cannot be read
	}
	var all []kernel.AddressRef
	for _, addr := range list {
		if announced(addr) {
			all = append(all, kernel.AddressRef{LinkRef: at, Prefix: addr.Prefix})
		}
	}
	a.send(a.begin(all))
}

// hostScope is the scope of addresses that are not reachable from other hosts.
const hostScope = 254

// announced reports whether an address may be announced. Addresses that duplicate address
// detection is still checking, or has found on another host, must not be announced.
func announced(a kernel.Address) bool { return a.Scope != hostScope && !a.Tentative }

// send announces addresses and schedules their repetitions.
func (a *Announcer) send(list map[kernel.AddressRef]*announcement) { a.announce(list, false) }

// announce announces addresses and schedules their repetitions. If more is set, addresses whose
// repetitions are scheduled already keep their schedule.
func (a *Announcer) announce(list map[kernel.AddressRef]*announcement, more bool) {
	in := map[kernel.NS][]kernel.AddressRef{}
	for at := range list {
		in[at.NS] = append(in[at.NS], at)
	}
	for _, ns := range slices.Sorted(maps.Keys(in)) {
		slices.SortFunc(in[ns], compare)
		some, replies := a.take(in[ns], list)
		if len(some) == 0 {
			continue
		}
		calls := make([]kernel.Announcement, len(some))
		for i, at := range some {
			calls[i] = kernel.Announcement{Index: at.Index, Address: at.Prefix.Addr(), Reply: replies[i]}
		}
		a.settle(some, list, a.k.Announce(ns, calls), more)
	}
}

// take returns the announcements that are still valid, and marks them as being sent. replies
// reports for each whether it is sent as a reply, as every second one is.
func (a *Announcer) take(all []kernel.AddressRef, list map[kernel.AddressRef]*announcement) (some []kernel.AddressRef, replies []bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, at := range all {
		if l := a.links[at.LinkRef]; l != nil && l.due[at.Prefix] == list[at] {
			some, replies = append(some, at), append(replies, list[at].done%2 == 1)
			a.sending[at]++
		}
	}
	return some, replies
}

// settle records the outcome of announcements.
func (a *Announcer) settle(some []kernel.AddressRef, list map[kernel.AddressRef]*announcement, errs []error, more bool) {
	var failed error
	var failures int
	now, early := time.Now(), false
	a.mu.Lock()
	for i, at := range some {
		l, one := a.links[at.LinkRef], list[at]
		if l == nil || l.due[at.Prefix] != one {
			continue // removed or restarted meanwhile
		}
		again := more && one.done > 0 && !one.waiting || one.retrying // already scheduled
		switch err := errs[i]; {
		case errors.Is(err, kernel.ErrDown):
			one.waiting = true
			a.waiting[at.LinkRef] = true
			continue
		case kernel.IsGone(err), errors.Is(err, kernel.ErrUnsupported):
			a.drop(at)
			continue
		case errors.Is(err, syscall.ENOBUFS) && (again || one.retried < retries):
			if one.waiting = false; again {
				continue
			}
			one.retrying, one.retried = true, one.retried+1
			early = a.enqueue(len(repetitions), repetition{now.Add(moment), at, one}) || early
			continue
		case err != nil:
			failed, failures = cmp.Or(failed, err), failures+1
			a.failed.Add(1)
		default:
			a.sent.Add(1)
		}
		repeats := more && one.done > 0 && !one.waiting
		if one.waiting = false; repeats {
			continue
		}
		if one.done == len(repetitions) || one.done > 0 && a.queued() > crowd {
			a.drop(at)
			continue
		}
		one.retrying, one.retried = false, 0
		early = a.enqueue(one.done, repetition{now.Add(repetitions[one.done]), at, one}) || early
		one.done++
	}
	for _, at := range some {
		a.calm(at.LinkRef)
		if a.sending[at]--; a.sending[at] == 0 {
			delete(a.sending, at)
		}
	}
	a.idle.Broadcast()
	a.mu.Unlock()
	if early {
		a.rouse()
	}
	if failed != nil && a.log != nil {
		a.log.Warn("addresses cannot be announced to neighbours", "addresses", failures, "error", failed)
	}
}

// enqueue reports whether the queue was empty before; a.mu is held.
func (a *Announcer) enqueue(i int, r repetition) (first bool) {
	a.queues[i] = append(a.queues[i], r)
	return len(a.queues[i]) == 1
}

// queued returns the number of scheduled repetitions; a.mu is held.
func (a *Announcer) queued() (n int) {
	for _, q := range a.queues {
		n += len(q)
	}
	return n
}

// drop ends the announcement of an address; a.mu is held.
func (a *Announcer) drop(at kernel.AddressRef) {
	if l := a.links[at.LinkRef]; l != nil {
		delete(l.due, at.Prefix)
		a.calm(at.LinkRef)
	}
}

// dropLink ends all announcements of a deleted link; a.mu is held.
func (a *Announcer) dropLink(at kernel.LinkRef) {
	delete(a.links, at)
	delete(a.waiting, at)
	delete(a.readdressed, at)
	delete(a.carrying, at)
}

// calm removes a link from a.waiting unless one of its announcements waits; a.mu is held.
func (a *Announcer) calm(at kernel.LinkRef) {
	if l := a.links[at]; l != nil {
		for _, one := range l.due {
			if one.waiting {
				return
			}
		}
	}
	delete(a.waiting, at)
}

// note updates the recorded state of a link; a.mu is held.
func (a *Announcer) note(l kernel.Link) {
	at := l.Ref()
	known := a.links[at]
	if known == nil {
		return
	}
	if peer := peerOf(l); peer.NS != 0 {
		known.peer = peer
	}
	if l.MAC != "" && known.mac != l.MAC {
		if known.mac != "" {
			a.readdressed[at] = true
			a.rouse()
		}
		known.mac = l.MAC
	}
}

func (a *Announcer) rouse() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// announceReaddressed announces the addresses of links whose MAC changed.
func (a *Announcer) announceReaddressed() {
	a.mu.Lock()
	links := slices.SortedFunc(maps.Keys(a.readdressed), compareLinks)
	clear(a.readdressed)
	a.mu.Unlock()
	for _, at := range links {
		a.announceAll(at)
	}
}

func compareLinks(a, b kernel.LinkRef) int {
	return compare(kernel.AddressRef{LinkRef: a}, kernel.AddressRef{LinkRef: b})
}
