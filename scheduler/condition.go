package scheduler

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
)

// Condition describes a kind whose keys are no objects but something that
// holds or does not: a link has carrier, a path exists. It is an observed kind
// like any other; values need its keys, and wake when they hold.
//
// holds tells of one key whether it holds; it may do I/O, and an error makes
// the key unknown. It is asked of the keys only that something needs: when
// they are first needed, when watch names them, and when the actual state is read.
// watch is Descriptor.Watch. What holds for a moment only and not the next can
// be given a [Policy] with a HoldDown.
func Condition(name string, prefix Key, holds func(ctx context.Context, k Key) (bool, error),
	watch func(ctx context.Context, notify func(keys ...Key)) error) Descriptor[struct{}, struct{}] {
	c := &condition{holds: holds, needed: map[Key]bool{}}
	return Descriptor[struct{}, struct{}]{Name: name, Prefix: prefix, Retrieve: c.retrieve, Interest: c.interest, Watch: watch}
}

type condition struct {
	holds  func(ctx context.Context, k Key) (bool, error)
	mu     sync.Mutex
	needed map[Key]bool // under mu
}

func (c *condition) interest(k Key, needed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if needed {
		c.needed[k] = true
	} else {
		delete(c.needed, k)
	}
}

func (c *condition) retrieve(ctx context.Context, s Scope[struct{}, struct{}]) iter.Seq2[Found[struct{}, struct{}], error] {
	c.mu.Lock()
	keys := slices.DeleteFunc(slices.Clone(s.Keys), func(k Key) bool { return !c.needed[k] })
	if s.All {
		keys = slices.Sorted(maps.Keys(c.needed))
	}
	c.mu.Unlock()
	return func(yield func(Found[struct{}, struct{}], error) bool) {
		for _, k := range keys {
			yes, err := c.holds(ctx, k)
			if (yes || err != nil) && !yield(Found[struct{}, struct{}]{Key: k}, err) {
				return
			}
		}
	}
}

// Property describes a kind of values that are no objects: derived from a
// value of another kind, they are there while that is, for others to need.
// With Needs set they may have needs of their own.
func Property[V any](name string, prefix Key) Descriptor[V, struct{}] {
	return Descriptor[V, struct{}]{
		Name: name, Prefix: prefix,
		Create: func(context.Context, Key, V) (struct{}, error) { return struct{}{}, nil },
		Update: func(context.Context, Key, V, V, struct{}) (struct{}, error) { return struct{}{}, nil },
		Delete: func(context.Context, Key, V, struct{}) error { return nil },
	}
}
