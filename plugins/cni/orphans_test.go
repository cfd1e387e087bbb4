package cni_test

import (
	"strings"
	"testing"
	"time"
)

// TestOrphans: what is on disk and in the kernel for a container that is no more
// is removed, and so is what is in the kernel for a record that was lost. That of
// containers that run stays, and that of other networks.
func TestOrphans(t *testing.T) {
	in(t, func(t *testing.T, n *node) {
		green := `{"cniVersion":"1.1.0","name":"green","pool":"10.63.0.0/29","bridge":"br-green"}`
		if a := n.call(t.Context(), "ADD", "other", "/run/netns/7", green); a.Error != nil {
			t.Fatal(a.Error)
		}
		added(t, n, "stays")
		one := n.show()
		added(t, n, "gone", "lost")
		all := n.show()

		// The record of one is lost while the agent is away.
		n.stop()
		n.disk.Remove("attachment/blue/lost/eth0")
		n.start()
		time.Sleep(time.Minute)
		if got := n.show(); strings.Count(got, "attachment/") != 3 || strings.Count(got, "interface/") >= strings.Count(all, "interface/") {
			t.Errorf("the record of one was lost, and left is\n%s\nof\n%s", got, all)
		}

		// Their namespace is gone, and one of them does not run.
		n.host.at["/run/netns/7"] = 0
		n.host.running["stays"], n.host.running["other"] = true, true
		for want := range 2 {
			if got := n.Sweep(t.Context()); got != want {
				t.Errorf("sweep %d: %d removed", want, got)
			}
		}
		if got := n.show(); got != one {
			t.Errorf("left\n%s\nwant\n%s", got, one)
		}
	})
}
