package graph_test

import (
	"testing"
	"unsafe"

	"github.com/plumb-net/plumb/scheduler/internal/graph"
)

// One byte more, and every node, or every need, takes the allocator's next class.
func TestNodeSize(t *testing.T) {
	if n := unsafe.Sizeof(graph.Node{}); n > 240 {
		t.Errorf("a node takes %d bytes; the allocator has classes of 240 and 256", n)
	}
	if n := unsafe.Sizeof(graph.Edge{}); n > 56 {
		t.Errorf("a need takes %d bytes; with a list of one it fits into the class of 64 up to 56", n)
	}
}
