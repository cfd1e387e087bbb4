package graph_test

import (
	"testing"
	"unsafe"

	"github.com/plumb-net/plumb/scheduler/graph"
)

// One byte more, and every node takes the allocator's next class.
func TestNodeSize(t *testing.T) {
	if n := unsafe.Sizeof(graph.Node{}); n > 240 {
		t.Errorf("a node takes %d bytes; the allocator has classes of 240 and 256", n)
	}
}
