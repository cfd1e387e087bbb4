package netlink

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// unknownFor is how long an id that belongs to no open namespace is not looked
// up again while no namespace was opened.
const unknownFor = time.Second

// peerIDs remembers, for one namespace, which other namespaces its ids mean.
// The kernel shows the namespace of a link's parent as such an id, which is
// good only within the namespace that shows it.
type peerIDs struct {
	mu      sync.Mutex
	known   map[int32]kernel.NS
	unknown map[int32]lookup
	// likely are namespaces that links of this one were born into last, the newest last.
	likely []kernel.NS
	asked  int // how often the kernel was asked for an id
}

// maxLikely bounds them: each is asked for before all others.
const maxLikely = 8

// expect says that links of this namespace will have their other ends in ns.
func (p *peerIDs) expect(ns kernel.NS) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.likely, ns); i >= 0 {
		p.likely = slices.Delete(p.likely, i, i+1)
	} else if len(p.likely) == maxLikely {
		p.likely = slices.Delete(p.likely, 0, 1)
	}
	p.likely = append(p.likely, ns)
}

// lookup is when an id was looked up in vain, and how many namespaces had been
// opened by then.
type lookup struct {
	at     time.Time
	opened uint64
}

// peer is the open namespace that id means in n, 0 if none does. The caller is
// between enter and leave.
func (k *Kernel) peer(n *namespace, id int32) kernel.NS {
	p := &n.peers
	p.mu.Lock()
	defer p.mu.Unlock()
	if ns, ok := p.known[id]; ok {
		if k.isOpen(ns) {
			return ns
		}
		delete(p.known, id) // the id may mean another one by now
	}
	opened := k.opened.Load()
	if miss, ok := p.unknown[id]; ok && miss.opened == opened && time.Since(miss.at) < unknownFor {
		return 0
	}
	p.learn(k, n, id)
	ns := p.known[id]
	if ns == 0 {
		p.unknown[id] = lookup{at: time.Now(), opened: opened}
	}
	return ns
}

// learn asks for the ids of open namespaces until it finds one: first of those that are likely,
// of which the own one is, as it has an end of most cables. Where there are hundreds, and each
// has links to some, asking for all of them for each would be a thousand times as much.
func (p *peerIDs) learn(k *Kernel, n *namespace, id int32) {
	if p.known == nil {
		p.known, p.unknown = map[int32]kernel.NS{}, map[int32]lookup{}
	}
	asked := map[kernel.NS]bool{}
	for known, ns := range p.known {
		if asked[ns] = k.isOpen(ns); !asked[ns] {
			delete(p.known, known)
		}
	}
	likely := slices.Clone(p.likely)
	slices.Reverse(likely)
	for _, ns := range slices.Concat(likely, []kernel.NS{k.own}, k.InUse()) {
		if p.known[id] != 0 {
			return
		}
		if asked[ns] {
			continue
		}
		asked[ns] = true
		k.mu.RLock()
		other := k.namespaces[ns]
		k.mu.RUnlock()
		if other == nil || !other.enter() { // which is no use of it
			continue
		}
		p.asked++
		if found, ok := idOf(n, other.namespace); ok {
			p.known[found] = ns
		}
		other.leave()
	}
}

// idOf asks n for its id of another namespace; false if it has none yet.
func idOf(n, other *namespace) (int32, bool) {
	m := newMessage(unix.RTM_GETNSID, 0)
	m.b = append(m.b, 0, 0, 0, 0) // struct rtgenmsg, padded
	m.u32(unix.NETNSA_FD, uint32(other.handle))
	id := int32(unix.NETNSA_NSID_NOT_ASSIGNED)
	err := n.do(m, func(_ uint16, body []byte) {
		for typ, v := range attributes(body[min(4, len(body)):]) {
			if typ == unix.NETNSA_NSID {
				id = int32(asU32(v))
			}
		}
	})
	return id, err == nil && id >= 0
}

func (k *Kernel) isOpen(ns kernel.NS) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.namespaces[ns] != nil
}
