package kind

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/plumb-net/plumb/scheduler/internal/exec"
	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// Kind is a descriptor with its types erased. Package scheduler fills
// it, in kind.go; all type assertions are there.
type Kind struct {
	graph.Kind
	Capabilities []string
	ReadAfter    []string

	CheckType  func(v any) error
	Validate   func(k kv.Key, v any) error
	Compare    func(k kv.Key, from, to any) kv.Verdict
	Identical  func(a, b any) bool // as values, whatever Equal says of what is there
	SameMeta   func(a, b any) bool
	Derive     func(k kv.Key, v any) []kv.Change
	DerivedBy  func(k kv.Key) kv.Key
	Lane       func(k kv.Key, v any) string
	Secrets    func(v any) (shown any, secrets []string)
	Disruption func(k kv.Key, from, to any) kv.Disruption
	Timeout    time.Duration
	Size       int // of a value, encoded, on average
	Sized      int // values that were asked the size of
	Encode     func(v any) ([]byte, error)
	Decode     func(b []byte) (any, error)

	Create      func(ctx context.Context, k kv.Key, v any) (any, error)
	Update      func(ctx context.Context, k kv.Key, from, to, meta any) (any, error)
	Release     func(ctx context.Context, k kv.Key, v, found, meta any) error
	Remove      func(ctx context.Context, k kv.Key, v, meta any) error
	GivesBack   func(k kv.Key, v, meta any) bool // whether Remove does
	CreateBatch func(ctx context.Context, ops []*Op)
	DeleteBatch func(ctx context.Context, ops []*Op)
	Creations   *exec.Group // not nil with CreateBatch
	Deletions   *exec.Group // not nil with DeleteBatch
	Retrieve    func(ctx context.Context, s Scope, yield func(Found, error) bool)
	Watch       func(ctx context.Context, notify func(keys ...kv.Key)) error
	ChangedBy   func(k kv.Key) string // not nil with Watch, perhaps
	Interest    func(k kv.Key, wanted bool)

	View    view
	Look    LookState
	Figures [len(Counted)]Figures
	Drift   Drift
	Stop    context.CancelFunc // of Watch

	original *Kind // that this one is a copy of
}

// Scope is scheduler.Scope without types, as Found and Known are those.
type Scope struct {
	All      bool
	Keys     []kv.Key
	Known    []Known
	ReadOnly bool
}

// Known is what is believed or wanted of a key.
type Known struct {
	Key         kv.Key
	Value, Meta any
	InPlace     bool
}

// Found is one object that is there.
type Found struct {
	Key         kv.Key
	Value, Meta any
	Foreign     bool
	Owner       string
}

// Unread reports whether what is not known of the kind waits for all of it to be read.
func (k *Kind) Unread() bool { return k.Retrieve != nil && !k.Read && !k.OnDemand }

// Of is the kind of a node, nil if none is registered.
func Of(n *graph.Node) *Kind {
	if n.Kind == nil {
		return nil
	}
	return n.Kind.Impl.(*Kind)
}

// EncodeValue turns a value of the kind into bytes.
func EncodeValue(k *Kind, v any) (b []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("encoding a value of %s panicked: %v", k.Name, p)
		}
	}()
	return k.Encode(v)
}

// Has notes a capability.
func (k *Kind) Has(capability string) { k.Capabilities = append(k.Capabilities, capability) }

// Makes reports whether things come of the kind: it makes them, or derives what is made.
func (k *Kind) Makes() bool { return !k.Observed || k.Derive != nil }

// Differ reports whether two values of a key are different to its kind.
func Differ(k *Kind, key kv.Key, a, b any) (differ bool) {
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
	return k.Compare(key, a, b).Change != kv.Same
}
