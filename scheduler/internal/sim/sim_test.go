package sim_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/plumb-net/plumb/scheduler/internal/sim"
)

// A story with faults ends as it should.
func TestStoryWithFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := sim.NewPlayer()
		defer p.Close()
		err := p.Play(sim.ParseSteps(`
setup
bridge
port
----

fault
create bridge/1: fail twice
----

txn
port/1 up needs=bridge/1
bridge/1 up
----
`))
		if err != nil {
			t.Error(err)
		}
		if there := fmt.Sprint(p.World); there != "bridge/1=up\nport/1=up\n" {
			t.Errorf("there is\n%s", there)
		}
	})
}

// A random history, the same for the same seed.
func TestHistoryFromASeed(t *testing.T) {
	steps := sim.History(7, sim.Profile{Steps: 30})
	synctest.Test(t, func(t *testing.T) {
		p := sim.NewPlayer()
		defer p.Close()
		if err := p.Play(steps); err != nil {
			t.Error(err)
		}
	})
}
