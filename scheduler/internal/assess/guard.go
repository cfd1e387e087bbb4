package assess

import (
	"fmt"

	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
)

// Whatever panics in a descriptor is its key's trouble and nobody else's.
// Operations are guarded where they run, the functions of needs in the graph.

// panicked is why a key is invalid whose descriptor panicked over it.
type panicked struct {
	kind string
	with any
}

func (p *panicked) Error() string {
	return fmt.Sprintf("the %s descriptor panicked: %v", p.kind, p.with)
}

// Guard runs a descriptor's pure function; a panic makes the key invalid, until
// something else is wanted of it.
func (as *Assessor) Guard(n *graph.Node, f func()) (ok bool) {
	defer func() {
		if p := recover(); p != nil {
			ok = false
			if kind.Of(n).Secrets != nil {
				p = "over a value with secrets, so what it said is not told"
			}
			as.G.Extra(n).Invalid = &panicked{n.Kind.Name, p}
		}
	}()
	f()
	return true
}
