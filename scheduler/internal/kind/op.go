package kind

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/plumb-net/plumb/scheduler/internal/exec"
	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// Op is one operation or read on its way through the executor.
type Op struct {
	Kind           *Kind
	Node           *graph.Node
	Key            kv.Key
	From, To, Meta any
	Cause          uint64
	Via            *graph.Node

	*Reading // of looks

	Due          time.Time // since when nothing but a worker was waited for
	Start        time.Time
	Took         time.Duration
	Err          error
	Gen          uint32
	What         kv.Operation
	PastDeadline bool // this is not the outcome: the deadline passed
	Foreign      bool // somebody else's was there
	Release      bool // an update that gives back what was taken over
	GivesBack    bool // a deletion that does
}

// Reading is what a look is about and what it found.
type Reading struct {
	LookAll bool
	Refused error // it cannot be read yet
	Nodes   []*graph.Node
	Scope   Scope
	Stamp   uint64
	Found   []Found
	Unread  map[kv.Key]error
}

// OverdueError says that the operation is past its deadline.
func (o *Op) OverdueError() error {
	return fmt.Errorf("%s has been running since %s, past its deadline; it is still running",
		o.What, o.Start.UTC().Format(time.TimeOnly))
}

// Name is the key. A read of many keys is named by its kind.
func (o *Op) Name() string {
	if o.Key == "" {
		return "the read of kind " + o.Kind.Name
	}
	return string(o.Key)
}

// Lane is what the kind says of the value; reads wait for nobody.
func (o *Op) Lane() string {
	if o.Kind.Lane == nil || o.What == kv.OpLook {
		return ""
	}
	v := o.To
	if v == nil {
		v = o.From
	}
	if v == nil {
		return ""
	}
	if name := o.Kind.Lane(o.Key, v); name != "" {
		return o.Kind.Name + "\x00" + name
	}
	return ""
}

// Group is that of the kind's creations, or deletions, if it does many at a time.
func (o *Op) Group() *exec.Group {
	switch o.What {
	case kv.OpCreate:
		return o.Kind.Creations
	case kv.OpDelete:
		return o.Kind.Deletions
	}
	return nil
}

// Limit is the timeout of the kind.
func (o *Op) Limit() time.Duration { return o.Kind.Timeout }

// Ended notes the times.
func (o *Op) Ended(start time.Time, took time.Duration) { o.Start, o.Took = start, took }

// Overdue reports an operation. The context of a read has ended; its error comes as its
// outcome.
func (o *Op) Overdue(start time.Time) (*Op, bool) {
	if o.What == kv.OpLook {
		return nil, false
	}
	return &Op{Kind: o.Kind, Node: o.Node, Key: o.Key, What: o.What, Start: start, Cause: o.Cause, PastDeadline: true}, true
}

// noteGivesBack asks the descriptor before a deletion, which discards its record of the object.
func (o *Op) noteGivesBack() {
	o.GivesBack = o.Kind.GivesBack != nil && o.Kind.GivesBack(o.Key, o.From, o.Meta)
}

// Did returns the operation as it is recorded.
func (o *Op) Did() kv.Operation {
	if o.GivesBack {
		return kv.OpGiveBack
	}
	return o.What
}

// Run calls the descriptor.
func (o *Op) Run(ctx context.Context, batch []*Op) {
	if o.What == kv.OpLook {
		RunLook(ctx, o)
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
			err := fmt.Errorf("%s panicked: %v\n%s", o.What, p, debug.Stack())
			o.Err = err
			for _, b := range batch {
				b.Err = err
			}
		}
	}()
	if o.What == kv.OpDelete {
		o.noteGivesBack()
		for _, b := range batch {
			b.noteGivesBack()
		}
	}
	switch {
	case batch != nil && o.What == kv.OpCreate:
		o.Kind.CreateBatch(ctx, batch)
	case batch != nil:
		o.Kind.DeleteBatch(ctx, batch)
	case o.What == kv.OpCreate:
		o.Meta, o.Err = o.Kind.Create(ctx, o.Key, o.To)
	case o.Release:
		o.Err = o.Kind.Release(ctx, o.Key, o.From, o.To, o.Meta)
	case o.What == kv.OpUpdate:
		o.Meta, o.Err = o.Kind.Update(ctx, o.Key, o.From, o.To, o.Meta)
	case o.What == kv.OpDelete:
		o.Err = o.Kind.Remove(ctx, o.Key, o.From, o.Meta)
	}
	o.Err = kv.Sayable(o.Err)
	for _, b := range batch {
		b.Err = kv.Sayable(b.Err)
	}
}
