package etcd

import (
	"maps"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
)

// wanted waits until what is wanted is this, by key.
func wanted(t *testing.T, a *agent, want map[string]string) {
	t.Helper()
	a.await("what is wanted", func() bool { return maps.Equal(a.rec.wanted(), want) })
}

// TestOverride: other values count, also without a store and when it comes back, but only
// for what the store still holds; in the end the store counts again.
func TestOverride(t *testing.T) {
	b := etcdtest.Start(t)
	kv := client(t, b.URL())
	for name, text := range map[string]string{"changed": "new", "made": "new", "theirs": "new", "other": "x"} {
		put(t, kv, "route/"+name, text)
	}
	a := runAgent(t, config(t, b.URL()))
	a.ready()
	b.Stop()
	a.Override([]models.Override{
		{Key: "config/route/changed", Stored: []byte(`"new"`), Value: []byte(`"old"`)},
		{Key: "config/route/made", Stored: []byte(`"new"`)},
		{Key: "config/route/gone", Value: []byte(`"old"`)},
		{Key: "config/route/theirs", Stored: []byte(`"else"`), Value: []byte(`"old"`)},
		{Key: "applyset/x", Value: []byte(`{}`)},
	})
	wanted(t, a, map[string]string{"route/changed": "old", "route/gone": "old", "route/theirs": "old", "route/other": "x"})
	b.Start()
	old := map[string]string{"route/changed": "old", "route/gone": "old", "route/theirs": "new", "route/other": "x"}
	wanted(t, a, old)

	// Events count in the same way.
	a.upTo(put(t, kv, "route/changed", "new"))
	a.upTo(put(t, kv, "route/made", "new"))
	wanted(t, a, old)
	a.upTo(put(t, kv, "route/made", "by hand"))
	old["route/made"] = "by hand"
	wanted(t, a, old)
	put(t, kv, "route/gone", "again")
	a.upTo(del(t, kv, "config/route/gone"))
	wanted(t, a, old)

	a.Override(nil)
	wanted(t, a, map[string]string{"route/changed": "new", "route/made": "by hand", "route/theirs": "new", "route/other": "x"})
}

// TestOverrideBeforeTheFirstList: what counts is told before the store answers, and its
// first word respects it.
func TestOverrideBeforeTheFirstList(t *testing.T) {
	stores(t, func(t *testing.T, c Config, kv func() clientv3.KV) {
		a := newAgent(t, c)
		a.Override([]models.Override{
			{Key: "config/route/r", Stored: []byte(`"new"`), Value: []byte(`"old"`)},
			{Key: "config/route/s", Stored: []byte(`"split"`)},
			{Key: "config/route/t", Stored: []byte(`"split"`), Value: []byte(`"split"`)},
		})
		if got := story(a.rec.since(0)); got != "taken back, and not yet written: route/r=old -route/s route/t=split -part/route/s\n" {
			t.Error(got)
		}
		a.run()
		a.ready()
		a.upTo(put(t, kv(), "route/r", "new"))
		wanted(t, a, map[string]string{"route/r": "old"})
		a.upTo(put(t, kv(), "route/r", "old"))
		a.Override(nil)
		wanted(t, a, map[string]string{"route/r": "old"})
	})
}
