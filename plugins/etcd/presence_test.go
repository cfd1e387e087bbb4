package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
	"github.com/plumb-net/plumb/plugins/fleet/record"
)

func holder(t *testing.T, kv clientv3.KV) (record.Presence, clientv3.LeaseID) {
	t.Helper()
	resp, err := kv.Get(t.Context(), base+"agent")
	if err != nil {
		t.Fatal(err)
	}
	var p record.Presence
	if len(resp.Kvs) == 0 {
		return p, 0
	}
	if err := json.Unmarshal(resp.Kvs[0].Value, &p); err != nil {
		t.Fatal(err)
	}
	return p, clientv3.LeaseID(resp.Kvs[0].Lease)
}

func TestPresenceTellsWhoIsThereAndLeavesAtOnce(t *testing.T) {
	b := etcdtest.Start(t)
	kv := client(t, b.URL())
	c := config(t, b.URL())
	c.Version, c.Incarnation = "1.2.3", "inc-1"
	a := runAgent(t, c)
	a.ready()
	p, lease := holder(t, kv)
	host, _ := os.Hostname()
	if p.Host != host || p.PID != os.Getpid() || p.Version != "1.2.3" || p.Incarnation != "inc-1" || p.UUID == "" || lease == 0 || time.Since(p.StartedAt) > time.Minute {
		t.Errorf("presence is %+v under lease %x", p, lease)
	}
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	if _, lease := holder(t, kv); lease != 0 {
		t.Error("presence outlives a clean stop")
	}
}

func TestASecondAgentIsRefused(t *testing.T) {
	b := etcdtest.Start(t)
	first := runAgent(t, config(t, b.URL()))
	first.ready()
	second := newAgent(t, config(t, b.URL()))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	err := second.Run(ctx)
	var taken *LabelTakenError
	if !errors.As(err, &taken) || !errors.Is(err, ErrLabelTaken) || taken.Holder.PID != os.Getpid() || taken.Expires <= 0 {
		t.Fatalf("Run: %v", err)
	}
	if !strings.Contains(err.Error(), "--label") {
		t.Errorf("no hint in %q", err)
	}
	if second.rec.count() != 0 {
		t.Error("the second agent took intent")
	}
	// Another label is another agent.
	c := config(t, b.URL())
	c.Label = "other"
	runAgent(t, c).ready()
}

// After a crash the lease lives on; the same state directory does not wait.
func TestTheSameStateDirectoryTakesOverAtOnce(t *testing.T) {
	b := etcdtest.Start(t)
	c := config(t, b.URL())
	c.tune.leaseTTL = time.Hour
	kv := client(t, b.URL())
	dead := newAgent(t, c)
	uuid, err := loadUUID(c.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	l, err := openExternal(t.Context(), dead.Plugin.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	dead.presence.me = record.Presence{UUID: uuid, Host: "gone", Incarnation: "old"}
	if err := dead.presence.begin(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	_, old := holder(t, kv)

	a := runAgent(t, c)
	a.ready()
	p, lease := holder(t, kv)
	if p.Incarnation == "old" || lease == old {
		t.Errorf("presence is still %+v", p)
	}
	if ttl, err := client(t, b.URL()).TimeToLive(t.Context(), old); err != nil || ttl.TTL > 0 {
		t.Errorf("the old lease lives on: %v, %v", ttl, err)
	}
}

func TestALostLeaseIsMadeAnew(t *testing.T) {
	stores(t, func(t *testing.T, c Config, kvs func() clientv3.KV) {
		a := runAgent(t, c)
		a.ready()
		kv := kvs()
		_, old := holder(t, kv)
		if _, err := kv.(*clientv3.Client).Revoke(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		a.key("agent", `"host"`)
		if _, lease := holder(t, kv); lease == old {
			t.Error("the old lease is back")
		}
		del(t, kv, "agent")
		a.key("agent", `"host"`)
		a.state(healthOK, "")
	})
}

// An agent that was away for longer than its lease finds another one there:
// it says so, does not fight, and takes the label back when it is free.
func TestADisplacedAgentDoesNotFight(t *testing.T) {
	b := etcdtest.Start(t)
	kv := client(t, b.URL())
	a := runAgent(t, config(t, b.URL()))
	a.ready()
	lease, err := kv.Grant(t.Context(), 60)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(t.Context(), base+"agent", `{"uuid":"another","host":"elsewhere"}`, clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
	a.state(healthDegraded, "elsewhere")
	if p, _ := holder(t, kv); p.Host != "elsewhere" {
		t.Errorf("the label was taken back: %+v", p)
	}
	if _, err := kv.Revoke(t.Context(), lease.ID); err != nil {
		t.Fatal(err)
	}
	a.state(healthOK, "")
}

func TestPresenceWithoutALeaseIsNobody(t *testing.T) {
	b := etcdtest.Start(t)
	if _, err := client(t, b.URL()).Put(t.Context(), base+"agent", `{"uuid":"written by hand"}`); err != nil {
		t.Fatal(err)
	}
	runAgent(t, config(t, b.URL())).ready()
}

func TestTwoWhoStartAtOnceAreNotBothTaken(t *testing.T) {
	b := etcdtest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	errs := make(chan error)
	for range 5 {
		a := newAgent(t, config(t, b.URL()))
		go func() { errs <- a.Run(ctx) }()
	}
	for range 4 {
		if err := <-errs; !errors.Is(err, ErrLabelTaken) {
			t.Errorf("one of the four that are to be refused: %v", err)
		}
	}
	cancel() // only then does the fifth end
	if err := <-errs; err != nil {
		t.Error(err)
	}
}

func TestTheUUIDStays(t *testing.T) {
	dir := t.TempDir()
	one, err := loadUUID(dir)
	if err != nil {
		t.Fatal(err)
	}
	two, err := loadUUID(dir)
	if err != nil || one != two || len(one) != 36 {
		t.Errorf("%q then %q, %v", one, two, err)
	}
}

// TestDuplicateIsTold: who looks at the fleet sees that another agent wanted the label, for
// a while.
func TestDuplicateIsTold(t *testing.T) {
	b := etcdtest.Start(t)
	kv := client(t, b.URL())
	runAgent(t, config(t, b.URL())).ready()
	c := config(t, b.URL())
	c.Labels = map[string]string{"role": "web"}
	second := newAgent(t, c)
	if err := second.Run(t.Context()); !errors.Is(err, ErrLabelTaken) {
		t.Fatal(err)
	}
	resp, err := kv.Get(t.Context(), base+record.DuplicateKey)
	if err != nil || len(resp.Kvs) != 1 {
		t.Fatal(resp, err)
	}
	var d record.Duplicate
	if err := json.Unmarshal(resp.Kvs[0].Value, &d); err != nil || d.UUID == "" || d.Labels["role"] != "web" || d.Time.IsZero() {
		t.Errorf("%+v, %v", d, err)
	}
	ttl, err := kv.TimeToLive(t.Context(), clientv3.LeaseID(resp.Kvs[0].Lease))
	if err != nil || ttl.GrantedTTL != int64(duplicateTTL.Seconds()) {
		t.Error(ttl, err)
	}
}
