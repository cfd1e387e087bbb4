package kind

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// LookState is how things stand with reading a kind.
type LookState struct {
	Queued   []*graph.Node // single keys waiting to be read
	Listed   bool          // the kind is in Assessor.Looks
	All      bool          // a read of the whole kind is due
	Cause    uint64        // the transaction that asked for it
	Running  bool          // one is under way
	Stamp    uint64        // when it began
	Again    bool          // and another was asked for meanwhile
	Waiting  []*graph.Node // to evaluate when it has ended
	Knew     int           // how many keys were known at the last one
	Attempts int           // failed reads of the whole kind in a row
	Err      error         // of the last one
}

// KnownNode is what is believed, or else wanted, of a node, as a hint for a read.
func KnownNode(n *graph.Node) Known {
	if n.Presence != graph.Absent && n.Actual != nil {
		return Known{Key: n.Key, Value: n.Actual, Meta: n.Meta, InPlace: true}
	}
	return Known{Key: n.Key, Value: n.Goal()}
}

// RunLook calls Retrieve; it runs on a lane.
func RunLook(ctx context.Context, o *Op) {
	defer func() {
		if p := recover(); p != nil {
			o.Err = fmt.Errorf("reading %s panicked: %v\n%s", o.Kind.Name, p, debug.Stack())
		}
	}()
	if o.Err = o.Refused; o.Err != nil {
		return
	}
	o.Found = make([]Found, 0, len(o.Scope.Known))
	o.Kind.Retrieve(ctx, o.Scope, func(f Found, err error) bool {
		switch {
		case err != nil && f.Key == "":
			o.Err = errors.Join(o.Err, kv.Sayable(err))
		case err != nil:
			if o.Unread == nil {
				o.Unread = map[kv.Key]error{}
			}
			o.Unread[f.Key] = kv.Sayable(err)
		default:
			o.Found = graph.Push(o.Found, f)
		}
		return ctx.Err() == nil
	})
	if o.Err == nil {
		o.Err = ctx.Err()
	}
}

// Validate refuses a value that its kind cannot take; secrets are masked in what it says.
func Validate(k *Kind, key kv.Key, v any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = kv.Invalid("", "validation panicked: %v", p)
		}
		err = maskError(err, k.SecretsOf(v))
	}()
	if k.Observed {
		return kv.Invalid("", "%s values are observed, they cannot be asked for", k.Name)
	}
	if err := k.CheckType(v); err != nil || k.Validate == nil {
		return err
	}
	return kv.Sayable(k.Validate(key, v))
}
