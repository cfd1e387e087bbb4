package kernel

import (
	"errors"
	"fmt"
	"maps"
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
	// told are called when a link becomes an interface.
	told map[*func(LinkRef, string)]bool
}

// Put says that the link is the interface of that name.
func (n *Names) Put(ref LinkRef, name string) {
	n.mu.Lock()
	if n.names == nil {
		n.names = map[LinkRef]string{}
	}
	known := n.names[ref] == name
	n.names[ref] = name
	var told []*func(LinkRef, string)
	if !known {
		told = slices.Collect(maps.Keys(n.told))
	}
	n.mu.Unlock()
	for _, f := range told {
		(*f)(ref, name)
	}
}

// Renew calls the functions of Tell for a link that already is an interface, after a change of what
// others may add to it.
func (n *Names) Renew(ref LinkRef) {
	n.mu.RLock()
	name, known := n.names[ref]
	told := slices.Collect(maps.Keys(n.told))
	n.mu.RUnlock()
	for _, f := range told {
		if known {
			(*f)(ref, name)
		}
	}
}

// Tell has f called when a link becomes an interface, by whoever makes or finds it, until end
// is called. It must not wait for anything: its caller may hold a lock.
func (n *Names) Tell(f func(ref LinkRef, name string)) (end func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.told == nil {
		n.told = map[*func(LinkRef, string)]bool{}
	}
	n.told[&f] = true
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.told, &f)
	}
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

// adoptedMark stands in the ledger for a link that we change but did not make:
// it has no mark of ours in the kernel and is known by its index.
const adoptedMark = "adopted"

// Adopt makes the entry one of an adopted link.
func (e Entry) Adopt(l Link) Entry {
	e.Mark, e.Index = adoptedMark, l.Index
	return e
}

// Adopted reports whether the entry is of an adopted link.
func (e Entry) Adopted() bool { return e.Mark == adoptedMark }

// Find makes the namespace of an entry usable, if it is still the same one. Its
// error is ErrNoNamespace when it is not; any other says that nobody can tell.
func (e Entry) Find(k Kernel) (NS, error) {
	if k.Alive(e.NS) {
		return e.NS, nil
	}
	if e.NSPath == "" {
		return 0, ErrNoNamespace
	}
	ns, err := k.Open(e.NSPath)
	switch {
	case errors.Is(err, ErrNotNamespace), errors.Is(err, ErrNotExist), err == nil && ns != e.NS:
		return 0, errors.Join(ErrNoNamespace, err)
	case err != nil:
		return 0, err
	}
	return ns, nil
}

// Places are the namespaces to search for what is ours, sorted: those that are
// open, and those that the ledger names under the prefix and that still live. Of
// those that failed nobody can tell.
func (o *Owner) Places(k Kernel, prefix string) (all []NS, failed map[NS]error) {
	seen := map[NS]bool{}
	all, failed = slices.Clone(k.InUse()), map[NS]error{}
	for _, e := range o.Entries(prefix) {
		if e.NS == 0 || seen[e.NS] {
			continue
		}
		seen[e.NS] = true
		ns, err := e.Find(k)
		switch {
		case err == nil:
			all = append(all, ns)
		case !errors.Is(err, ErrNoNamespace):
			failed[e.NS] = err
		}
	}
	slices.Sort(all)
	return slices.Compact(all), failed
}

// LinkName is the logical name of a link, or one that no interface can have.
func (o *Owner) LinkName(k Kernel, names *Names, ref LinkRef) string {
	if name, ok := o.NameOf(k, names, ref); ok {
		return name
	}
	return fmt.Sprintf("?%d", ref.Index)
}

// NameOf tells which interface of ours a link is, also before names are known:
// then by the ledger, or by its mark.
func (o *Owner) NameOf(k Kernel, names *Names, ref LinkRef) (string, bool) {
	if name, ok := names.Of(ref); ok {
		return name, true
	}
	l, err := k.LinkByIndex(ref.NS, ref.Index)
	if err != nil {
		return "", false
	}
	key, _ := o.LinkKey(l)
	return strings.CutPrefix(key, interfaces)
}

// interfaces holds the keys of links.
const interfaces = "interface/"
