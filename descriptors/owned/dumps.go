package owned

import (
	"errors"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// Dumps reads all of a kind in a namespace at most once, for one reading of the actual state.
type Dumps[T any] struct {
	// Read reads a namespace.
	Read func(kernel.NS) (T, error)

	dumps map[kernel.NS]dump[T]
}

type dump[T any] struct {
	all T
	err error
}

// Of is all that there is in a namespace. In one that is dead there is nothing.
func (d *Dumps[T]) Of(ns kernel.NS) (T, error) {
	if had, ok := d.dumps[ns]; ok {
		return had.all, had.err
	}
	all, err := d.Read(ns)
	if errors.Is(err, kernel.ErrNoNamespace) {
		err = nil
	}
	if d.dumps == nil {
		d.dumps = map[kernel.NS]dump[T]{}
	}
	d.dumps[ns] = dump[T]{all, err}
	return all, err
}
