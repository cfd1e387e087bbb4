package schedulertest_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// A test of an embedder: a story with faults, which must end as it should.
func TestStoryOfAnEmbedder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := schedulertest.NewPlayer()
		defer p.Close()
		err := p.Play(schedulertest.ParseSteps(`
world
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
			t.Errorf("in the world is\n%s", there)
		}
	})
}

// A random history, the same for the same seed.
func TestHistoryOfAnEmbedder(t *testing.T) {
	steps := schedulertest.History(7, schedulertest.Profile{Steps: 30})
	synctest.Test(t, func(t *testing.T) {
		p := schedulertest.NewPlayer()
		defer p.Close()
		if err := p.Play(steps); err != nil {
			t.Error(err)
		}
	})
}

func ExampleParseOrder() {
	o, err := schedulertest.ParseOrder("create a/1: fail twice")
	fmt.Println(o.Op, o.Target, o.Fault, o.Times, err)
	// Output: create a/1 fail 2 <nil>
}
