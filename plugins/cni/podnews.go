package cni

import (
	"sync"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// podNews wakes those who wait for what is wanted in a pod. The zero value is ready.
type podNews struct {
	mu    sync.Mutex
	pods  map[string]string // the pod that an interface is in, by its logical name
	peers map[string]string // the pod that the other end of its cable is in
	waits map[string]map[chan struct{}]bool
}

// see takes what a watcher tells.
func (p *podNews) see(changes []scheduler.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, st := range changes {
		switch v := st.Desired.(type) {
		case *models.Route:
			for _, name := range v.Interfaces() {
				p.wake(p.pods[name])
			}
		case *models.Interface:
			p.moved(st.Key, v)
		default: // nobody wants it any more
			if st.Kind == models.KindInterface {
				p.moved(st.Key, nil)
			}
		}
	}
}

func (p *podNews) moved(k scheduler.Key, v *models.Interface) {
	name, pod := nameOf(k), v.GetNamespace().GetPod()
	p.wake(p.pods[name])
	p.wake(p.peers[name])
	note(&p.pods, name, pod)
	if peer := v.GetVeth().GetPeer(); peer != "" {
		note(&p.peers, peer, pod)
	}
	p.wake(pod)
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

func (p *podNews) wake(pod string) {
	for ch := range p.waits[pod] {
		select {
		case ch <- struct{}{}:
		default: // it is awake
		}
	}
}

// follow tells of changes in a pod until stop.
func (p *podNews) follow(pod string) (news <-chan struct{}, stop func()) {
	ch := make(chan struct{}, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waits == nil {
		p.waits = map[string]map[chan struct{}]bool{}
	}
	if p.waits[pod] == nil {
		p.waits[pod] = map[chan struct{}]bool{}
	}
	p.waits[pod][ch] = true
	return ch, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if delete(p.waits[pod], ch); len(p.waits[pod]) == 0 {
			delete(p.waits, pod)
		}
	}
}
