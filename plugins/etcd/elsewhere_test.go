package etcd

import (
	"context"
	"fmt"
	"slices"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestElsewhere: who asks why nobody wants a key is told of whom it is wanted.
func TestElsewhere(t *testing.T) {
	stores(t, func(t *testing.T, c Config, direct func() clientv3.KV) {
		a := runAgent(t, c)
		a.ready()
		ctx := context.Background()
		kv := direct()
		for _, key := range []string{
			"/plumb/" + c.Label + "/config/route/a", "/plumb/host2/config/route/a", "/plumb/host2/config/route/b",
			"/plumb/host2/status/route/c", "/plumb/host3/config/route/a", "/plumb/host30/config/route/a/b", "/plumb/stray", "/plumbing/x/config/route/a",
		} {
			if _, err := kv.Put(ctx, key, "{}"); err != nil {
				t.Fatal(err)
			}
		}
		for key, want := range map[string][]string{"config/route/a": {"host2", "host3"}, "config/route/b": {"host2"}, "config/route/c": nil} {
			if got, err := a.Elsewhere(ctx, key); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: %v, %v, want %v", key, got, err, want)
			}
		}
		for i := range 2 * mostLabels {
			if _, err := kv.Put(ctx, fmt.Sprintf("/plumb/many%03d/config/route/d", i), "{}"); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := a.Elsewhere(ctx, "config/route/d"); err != nil || len(got) > mostLabels || len(got) == 0 {
			t.Errorf("of very many labels: %d, %v", len(got), err)
		}
		if _, err := a.Elsewhere(ctx, "/plumb/host2/config/route/a"); err == nil {
			t.Error("a key with a label is taken")
		}
	})
}
