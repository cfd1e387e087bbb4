package cni

import (
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/cri/critest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

// TestAgentDown: while the agent is down pods are deleted, each at its first try.
// When it is back nothing of them is left at the moment at which its socket can be
// asked, and a pod that was not deleted is as it was.
func TestAgentDown(t *testing.T) {
	n := newNode(t, host.Options{Fast: true})
	n.host.Start()
	ctx := t.Context()
	neighbour, err := n.RunPod(ctx, critest.Pod{Name: "neighbour"})
	if err != nil {
		t.Fatal(err)
	}
	unharmed := host.Ping(t, n.inside()[0], gateway)
	before := n.left()
	ids := make([]string, 5)
	n.each(len(ids), func(i int) (err error) {
		ids[i], err = n.RunPod(ctx, critest.Pod{Name: fmt.Sprint("pod", i)})
		return err
	})
	links := n.host.Marked()

	n.host.Kill9()
	began := time.Now()
	n.each(len(ids), func(i int) error { return n.RemovePod(ctx, ids[i]) })
	queue := filepath.Join(n.host.RunDir(), "cni-queue", "*.json")
	if left, _ := filepath.Glob(queue); len(left) < len(ids) {
		t.Errorf("%d calls were left for the agent, want %d: %v", len(left), len(ids), left)
	}
	time.Sleep(max(0, *down-time.Since(began)))

	n.host.Launch()
	n.host.Eventually("the socket can be asked", func() error {
		conn, err := net.Dial("unix", n.socket("cni.sock"))
		if err == nil {
			_ = conn.Close()
		}
		return err
	})
	if left, _ := filepath.Glob(queue); len(left) > 0 {
		t.Errorf("the socket is open, and there still are %v", left)
	}
	if now := n.host.Marked(); len(now) != len(links)-len(ids) {
		t.Errorf("the socket is open; %d links were marked while the pods were up, now there are %v", len(links), now)
	}
	n.host.AwaitReady()
	n.sameAs(before, "after the agent was down")
	unharmed()
	if err := n.RemovePod(ctx, neighbour); err != nil {
		t.Error(err)
	}
}
