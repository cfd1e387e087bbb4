package cni

import (
	"maps"
	"slices"
	"sync"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// podIndex tells which pods a change concerns, and which keys the intent has for a pod: neither is known by
// the keys. The zero value is ready. Its methods may be called from any goroutine.
type podIndex struct {
	mu sync.Mutex // guards what follows
	// interfaces are those in pods, by their logical names.
	interfaces map[string]placed
	// peers are the interfaces in pods of which an interface is the other end. Of a valid intent it is one.
	peers map[string]map[string]bool
	// names are the interfaces in a pod.
	names map[string]map[string]bool
	// through are the routes through an interface, and ways the interfaces of a route.
	through map[string]map[scheduler.Key]bool
	ways    map[scheduler.Key][]string
}

// placed is an interface in a pod.
type placed struct{ pod, peer string }

// concerned takes changes from a watcher, and returns the keys of the pods in which something has changed.
func (p *podIndex) concerned(changes []scheduler.Status) (keys []scheduler.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var pods []string
	for _, st := range changes {
		switch st.Kind {
		case models.KindInterface:
			v, _ := st.Desired.(*models.Interface) // nil: nobody wants it any more
			pods = append(pods, p.moved(nameOf(st.Key), placed{v.GetNamespace().GetPod(), v.GetVeth().GetPeer()})...)
		case models.KindRoute:
			v, _ := st.Desired.(*models.Route)
			pods = append(pods, p.routed(st.Key, v)...)
		}
	}
	slices.Sort(pods)
	for _, pod := range slices.Compact(pods) {
		if pod != "" {
			keys = append(keys, podKey(pod))
		}
	}
	return keys
}

// moved notes where an interface is wanted now, and returns the pods that it was in and is in, and that of the
// other end of its cable.
func (p *podIndex) moved(name string, now placed) []string {
	was := p.interfaces[name]
	if was.pod != "" {
		delete(p.interfaces, name)
		remove(p.peers, was.peer, name)
		remove(p.names, was.pod, name)
	}
	if now.pod != "" {
		put(&p.interfaces, name, now)
		insert(&p.names, now.pod, name)
		if now.peer != "" {
			insert(&p.peers, now.peer, name)
		}
	}
	pods := []string{was.pod, now.pod}
	for end := range p.peers[name] {
		pods = append(pods, p.interfaces[end].pod)
	}
	return pods
}

// routed notes the interfaces of a route, and returns the pods that these were in and are in.
func (p *podIndex) routed(k scheduler.Key, v *models.Route) (pods []string) {
	for _, name := range p.ways[k] {
		remove(p.through, name, k)
		pods = append(pods, p.interfaces[name].pod)
	}
	delete(p.ways, k)
	if v == nil {
		return pods
	}
	if ways := v.Interfaces(); len(ways) > 0 {
		put(&p.ways, k, ways)
		for _, name := range ways {
			insert(&p.through, name, k)
			pods = append(pods, p.interfaces[name].pod)
		}
	}
	return pods
}

// keys returns the keys of the interfaces in a pod, of the other ends of their cables, and of the routes through
// them. The pod has several names.
func (p *podIndex) keys(pods []string) []scheduler.Key {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[scheduler.Key]bool{}
	for _, pod := range pods {
		for name := range p.names[pod] {
			all[scheduler.Key(models.InterfaceKey(name))] = true
			if peer := p.interfaces[name].peer; peer != "" {
				all[scheduler.Key(models.InterfaceKey(peer))] = true
			}
			maps.Copy(all, p.through[name])
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func put[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[k] = v
}

func insert[K, E comparable](m *map[K]map[E]bool, k K, e E) {
	if (*m)[k] == nil {
		put(m, k, map[E]bool{})
	}
	(*m)[k][e] = true
}

func remove[K, E comparable](m map[K]map[E]bool, k K, e E) {
	if delete(m[k], e); len(m[k]) == 0 {
		delete(m, k)
	}
}
