package scheduler

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/plumb-net/plumb/scheduler/graph"
	"github.com/plumb-net/plumb/scheduler/internal/exec"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// op is one operation or read on its way through the executor.
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

// Name implements exec.Operation, as all that follows.
func (o *op) Name() string { return string(o.key) }

// Lane is what the kind says of the value; reads wait for nobody.
func (o *op) Lane() string {
	if o.kind.lane == nil || o.what == OpLook {
		return ""
	}
	v := o.to
	if v == nil {
		v = o.from
	}
	if v == nil {
		return ""
	}
	if name := o.kind.lane(o.key, v); name != "" {
		return o.kind.Name + "\x00" + name
	}
	return ""
}

// Group is that of the kind's creations, or deletions, if it does many at a time.
func (o *op) Group() *exec.Group {
	switch o.what {
	case OpCreate:
		return o.kind.creations
	case OpDelete:
		return o.kind.deletions
	}
	return nil
}

// Limit is the timeout of the kind.
func (o *op) Limit() time.Duration { return o.kind.timeout }

// Ended notes the times.
func (o *op) Ended(start time.Time, took time.Duration) { o.start, o.took = start, took }

// Overdue reports an operation. The context of a read has ended; its error comes as its
// outcome.
func (o *op) Overdue(start time.Time) (*op, bool) {
	if o.what == OpLook {
		return nil, false
	}
	return &op{kind: o.kind, n: o.n, key: o.key, what: o.what, start: start, cause: o.cause, overdue: true}, true
}

// Run calls the descriptor.
func (o *op) Run(ctx context.Context, batch []*op) {
	if o.what == OpLook {
		runLook(ctx, o)
		o.mask()
		return
	}
	if batch == nil {
		defer o.mask()
	} else {
		defer maskAll(batch)
	}
	defer func() {
		if p := recover(); p != nil {
			err := fmt.Errorf("%s panicked: %v\n%s", o.what, p, debug.Stack())
			o.err = err
			for _, b := range batch {
				b.err = err
			}
		}
	}()
	switch {
	case batch != nil && o.what == OpCreate:
		o.kind.createBatch(ctx, batch)
	case batch != nil:
		o.kind.deleteBatch(ctx, batch)
	case o.what == OpCreate:
		o.meta, o.err = o.kind.create(ctx, o.key, o.to)
	case o.release:
		o.err = o.kind.release(ctx, o.key, o.from, o.to, o.meta)
	case o.what == OpUpdate:
		o.meta, o.err = o.kind.update(ctx, o.key, o.from, o.to, o.meta)
	case o.what == OpDelete:
		o.err = o.kind.remove(ctx, o.key, o.from, o.meta)
	}
	o.err = kv.Sayable(o.err)
	for _, b := range batch {
		b.err = kv.Sayable(b.err)
	}
}
