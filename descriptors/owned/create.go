package owned

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/scheduler"
)

// Objects are the objects of one kind that are ours.
type Objects[V proto.Message, M any] struct {
	// Kind is the first part of keys and of the names of failpoints: "route".
	Kind   string
	Kernel kernel.Kernel
	Owner  *kernel.Owner
	// Prepare finds all that a value names and looks at what is in the way. It changes
	// nothing in the kernel.
	Prepare func(ctx context.Context, o *scheduler.Op[V, M]) (Job[M], error)
	// Standing finds what others made and a wanted value takes over as it is: the entry by
	// which it is found from now on. It changes nothing. nil: the kind takes nothing over.
	Standing func(ctx context.Context, k scheduler.Key, v V) (e kernel.Entry, there bool)
	// Forget is told of an entry whose object is gone, for what the kind believes of it;
	// nil: nothing.
	Forget func(kernel.Entry)

	Events
	actors actors
}

func (o *Objects[V, M]) gone(e kernel.Entry) {
	if o.Forget != nil {
		o.Forget(e)
	}
}

// Job is how one object is made.
type Job[M any] struct {
	// Entries are what the ledger says before anything is made, of the object and of
	// what is made with it. None: the object is proof enough.
	Entries []kernel.Entry
	// Make makes the object and marks it. It minds the context, if others of a batch
	// may have used up its time.
	Make func() (M, error)
	// Cancel takes back what Prepare has noted, if the ledger cannot be written; nil:
	// nothing.
	Cancel func()
}

// WithBatch has all that a kind prepares under the context be of one batch, of a type of its
// own: what Make of the first does for all of it, such as to ask the kernel for many at once.
func WithBatch[B any](ctx context.Context, b *B) context.Context {
	return context.WithValue(ctx, batchKey[B]{}, b)
}

// BatchOf is the batch of a context, or a fresh one for what is prepared by itself.
func BatchOf[B any](ctx context.Context, fresh func() *B) *B {
	if b, shared := ctx.Value(batchKey[B]{}).(*B); shared {
		return b
	}
	return fresh()
}

type batchKey[B any] struct{}

// Descriptor begins the descriptor of the kind.
func (o *Objects[V, M]) Descriptor() scheduler.Descriptor[V, M] {
	k := kind.Of[V, M](o.Kind)
	k.Create, k.GivesBack = o.Create, o.GivesBack
	return k
}

// Create makes one object.
func (o *Objects[V, M]) Create(ctx context.Context, k scheduler.Key, v V) (M, error) {
	return kind.CreateOne(o.CreateBatch)(ctx, k, v)
}

// Update is for kinds whose creation brings what is there into shape.
func (o *Objects[V, M]) Update(ctx context.Context, k scheduler.Key, _, to V, _ M) (M, error) {
	return o.Create(ctx, k, to)
}

// CreateBatch makes many objects with one write to the ledger.
func (o *Objects[V, M]) CreateBatch(ctx context.Context, ops []*scheduler.Op[V, M]) {
	ids := make([]string, len(ops))
	for i, op := range ops {
		ids[i] = string(op.Key)
	}
	defer o.Owner.Begin(ids...)()
	jobs := make([]Job[M], len(ops))
	entries := make([]kernel.Entry, 0, len(ops)) // most have one
	var others []string                          // keys of what is made with an object, and may be of no operation
	ready := 0
	for i, op := range ops {
		if jobs[i], op.Err = o.Prepare(ctx, op); op.Err != nil {
			continue
		}
		ready++
		for _, e := range jobs[i].Entries {
			if entries = append(entries, e); e.ID != ids[i] {
				others = append(others, e.ID)
			}
		}
	}
	if ready == 0 {
		return
	}
	if len(others) > 0 {
		defer o.Owner.Begin(others...)()
	}
	err := o.Owner.Record(entries...)
	if err == nil {
		err = o.Owner.Hit(o.Kind + "/recorded")
	}
	for i, op := range ops {
		if op.Err != nil {
			continue
		}
		if op.Err = err; err == nil {
			op.Meta, op.Err = jobs[i].Make()
		} else if jobs[i].Cancel != nil {
			jobs[i].Cancel()
		}
	}
}
