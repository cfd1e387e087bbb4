package scheduler

import (
	"testing"

	"github.com/plumb-net/plumb/scheduler/internal/assess"
	"github.com/plumb-net/plumb/scheduler/internal/engine"
	"github.com/plumb-net/plumb/scheduler/internal/graph"
)

// What a preview changes is taken back, flags too.
func TestFlagsAreTakenBack(t *testing.T) {
	e := &engine.Engine{Assessor: &assess.Assessor{G: graph.New(func(graph.Key) *graph.Kind { return nil })}}
	n := e.G.Node("a/1")
	e.SetFlag(n, assess.FlagSame, true)
	e.G.Try(func() {
		e.SetFlag(n, assess.FlagSame, false)
		e.SetFlag(n, assess.FlagStale, true)
	})
	if !assess.Has(n, assess.FlagSame) || assess.Has(n, assess.FlagStale) {
		t.Errorf("its flags are %b", n.Flags)
	}
}
