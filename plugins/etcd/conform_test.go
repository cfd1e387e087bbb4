package etcd

import (
	"context"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
	"github.com/plumb-net/plumb/plugins/intent"
	"github.com/plumb-net/plumb/plugins/intent/intenttest"
)

// TestConform holds the source to the contract of sources of intent, with the store behind a proxy.
func TestConform(t *testing.T) {
	intenttest.Conform(t, func(t *testing.T) intenttest.World {
		b := etcdtest.Start(t)
		proxy := etcdtest.StartProxy(t, b.Addr())
		c := config(t, proxy.URL())
		kv := func() clientv3.KV { return client(t, b.URL()) }
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		return intenttest.World{
			New: func(to intenttest.Submitter) (intent.Source, error) {
				return New(c, models.Decode, to, newBoard().watch)
			},
			Put: func(key, value string) {
				_, err := kv().Put(context.Background(), base+"config/"+key, value)
				must(err)
			},
			Delete: func(key string) {
				_, err := kv().Delete(context.Background(), base+"config/"+key)
				must(err)
			},
			Away: proxy.Cut, Back: proxy.Mend, Replace: b.Wipe,
			Accept: func(s intent.Source) error {
				_, err := s.(*Plugin).Accept(context.Background())
				return err
			},
		}
	})
}
