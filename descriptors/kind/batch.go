package kind

import (
	"context"

	"github.com/plumb-net/plumb/scheduler"
)

// CreateOne makes one object by what makes many.
func CreateOne[V, M any](many func(context.Context, []*scheduler.Op[V, M])) func(context.Context, scheduler.Key, V) (M, error) {
	return func(ctx context.Context, k scheduler.Key, v V) (M, error) {
		o := &scheduler.Op[V, M]{Key: k, Value: v}
		many(ctx, []*scheduler.Op[V, M]{o})
		return o.Meta, o.Err
	}
}

// DeleteOne removes one object by what removes many.
func DeleteOne[V, M any](many func(context.Context, []*scheduler.Op[V, M])) func(context.Context, scheduler.Key, V, M) error {
	return func(ctx context.Context, k scheduler.Key, v V, m M) error {
		o := &scheduler.Op[V, M]{Key: k, Value: v, Meta: m}
		many(ctx, []*scheduler.Op[V, M]{o})
		return o.Err
	}
}
