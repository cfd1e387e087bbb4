// Package fleet looks at all agents of an etcd, asks them, and brings changes to them in
// waves. It speaks with etcd alone; what it keeps there for agents is in package record, and
// rollouts are below /plumb-fleet/:
//
//	lock                    who carries out a rollout (lease)
//	rollout/<id>            what it is and how far it has come      Rollout
//	host/<id>/<label>       what a host gets, and what came of it   Host
package fleet

import (
	"context"
	"encoding/json"
	"time"

	"github.com/plumb-net/plumb/plugins/etcd/dial"
	"github.com/plumb-net/plumb/plugins/fleet/record"
)

// outlive is how long what we ask of agents outlives us.
const outlive = 15 * time.Second

// Fleet is all agents of an etcd.
type Fleet struct {
	etcd *dial.Client
	// Now is the time; a test may set another clock.
	Now func() time.Time
	// outcomeEvery is how often it is looked what came of a wave.
	outcomeEvery time.Duration
}

// Open makes the connection. Without a user it does not wait for etcd.
func Open(ctx context.Context, c dial.Config) (*Fleet, error) {
	etcd, err := dial.Connect(ctx, c)
	if err != nil {
		return nil, err
	}
	return &Fleet{etcd, time.Now, outcomeEvery}, nil
}

// Close ends the connection.
func (f *Fleet) Close() { f.etcd.Close() }

// getAll reads one key of each label, as far as they are there.
func (f *Fleet) getAll(ctx context.Context, labels []string, name string) (map[string][]byte, error) {
	keys := make([]string, len(labels))
	for i, l := range labels {
		keys[i] = below(l, name)
	}
	got, err := f.etcd.Get(ctx, keys...)
	out := make(map[string][]byte, len(got))
	for i, l := range labels {
		if value, there := got[keys[i]]; there {
			out[l] = value
		}
	}
	return out, err
}

// put is a value to write as JSON.
type put struct {
	key   string
	value any
}

func (f *Fleet) putAll(ctx context.Context, puts []put, l *dial.Lease) error {
	kvs := make([]dial.KV, len(puts))
	for i, p := range puts {
		value, err := json.Marshal(p.value)
		if err != nil {
			return err
		}
		kvs[i] = dial.KV{Key: p.key, Value: value}
	}
	return f.etcd.Put(ctx, kvs, l)
}

// list reads all values below a prefix, by what follows the prefix.
func (f *Fleet) list(ctx context.Context, prefix string, do func(name string, value []byte) error) error {
	return f.etcd.List(ctx, prefix, func(kv dial.KV) error { return do(kv.Key[len(prefix):], kv.Value) })
}

// below is a key of an agent.
func below(label, key string) string { return record.Root + label + "/" + key }
