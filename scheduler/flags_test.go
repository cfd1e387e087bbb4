package scheduler

import (
	"testing"

	"github.com/plumb-net/plumb/scheduler/graph"
)

// What a preview changes is taken back, flags too.
func TestFlagsAreTakenBack(t *testing.T) {
	e := &engine{assessor: &assessor{g: graph.New(func(graph.Key) *graph.Kind { return nil })}}
	n := e.g.Node("a/1")
	e.setFlag(n, flagSame, true)
	e.g.Try(func() {
		e.setFlag(n, flagSame, false)
		e.setFlag(n, flagStale, true)
	})
	if !has(n, flagSame) || has(n, flagStale) {
		t.Errorf("its flags are %b", n.Flags)
	}
}
