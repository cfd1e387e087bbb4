package graph

import "github.com/plumb-net/plumb/scheduler/kv"

type (
	// Key names a thing.
	Key = kv.Key
	// Need is something that must be in place before a value can be.
	Need = kv.Need
)
