package etcd

import (
	"hash/maphash"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// view is what the scheduler was told of the store, by raw name.
type view map[string]known

// known is what the scheduler was told of a key.
type known struct {
	rev int64  // that last changed the key
	sum uint64 // of the value, by a seed of this process
}

var sums = maphash.MakeSeed()

func tell(kv *mvccpb.KeyValue) known { return known{kv.ModRevision, maphash.Bytes(sums, kv.Value)} }

// viewOf makes the view of a list.
func viewOf(prefix string, kvs []*mvccpb.KeyValue) view {
	v := make(view, len(kvs))
	for _, kv := range kvs {
		v[string(kv.Key[len(prefix):])] = tell(kv)
	}
	return v
}

// apply brings what events change into the view.
func (v view) apply(prefix string, events []*mvccpb.Event) {
	for _, e := range events {
		name := string(e.Kv.Key[len(prefix):])
		if e.Type == mvccpb.Event_DELETE {
			delete(v, name)
		} else {
			v[name] = tell(e.Kv)
		}
	}
}
