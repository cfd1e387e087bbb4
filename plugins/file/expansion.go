package file

import (
	"bytes"
	"fmt"
	"sync/atomic"
)

const (
	// maxTree bounds the nodes that are parsed at a time. A node takes about 200 bytes, and a
	// text needs two bytes for one.
	maxTree = 4 << 20
	// maxExpanded is how many bytes of JSON a text of no length could yield. Each byte of text
	// adds growth to that: quotes and escapes make JSON longer than YAML.
	maxExpanded = 16 << 20
	growth      = 4
)

// checkTree refuses a text that may hold more than most nodes. It counts what can begin or
// end a node, which is seldom less than the number of nodes and never less than half of it.
func checkTree(data []byte, name string, most int) error {
	if len(data) <= most {
		return nil
	}
	marks := 0
	for _, c := range data {
		switch c {
		case ',', ':', '[', '{', '-', '?', '\n', '\r':
			marks++
		}
	}
	if marks <= most {
		return nil
	}
	line := 1
	for i, seen := 0, 0; seen <= most; i++ {
		switch data[i] {
		case ',', ':', '[', '{', '-', '?', '\n', '\r':
			seen++
		}
		if data[i] == '\n' {
			line++
		}
	}
	return fmt.Errorf("%s:%d: the file may hold more than %d values, which is more than are read at a time; "+
		"split it, or write it as a block map under intent, one key per line, which is read in parts", name, line, most)
}

// expansion bounds what all values of a text expand to together. A bound on each value is not
// enough: any number of them may be aliases of one large value.
type expansion struct {
	maxNodes, maxBytes int64
	nodes, bytes       atomic.Int64 // parts of a file are read at the same time
}

func newExpansion(data []byte) *expansion {
	size := int64(len(bytes.TrimSpace(data)))
	return &expansion{maxNodes: maxNodes + growth*size, maxBytes: maxExpanded + growth*size}
}

// add counts; it returns an error once that is too much.
func (x *expansion) add(nodes, bytes int) error {
	n, b := x.nodes.Add(int64(nodes)), x.bytes.Add(int64(bytes))
	if n <= x.maxNodes && b <= x.maxBytes {
		return nil
	}
	return fmt.Errorf("all values together expand to more than %d MiB or %d values; use fewer aliases, or split the file",
		x.maxBytes>>20, x.maxNodes)
}

// exceeded reports whether add has returned an error.
func (x *expansion) exceeded() bool {
	return x.nodes.Load() > x.maxNodes || x.bytes.Load() > x.maxBytes
}
