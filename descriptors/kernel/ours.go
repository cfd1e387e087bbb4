package kernel

import (
	"errors"
	"slices"
	"strings"
	"sync"
)

// Names tells which interface of ours a link is. The interface kind keeps it;
// the kinds that stand on interfaces read it. It is as fresh as the last
// operation or reading, and may name links that are gone. The zero value is empty.
type Names struct {
	mu    sync.RWMutex
	names map[LinkRef]string
}

// Put says that the link is the interface of that name.
func (n *Names) Put(ref LinkRef, name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.names == nil {
		n.names = map[LinkRef]string{}
	}
	n.names[ref] = name
}

// Drop forgets a link.
func (n *Names) Drop(ref LinkRef) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.names, ref)
}

// Of returns the interface that the link is.
func (n *Names) Of(ref LinkRef) (string, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	name, ok := n.names[ref]
	return name, ok
}

// OwnLink is a link that is ours, and its key.
type OwnLink struct {
	Link
	Key string
	// Adopted links were not made by us, only changed.
	Adopted bool
}

// adoptedMark precedes the host name in the ledger's mark of a link that we
// change but did not make: it has no mark of ours in the kernel.
const adoptedMark = "adopted:"

// AdoptedMark is the ledger's mark of an adopted link.
func AdoptedMark(hostName string) string { return adoptedMark + hostName }

// Adopted returns the host name of an adopted link, if the entry is of one.
func (e Entry) Adopted() (hostName string, ok bool) { return strings.CutPrefix(e.Mark, adoptedMark) }

// Find makes the namespace of an entry usable, if it is still the same one.
func (e Entry) Find(k Kernel) (NS, error) {
	if k.Alive(e.NS) {
		return e.NS, nil
	}
	if e.NSPath == "" {
		return 0, ErrNoNamespace
	}
	ns, err := k.Open(e.NSPath)
	if err != nil || ns != e.NS {
		return 0, errors.Join(ErrNoNamespace, err)
	}
	return ns, nil
}

// Places are the namespaces to search for what is ours, sorted: those that are
// open, and those that the ledger names under the prefix and that still live.
func (o *Owner) Places(k Kernel, prefix string) []NS {
	seen := map[NS]bool{}
	all := slices.Clone(k.InUse())
	for _, e := range o.Entries(prefix) {
		if e.NS == 0 || seen[e.NS] {
			continue
		}
		seen[e.NS] = true
		if ns, err := e.Find(k); err == nil {
			all = append(all, ns)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// OursAmong picks from the links of one namespace those that bear our mark and
// those that the ledger says we adopted. A mark that was cut is compared with
// the marks of the known keys.
func (o *Owner) OursAmong(ns NS, links []Link, adopted []Entry, known func(mark string) (key string)) []OwnLink {
	hosts := map[string]string{}
	for _, e := range adopted {
		if host, ok := e.Adopted(); ok && e.NS == ns {
			hosts[host] = e.ID
		}
	}
	var own []OwnLink
	for _, l := range links {
		if key, ours := o.MarkedKey(l.Alias); ours {
			if key == "" && known != nil {
				key = known(l.Alias)
			}
			if strings.HasPrefix(key, "interface/") {
				own = append(own, OwnLink{Link: l, Key: key})
			}
		}
		if key := hosts[l.Name]; key != "" {
			own = append(own, OwnLink{Link: l, Key: key, Adopted: true})
		}
	}
	return own
}
