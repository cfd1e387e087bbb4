package schedulertest_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// A test of an embedder: a story with faults, which must end as it should.
func ExamplePlayer() {
	test := func(t *testing.T) {
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
			fmt.Print(p.World)
		})
	}
	run(test)
	// Output:
	// bridge/1=up
	// port/1=up
}

// A random history, the same for the same seed.
func ExampleHistory() {
	steps := schedulertest.History(7, schedulertest.Profile{Steps: 30})
	run(func(t *testing.T) {
		synctest.Test(t, func(*testing.T) {
			p := schedulertest.NewPlayer()
			defer p.Close()
			fmt.Println(p.Play(steps))
		})
	})
	// Output: <nil>
}

func ExampleParseOrder() {
	o, err := schedulertest.ParseOrder("create a/1: fail twice")
	fmt.Println(o.Op, o.Target, o.Fault, o.Times, err)
	// Output: create a/1 fail 2 <nil>
}

// run stands in for go test.
func run(f func(*testing.T)) {
	testing.RunTests(func(_, _ string) (bool, error) { return true, nil },
		[]testing.InternalTest{{Name: "TestStory", F: f}})
}
