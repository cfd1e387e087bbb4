package etcd

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
	"github.com/plumb-net/plumb/scheduler"
)

func stat(key, origin string, state scheduler.State) scheduler.Status {
	return scheduler.Status{Key: scheduler.Key(key), Kind: strings.Split(key, "/")[0], Origin: origin, State: state, Since: time.Unix(1000, 0)}
}

// statuses reads what is told in the store: key → state.
func statuses(t testing.TB, kv clientv3.KV) map[string]string {
	t.Helper()
	resp, err := kv.Get(context.Background(), base+"status/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, kv := range resp.Kvs {
		var v statusValue
		if err := json.Unmarshal(kv.Value, &v); err != nil {
			t.Fatal(err)
		}
		out[strings.TrimPrefix(string(kv.Key), base+"status/")] = v.State
	}
	return out
}

// told waits until the store tells exactly "key=state key=state".
func (a *agent) told(kv clientv3.KV, list string) {
	a.t.Helper()
	want := fmt.Sprint(parse(list))
	deadline := time.Now().Add(2 * time.Minute)
	for {
		got := fmt.Sprint(statuses(a.t, kv)) // maps print sorted
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			a.t.Fatalf("the store tells %s, waited for %s; health %v", got, want, a.Health())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func parse(list string) map[string]string {
	out := map[string]string{}
	for _, kv := range strings.Fields(list) {
		k, v, _ := strings.Cut(kv, "=")
		out[k] = v
	}
	return out
}

func TestStatusesAreToldAndTakenBack(t *testing.T) {
	stores(t, func(t *testing.T, c Config, kvs func() clientv3.KV) {
		a := runAgent(t, c)
		a.ready()
		kv := kvs()
		a.brd.set(
			stat("route/r", "etcd", scheduler.Pending),
			stat("interface/gone", "", scheduler.Leftover),
			stat("microservice/web", "", scheduler.Observed),
			stat("microservice/lost", "", scheduler.Unknown),
			scheduler.Status{Key: "address/web/10.0.0.1/24", Base: "interface/web", Origin: "etcd", State: scheduler.Configured},
		)
		a.told(kv, "interface/gone=leftover route/r=pending")
		a.brd.set(stat("route/r", "etcd", scheduler.Configured), stat("interface/gone", "", scheduler.Removed))
		a.told(kv, "route/r=configured")
		a.brd.set(stat("route/r", "", scheduler.Removed))
		a.told(kv, "")
	})
}

func TestStatusValue(t *testing.T) {
	s := scheduler.Status{
		Key: "interface/web", Kind: "interface", State: scheduler.Retrying, Reason: "because", Origin: "etcd",
		Missing: []scheduler.Missing{{Need: "microservice/web", Why: "its namespace"}},
		Fields:  []scheduler.FieldError{{Field: "mtu", Error: "is too small"}},
		Derived: []scheduler.Status{{Key: "address/web/10.0.0.1/24", State: scheduler.Pending, Reason: "waits"}},
		Since:   time.Unix(1000, 0), Attempts: 3, NextTry: time.Unix(1010, 0),
	}
	got := string(encodeStatus(s, "i1"))
	want := `{"key":"interface/web","kind":"interface","name":"web","state":"retrying","reason":"because",` +
		`"missing":[{"need":"microservice/web","why":"its namespace"}],"fields":[{"field":"mtu","error":"is too small"}],` +
		`"origin":"etcd","derived":[{"key":"address/web/10.0.0.1/24","state":"pending","reason":"waits"}],` +
		`"since":"1970-01-01T00:16:40Z","attempts":3,"next_try":"1970-01-01T00:16:50Z","incarnation":"i1"}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	got = string(encodeStatus(scheduler.Status{Key: "route/r", State: scheduler.Configured}, "i1"))
	if want := `{"key":"route/r","kind":"route","name":"r","state":"configured","incarnation":"i1"}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	s.Derived = make([]scheduler.Status, maxDerived+5)
	if got := string(encodeStatus(s, "i1")); !strings.Contains(got, `"derived_more":5`) {
		t.Error("a long list is not cut")
	}
}

// A burst of changes collapses: between two writes of a key lie 100 ms.
func TestABurstCollapses(t *testing.T) {
	b := etcdtest.Start(t)
	kv := client(t, b.URL())
	a := runAgent(t, config(t, b.URL()))
	a.ready()
	a.brd.set(stat("route/r", "etcd", scheduler.Pending))
	a.told(kv, "route/r=pending")
	begin := time.Now()
	for i := 0; time.Since(begin) < 600*time.Millisecond; i++ {
		s := stat("route/r", "etcd", scheduler.Retrying)
		s.Attempts = i
		a.brd.set(s)
		time.Sleep(100 * time.Microsecond)
	}
	a.brd.set(stat("route/r", "etcd", scheduler.Configured))
	a.told(kv, "route/r=configured")
	resp, err := kv.Get(t.Context(), base+"status/route/r")
	if err != nil {
		t.Fatal(err)
	}
	writes := resp.Kvs[0].Version - 1
	if limit := int64(time.Since(begin)/(100*time.Millisecond)) + 2; writes > limit {
		t.Errorf("%d writes in %s, at most %d allowed", writes, time.Since(begin), limit)
	}
}

func TestManyStatusesGoInBatches(t *testing.T) {
	b := etcdtest.Start(t)
	kv := client(t, b.URL())
	a := runAgent(t, config(t, b.URL()))
	a.ready()
	before, err := kv.Get(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	var all []scheduler.Status
	for i := range 1000 {
		s := stat(fmt.Sprintf("route/%03d", i), "etcd", scheduler.Configured)
		all = append(all, s)
		fmt.Fprintf(&want, "%s=configured ", s.Key)
	}
	a.brd.set(all...)
	a.told(kv, want.String())
	after, err := kv.Get(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	if n := after.Header.Revision - before.Header.Revision; n > 12 {
		t.Errorf("1000 statuses took %d transactions", n)
	}
}

// What a former life left is deleted, what differs is written, and what is
// right is not touched.
func TestAfterARestartOnlyTheDifferenceIsWritten(t *testing.T) {
	b := etcdtest.Start(t)
	kv := client(t, b.URL())
	c := config(t, b.URL())
	c.Incarnation = "same"
	right := stat("route/right", "etcd", scheduler.Configured)
	for k, v := range map[string]string{"route/stale": "{}", "route/differs": "{}", "route/right": string(encodeStatus(right, "same"))} {
		if _, err := kv.Put(t.Context(), base+"status/"+k, v); err != nil {
			t.Fatal(err)
		}
	}
	a := newAgent(t, c)
	a.brd.set(right, stat("route/differs", "etcd", scheduler.Pending))
	a.run()
	a.told(kv, "route/differs=pending route/right=configured")
	resp, err := kv.Get(t.Context(), base+"status/route/right")
	if err != nil || resp.Kvs[0].Version != 1 {
		t.Errorf("the right one was written again: %v %v", resp.Kvs, err)
	}
}

// While the store is away nothing is lost and nothing waits; after it, the
// latest is told.
func TestStatusesGoOnAfterTheStoreWasAway(t *testing.T) {
	b := etcdtest.Start(t)
	kv := client(t, b.URL())
	a := runAgent(t, config(t, b.URL()))
	a.ready()
	a.brd.set(stat("route/a", "etcd", scheduler.Pending), stat("route/b", "etcd", scheduler.Pending))
	a.told(kv, "route/a=pending route/b=pending")
	b.Stop()
	a.state(healthDown, "")
	a.brd.set(stat("route/a", "etcd", scheduler.Retrying))
	a.brd.set(stat("route/a", "etcd", scheduler.Configured), stat("route/b", "", scheduler.Removed))
	b.Start()
	a.told(kv, "route/a=configured")

	// Another store gets all of them.
	b.Wipe()
	a.told(kv, "route/a=configured")
}

func TestTheLastStatusesAreWrittenAtTheEnd(t *testing.T) {
	b := etcdtest.Start(t)
	kv := client(t, b.URL())
	a := runAgent(t, config(t, b.URL()))
	a.ready()
	a.brd.set(stat("route/r", "etcd", scheduler.Pending))
	a.told(kv, "route/r=pending")
	a.brd.set(stat("route/r", "etcd", scheduler.Configured))
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	if got := statuses(t, kv)["route/r"]; got != "configured" {
		t.Errorf("the store tells %q", got)
	}
}

// An agent that lost its label does not write over the statuses of the one
// that has it.
func TestWithoutTheLabelNoStatusIsWritten(t *testing.T) {
	b := etcdtest.Start(t)
	kv := client(t, b.URL())
	a := runAgent(t, config(t, b.URL()))
	a.ready()
	a.brd.set(stat("route/r", "etcd", scheduler.Pending))
	a.told(kv, "route/r=pending")
	lease, err := kv.Grant(t.Context(), 60)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(t.Context(), base+"agent", `{"uuid":"another","host":"elsewhere"}`, clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
	a.brd.set(stat("route/r", "etcd", scheduler.Configured))
	a.state(healthDegraded, "elsewhere")
	if got := statuses(t, kv)["route/r"]; got != "pending" {
		t.Errorf("the store tells %q", got)
	}
	if _, err := kv.Revoke(t.Context(), lease.ID); err != nil {
		t.Fatal(err)
	}
	a.told(kv, "route/r=configured")
}
