package cni

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// Bounds are the upper bounds of the classes in which the time of calls is counted.
var Bounds = []time.Duration{
	5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond,
	500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second,
}

// Figure is how often a command had an outcome, and how long that took.
type Figure struct {
	Command string
	Code    int // of the error, 0 if there was none
	Count   uint64
	Sum     time.Duration
	Within  []uint64 // how many took no longer than each of Bounds
}

// figures counts calls. The zero value is ready.
type figures struct {
	mu  sync.Mutex
	all map[outcome]*Figure
}

type outcome struct {
	command string
	code    int
}

func (f *figures) count(command string, wrong *spec.Error, took time.Duration) {
	o := outcome{command: command}
	if wrong != nil {
		o.code = wrong.Code
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		f.all = map[outcome]*Figure{}
	}
	x := f.all[o]
	if x == nil {
		x = &Figure{Command: o.command, Code: o.code, Within: make([]uint64, len(Bounds))}
		f.all[o] = x
	}
	x.Count++
	x.Sum += took
	for i, b := range Bounds {
		if took <= b {
			x.Within[i]++
		}
	}
}

// list is all of them, sorted.
func (f *figures) list() []Figure {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []Figure
	for _, x := range f.all {
		c := *x
		c.Within = slices.Clone(x.Within)
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b Figure) int { return cmp.Or(cmp.Compare(a.Command, b.Command), cmp.Compare(a.Code, b.Code)) })
	return list
}
