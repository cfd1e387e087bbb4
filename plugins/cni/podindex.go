package cni

import (
	"slices"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// podIndex tells which pods a change concerns: what is wanted in them is not known by
// its keys. The zero value is ready.
type podIndex struct {
	pods  map[string]string // the pod that an interface is in, by its logical name
	peers map[string]string // the pod that the other end of its cable is in
}

// concerned takes what a watcher tells, and returns the keys of the pods in which
// something has changed.
func (p *podIndex) concerned(changes []scheduler.Status) (keys []scheduler.Key) {
	var pods []string
	for _, st := range changes {
		switch v := st.Desired.(type) {
		case *models.Route:
			for _, name := range v.Interfaces() {
				pods = append(pods, p.pods[name])
			}
		case *models.Interface:
			pods = append(pods, p.moved(st.Key, v)...)
		default: // nobody wants it any more
			if st.Kind == models.KindInterface {
				pods = append(pods, p.moved(st.Key, nil)...)
			}
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

// moved notes where an interface is wanted now, and returns the pods that it was in and is
// in.
func (p *podIndex) moved(k scheduler.Key, v *models.Interface) []string {
	name, pod := nameOf(k), v.GetNamespace().GetPod()
	was := []string{p.pods[name], p.peers[name], pod}
	note(&p.pods, name, pod)
	if peer := v.GetVeth().GetPeer(); peer != "" {
		note(&p.peers, peer, pod)
	}
	return was
}

func note(all *map[string]string, name, pod string) {
	switch {
	case pod == "":
		delete(*all, name)
	case *all == nil:
		*all = map[string]string{name: pod}
	default:
		(*all)[name] = pod
	}
}
