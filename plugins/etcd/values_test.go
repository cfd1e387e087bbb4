package etcd

import (
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/plumb-net/plumb/models"
)

// FuzzIntent: whatever key and value somebody puts into the store, it is a change
// of that key alone, valid or not.
func FuzzIntent(f *testing.F) {
	f.Add("interface/web", []byte(`{"veth":{"peer":"db"},"addresses":["10.0.0.1/24"]}`))
	f.Add("interface/web", []byte(`{"adresses":[null],"mtu":1e400}`))
	f.Add("route/r", []byte(`{"nexthops":[{}],"destination":"default"}`))
	f.Add("a//b/../\x00\xff", []byte("\xff{"))
	f.Add("nftables/t", []byte(`{"chains":[{"rules":["; delete table x"]}]}`))
	f.Add("", []byte("[[[[[["))
	const prefix = "/plumb/h/config/"
	decode := Decoder(models.Decode)
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		kv := &mvccpb.KeyValue{Key: []byte(prefix + key), Value: value, ModRevision: 1}
		for _, c := range decode.decodeAll(prefix, []*mvccpb.KeyValue{kv}) {
			if c.Invalid == nil && c.Value == nil {
				t.Errorf("%q = %q deletes %s", key, value, c.Key)
			}
		}
	})
}
