package netlink

import (
	"context"
	"fmt"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// In which namespace the other end of a cable of ours is takes a few questions, however many
// there are.
func TestFewQuestionsForPeers(t *testing.T) {
	k := newTestKernel(t)
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- k.Watch(ctx, func(ev kernel.Event) {
			if ev.Ready {
				close(ready)
			}
		})
	}()
	<-ready
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	const many = 40
	var all []kernel.NS
	for range many {
		n := netlinktest.New(t)
		ns, err := k.Open(n.Path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, ns)
	}
	asked := func() (n int) {
		for _, ns := range append(all, k.own) {
			p := &k.namespaces[ns].peers
			p.mu.Lock()
			n += p.asked
			p.mu.Unlock()
		}
		return n
	}
	for i, ns := range all {
		there := all[(i+1)%many]
		l, err := k.AddLink(ns, kernel.LinkSpec{Name: fmt.Sprintf("a%d", i), Veth: &kernel.VethSpec{PeerNS: there, PeerName: fmt.Sprintf("b%d", i)}})
		if err != nil {
			t.Fatal(err)
		}
		p, err := k.LinkByIndex(there, l.Parent)
		if err != nil || l.ParentNS != there || p.ParentNS != ns || p.Parent != l.Index {
			t.Fatalf("%+v\n%+v, %v", l, p, err)
		}
	}
	if n := asked(); n > 4*many {
		t.Errorf("cables of ours: %d questions among %d namespaces", n, many)
	}
}
