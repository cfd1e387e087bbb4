package etcd

import (
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
	"github.com/plumb-net/plumb/plugins/fleet/record"
)

// TestAskedAndTold: what is asked of the agent wakes it, also what came while the store was
// away; and it tells nothing once the label is another's.
func TestAskedAndTold(t *testing.T) {
	b := etcdtest.Start(t)
	kv := client(t, b.URL())
	a := runAgent(t, config(t, b.URL()))
	a.ready()
	asked := func(what string) {
		t.Helper()
		select {
		case <-a.Asked():
		case <-time.After(time.Minute):
			t.Fatal(what, "does not wake the agent")
		}
	}
	asked("the first list")
	if _, err := kv.Put(t.Context(), base+record.AskPrefix+"1", "x"); err != nil {
		t.Fatal(err)
	}
	asked("a question")
	list, err := a.List(t.Context(), record.ForAgent)
	if err != nil || len(list) != 1 || list[0].Key != record.AskPrefix+"1" {
		t.Error(list, err)
	}
	if me, err := a.Me(t.Context()); err != nil || me.UUID == "" {
		t.Error(me, err)
	}

	lease, err := kv.Grant(t.Context(), 600)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Tell(t.Context(), record.AnswerPrefix+"1", []byte("y"), int64(lease.ID)); err != nil {
		t.Fatal(err)
	}
	resp, err := kv.Get(t.Context(), base+record.AnswerPrefix+"1")
	if err != nil || len(resp.Kvs) != 1 || clientv3.LeaseID(resp.Kvs[0].Lease) != lease.ID {
		t.Error(resp, err)
	}
	if _, err := kv.Put(t.Context(), base+record.PresenceKey, `{"uuid":"other"}`, clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
	if err := a.Tell(t.Context(), record.SummaryKey, []byte("z"), 0); !errors.Is(err, errNotHolder) {
		t.Error("an agent without its label told a summary:", err)
	}

	b.Stop()
	b.Start()
	asked("a list after the store was away")
}
