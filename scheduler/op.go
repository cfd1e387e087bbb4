package scheduler

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/plumb-net/plumb/scheduler/graph"
)

// op is one operation or look on its way through a lane.
type op struct {
	kind           *kind
	n              *graph.Node
	key            Key
	from, to, meta any
	cause          uint64
	via            *graph.Node

	*reading // of looks

	start   time.Time
	took    time.Duration
	err     error
	batch   []*op
	gen     uint32
	what    Operation
	overdue bool // this is not the outcome: the deadline passed
	foreign bool // somebody else's was there
	release bool // an update that gives back what was taken over
}

// reading is what a look is about and what it found.
type reading struct {
	lookAll bool
	refused error // it cannot be read yet
	nodes   []*graph.Node
	scope   lookScope
	stamp   uint64
	found   []found
	unread  map[Key]error
}

func (o *op) overdueError() error {
	return fmt.Errorf("%s has been running since %s, past its deadline; it is still running",
		o.what, o.start.UTC().Format(time.TimeOnly))
}

func (o *op) limit(opts *Options) time.Duration {
	if o.kind.timeout > 0 {
		return o.kind.timeout
	}
	return opts.Timeout
}

// batches reports whether the kind can do many such operations at a time.
func (o *op) batches() bool {
	return o.what == OpCreate && o.kind.createBatch != nil || o.what == OpDelete && o.kind.deleteBatch != nil
}

// outcomes adds the operations that ended to done, a batch being several.
func (o *op) outcomes(done []*op, took time.Duration) []*op {
	if o.batch == nil {
		o.took = took
		return append(done, o)
	}
	for _, b := range o.batch {
		b.start, b.took = o.start, took
	}
	return append(done, o.batch...)
}

// overdues are reports that the operation ran past its deadline.
func (o *op) overdues() []*op {
	if o.what == OpLook {
		return nil // its context has ended; its error comes as its outcome
	}
	of := o.batch
	if of == nil {
		of = []*op{o}
	}
	out := make([]*op, len(of))
	for i, b := range of {
		out[i] = &op{kind: b.kind, n: b.n, key: b.key, what: b.what, start: o.start, cause: b.cause, overdue: true}
	}
	return out
}

// run does the work of an operation.
func (o *op) run(ctx context.Context) {
	if o.what == OpLook {
		runLook(ctx, o)
		o.mask()
		return
	}
	defer o.mask()
	defer func() {
		if p := recover(); p != nil {
			err := fmt.Errorf("%s panicked: %v\n%s", o.what, p, debug.Stack())
			o.err = err
			for _, b := range o.batch {
				b.err = err
			}
		}
	}()
	switch {
	case o.batch != nil && o.what == OpCreate:
		o.kind.createBatch(ctx, o.batch)
	case o.batch != nil:
		o.kind.deleteBatch(ctx, o.batch)
	case o.what == OpCreate:
		o.meta, o.err = o.kind.create(ctx, o.key, o.to)
	case o.release:
		o.err = o.kind.release(ctx, o.key, o.from, o.to, o.meta)
	case o.what == OpUpdate:
		o.meta, o.err = o.kind.update(ctx, o.key, o.from, o.to, o.meta)
	case o.what == OpDelete:
		o.err = o.kind.remove(ctx, o.key, o.from, o.meta)
	}
	o.err = sayable(o.err)
	for _, b := range o.batch {
		b.err = sayable(b.err)
	}
}
