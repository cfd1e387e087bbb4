package scheduler

import (
	"github.com/plumb-net/plumb/scheduler/internal/engine"
	"github.com/plumb-net/plumb/scheduler/internal/graph"
)

// Audit has the books of graphs looked at after every turn, or not any more.
func Audit(on bool) {
	if audit = nil; on {
		audit = func(g *graph.Graph) {
			g.CheckTry = true
			if err := g.Audit(); err != nil {
				panic(err)
			}
		}
	}
}

// SetWindow makes the window small, so that tests get to see it; 0 is as ever.
func SetWindow(n int) {
	if engine.Window = n; n == 0 {
		engine.Window = 4096
	}
}

// HaltAt has previews leave the loop where f returns true; nil: only large ones.
func HaltAt(f func(work int) bool) { haltAt = f }

// CopyHaltAt has copies of the graph end where f returns true; nil: only for other work.
func CopyHaltAt(f func(work int) bool) { copyHaltAt = f }

// These are constants of previews.
const (
	PreviewFree = previewFree
	PreviewKeys = previewKeys
)

// WaitedFor is how many keys somebody waits for.
func WaitedFor(s *Scheduler) (n int) {
	_ = s.call(func(l *loop) { n = len(l.places.one) })
	return n
}

// UnreadChanges is how many changes are kept for watchers.
func UnreadChanges(s *Scheduler) (n int) {
	_ = s.call(func(l *loop) { n = len(l.changes) })
	return n
}
