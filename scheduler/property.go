package scheduler

import "context"

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
