package scheduler

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/plumb-net/plumb/scheduler/graph"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// kindLook is how things stand with reading the world of a kind.
type kindLook struct {
	queued   []*graph.Node // single keys waiting to be read
	listed   bool          // the kind is in engine.looks
	all      bool          // a read of the whole kind is due
	cause    uint64        // the transaction that asked for it
	running  bool          // one is under way
	stamp    uint64        // when it began
	again    bool          // and another was asked for meanwhile
	waiting  []*graph.Node // to think about when it has ended
	knew     int           // how many keys were known at the last one
	attempts int           // failed reads of the whole kind in a row
	err      error         // of the last one
}

func knownNode(n *graph.Node) known {
	if n.Presence != graph.Absent && n.Actual != nil {
		return known{key: n.Key, value: n.Actual, meta: n.Meta, inPlace: true}
	}
	return known{key: n.Key, value: n.Goal()}
}

// runLook calls Retrieve; it runs on a lane.
func runLook(ctx context.Context, o *op) {
	defer func() {
		if p := recover(); p != nil {
			o.err = fmt.Errorf("reading %s panicked: %v\n%s", o.kind.Name, p, debug.Stack())
		}
	}()
	if o.err = o.refused; o.err != nil {
		return
	}
	o.found = make([]found, 0, len(o.scope.known))
	o.kind.retrieve(ctx, o.scope, func(f found, err error) bool {
		switch {
		case err != nil && f.key == "":
			o.err = errors.Join(o.err, kv.Sayable(err))
		case err != nil:
			if o.unread == nil {
				o.unread = map[Key]error{}
			}
			o.unread[f.key] = kv.Sayable(err)
		default:
			o.found = graph.Push(o.found, f)
		}
		return ctx.Err() == nil
	})
	if o.err == nil {
		o.err = ctx.Err()
	}
}

func validate(k *kind, key Key, v any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = kv.Invalid("", "validation panicked: %v", p)
		}
		err = maskError(err, k.secretsOf(v))
	}()
	if k.Observed {
		return kv.Invalid("", "%s values are observed, they cannot be asked for", k.Name)
	}
	if err := k.checkType(v); err != nil || k.validate == nil {
		return err
	}
	return kv.Sayable(k.validate(key, v))
}
