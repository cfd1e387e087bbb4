package scheduler

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/plumb-net/plumb/scheduler/graph"
	"github.com/plumb-net/plumb/scheduler/internal/exec"
)

// kind is a descriptor with its types erased. All type assertions of the
// engine are in this file.
type kind struct {
	graph.Kind
	capabilities []string
	readAfter    []string

	checkType  func(v any) error
	validate   func(k Key, v any) error
	compare    func(k Key, from, to any) Verdict
	identical  func(a, b any) bool // as values, whatever Equal says of the world
	sameMeta   func(a, b any) bool
	derive     func(k Key, v any) []Change
	lane       func(k Key, v any) string
	secrets    func(v any) (shown any, secrets []string)
	disruption func(k Key, from, to any) Disruption
	timeout    time.Duration
	size       int // of a value, encoded, on average
	sized      int // values that were asked the size of
	encode     func(v any) ([]byte, error)
	decode     func(b []byte) (any, error)

	create      func(ctx context.Context, k Key, v any) (any, error)
	update      func(ctx context.Context, k Key, from, to, meta any) (any, error)
	release     func(ctx context.Context, k Key, v, found, meta any) error
	remove      func(ctx context.Context, k Key, v, meta any) error
	createBatch func(ctx context.Context, ops []*op)
	deleteBatch func(ctx context.Context, ops []*op)
	creations   *exec.Group // not nil with createBatch
	deletions   *exec.Group // not nil with deleteBatch
	retrieve    func(ctx context.Context, s lookScope, yield func(found, error) bool)
	watch       func(ctx context.Context, notify func(keys ...Key)) error
	interest    func(k Key, wanted bool)

	view view
	look kindLook
	stop context.CancelFunc // of Watch
}

// lookScope and found are Scope and Found without types.
type lookScope struct {
	all   bool
	keys  []Key
	known []known
}

type known struct {
	key         Key
	value, meta any
	inPlace     bool
}

type found struct {
	key         Key
	value, meta any
	foreign     bool
}

// unread reports whether what is not known of the kind waits for all of it to be read.
func (k *kind) unread() bool { return k.retrieve != nil && !k.Read && !k.OnDemand }

func kindOf(n *graph.Node) *kind {
	if n.Kind == nil {
		return nil
	}
	return n.Kind.Impl.(*kind)
}

// encodeValue turns a value of the kind into bytes.
func encodeValue(k *kind, v any) (b []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("encoding a value of %s panicked: %v", k.Name, p)
		}
	}()
	return k.encode(v)
}

func (k *kind) has(capability string) { k.capabilities = append(k.capabilities, capability) }

// makes reports whether things come of the kind: it makes them, or derives what is made.
func (k *kind) makes() bool { return !k.Observed || k.derive != nil }

// differ reports whether two values of a key are different to its kind.
func differ(k *kind, key Key, a, b any) (differ bool) {
	switch {
	case a == nil || b == nil:
		return a != nil || b != nil
	case k == nil:
		return !reflect.DeepEqual(a, b)
	}
	defer func() {
		if recover() != nil { // values that its kind refused
			differ = true
		}
	}()
	return k.compare(key, a, b).Change != Same
}
