package microservice

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// Microservices describes microservice/<label>.
func Microservices(s Source) scheduler.Descriptor[*models.Microservice, struct{}] {
	return describe(models.KindMicroservice, s, s.Microservices)
}

// Containers describes container/<runtime>:<id>.
func Containers(s Source) scheduler.Descriptor[*models.Container, struct{}] {
	return describe(models.KindContainer, s, s.Containers)
}

// describe makes the descriptor of a kind whose values read returns by name.
func describe[V proto.Message](name string, s Source, read func() (map[string]V, error)) scheduler.Descriptor[V, struct{}] {
	k := kind[V]{prefix: name + "/", source: s, read: read}
	return scheduler.Descriptor[V, struct{}]{
		Name:   name,
		Prefix: scheduler.Key(k.prefix),
		// The process, its start and its namespace are part of the value, so
		// that a container which was restarted is never the same as before.
		Equal:    func(_ scheduler.Key, a, b V) bool { return proto.Equal(a, b) },
		Encode:   models.EncodeValue[V],
		Decode:   models.DecodeValue[V],
		Retrieve: k.retrieve,
		Watch:    k.watch,
	}
}

type kind[V proto.Message] struct {
	prefix string
	source Source
	read   func() (map[string]V, error)
}

func (k kind[V]) key(name string) scheduler.Key {
	return scheduler.Key(k.prefix + models.Escape(name))
}

type (
	found[V any] = scheduler.Found[V, struct{}]
	scope[V any] = scheduler.Scope[V, struct{}]
)

func (k kind[V]) retrieve(_ context.Context, s scope[V]) iter.Seq2[found[V], error] {
	// Synced is asked first: what becomes known after it does no harm.
	synced := k.source.Synced()
	values, err := k.read()
	byKey := make(map[scheduler.Key]V, len(values))
	for name, v := range values {
		byKey[k.key(name)] = v
	}
	if s.All {
		return k.all(s, byKey, err, synced)
	}
	return k.some(s.Keys, byKey, err)
}

// all yields everything that is known. Before the first complete picture the
// whole kind is unknown: what is not seen yet may be what the agent's own
// objects stand on. Later, when a runtime does not answer, that holds only for
// what was there and cannot be told from gone; what surely lives stays usable.
func (k kind[V]) all(s scope[V], byKey map[scheduler.Key]V, err error, synced bool) iter.Seq2[found[V], error] {
	return func(yield func(found[V], error) bool) {
		if err != nil && !synced {
			yield(found[V]{}, err)
			return
		}
		keys := slices.Collect(maps.Keys(byKey))
		if err != nil {
			for _, known := range s.Known {
				keys = append(keys, known.Key)
			}
		}
		slices.Sort(keys)
		k.some(slices.Compact(keys), byKey, err)(yield)
	}
}

// some yields the values of the keys, and for those of which nothing is known
// the reason.
func (k kind[V]) some(keys []scheduler.Key, byKey map[scheduler.Key]V, err error) iter.Seq2[found[V], error] {
	return func(yield func(found[V], error) bool) {
		for _, key := range keys {
			v, known := byKey[key]
			switch {
			case known && v.ProtoReflect().IsValid():
				if !yield(found[V]{Key: key, Value: v, Foreign: true}, nil) {
					return
				}
			case !known && err != nil:
				if !yield(found[V]{Key: key}, err) {
					return
				}
			}
		}
	}
}

// watch passes on the keys of this kind.
func (k kind[V]) watch(ctx context.Context, notify func(keys ...scheduler.Key)) error {
	return k.source.Watch(ctx, func(changed ...string) {
		var keys []scheduler.Key
		for _, key := range changed {
			if strings.HasPrefix(key, k.prefix) {
				keys = append(keys, scheduler.Key(key))
			}
		}
		if len(keys) > 0 || len(changed) == 0 {
			notify(keys...)
		}
	})
}
