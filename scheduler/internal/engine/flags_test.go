package engine

import (
	"testing"
	"time"

	"github.com/plumb-net/plumb/scheduler/history"
	"github.com/plumb-net/plumb/scheduler/internal/assess"
)

// What a preview changes is taken back, flags too.
func TestFlagsAreTakenBack(t *testing.T) {
	e := New(assess.New(nil, nil), Settings{}, history.None(), time.Time{}, nil, nil)
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
