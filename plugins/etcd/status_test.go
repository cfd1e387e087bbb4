package etcd

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

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
}

// A status is bounded, whatever is wanted; what is left out is counted, and
// characters stay whole.
func TestStatusValuesAreBounded(t *testing.T) {
	long := strings.Repeat("ä", 300<<10)
	s := scheduler.Status{Key: "route/r", State: scheduler.Pending, Reason: long}
	for i := range 2000 {
		s.Derived = append(s.Derived, scheduler.Status{Key: "d"})
		if i < 500 {
			s.Missing = append(s.Missing, scheduler.Missing{Need: "n" + long, Why: long})
			s.Fields = append(s.Fields, scheduler.FieldError{Field: "f", Error: long})
		}
	}
	data := encodeStatus(s, "i1")
	if len(data) > 256<<10 || !utf8.Valid(data) {
		t.Errorf("%d bytes", len(data))
	}
	var v statusValue
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsRune(v.Reason+v.Missing[0].Need, utf8.RuneError) || !strings.HasSuffix(v.Reason, "… (613376 bytes more)") {
		t.Errorf("the reason ends with %s", v.Reason[len(v.Reason)-40:])
	}
	if n := len(v.Missing); n == 0 || n+v.MissingMore != 500 {
		t.Errorf("%d and %d missing", n, v.MissingMore)
	}
	if n := len(v.Fields); n == 0 || n+v.FieldsMore != 500 {
		t.Errorf("%d and %d fields", n, v.FieldsMore)
	}
	if n := len(v.Derived); n != maxStatusList || v.DerivedMore != 1000 {
		t.Errorf("%d and %d derived", n, v.DerivedMore)
	}
}

// A value that wants very much does not keep the statuses of others back.
func TestOneLargeStatusHarmsOneKey(t *testing.T) {
	b := etcdtest.Start(t)
	kv := client(t, b.URL())
	a := runAgent(t, config(t, b.URL()))
	a.ready()
	large := stat("route/large", "etcd", scheduler.Pending)
	for range 3000 {
		large.Missing = append(large.Missing, scheduler.Missing{Need: "interface/" + strings.Repeat("x", 800)})
	}
	a.brd.set(large, stat("route/a", "etcd", scheduler.Pending), stat("route/z", "etcd", scheduler.Pending))
	a.told(kv, "route/a=pending route/large=pending route/z=pending")
}

// What the store refuses is split; the one that it never takes is left out,
// told in the health, and tried again when it changes.
func TestRefusedStatusesAreLeftOut(t *testing.T) {
	b := etcdtest.Start(t, "--max-request-bytes", "20000", "--max-txn-ops", "30")
	kv := client(t, b.URL())
	a := runAgent(t, config(t, b.URL()))
	a.ready()
	large := stat("route/m", "etcd", scheduler.Pending)
	for range 30 {
		large.Missing = append(large.Missing, scheduler.Missing{Need: strings.Repeat("x", 1000)})
	}
	want, all := "", []scheduler.Status{large}
	for i := range 120 {
		s := stat(fmt.Sprintf("route/a%03d", i), "etcd", scheduler.Pending)
		s.Reason = strings.Repeat("y", 900)
		all, want = append(all, s), want+string(s.Key)+"=pending "
	}
	all = append(all, stat("route/z", "etcd", scheduler.Pending))
	a.brd.set(all...)
	a.told(kv, want+"route/z=pending")
	a.state(healthOK, "the store does not take the status of route/m (request is too large), 1 in all")
	a.brd.set(stat("route/m", "etcd", scheduler.Configured))
	a.told(kv, want+"route/m=configured route/z=pending")
	a.brd.set(large)
	a.state(healthOK, "the store does not take the status of route/m")
	a.brd.set(stat("route/m", "", scheduler.Removed))
	a.told(kv, want+"route/z=pending")
	a.await("nothing is refused any more", func() bool { return a.Health().Reason == "" })
}

// FuzzStatusValue: whatever texts a status has, its value is JSON of bounded
// size that says what it can.
func FuzzStatusValue(f *testing.F) {
	f.Add("interface/web", "because", "ä\xff\x00", 3)
	f.Add("", strings.Repeat("ü", 1000), "\u2028", 2000)
	f.Fuzz(func(t *testing.T, key, reason, why string, n int) {
		s := scheduler.Status{Key: scheduler.Key(key[:min(len(key), 300)]), Reason: reason}
		for range min(max(n, 0), 3000) {
			s.Missing = append(s.Missing, scheduler.Missing{Need: key, Why: why})
		}
		data := encodeStatus(s, "i")
		var v statusValue
		if err := json.Unmarshal(data, &v); err != nil || len(v.Missing)+v.MissingMore != len(s.Missing) {
			t.Fatalf("%v\n%s", err, data)
		}
		if len(data) > maxStatusBytes { // also with six bytes for each
			t.Fatalf("%d bytes", len(data))
		}
	})
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

// While intent is being carried out, a mass of statuses is written little by little.
func TestManyStatusesSpareTheStore(t *testing.T) {
	b := etcdtest.Start(t)
	kv := client(t, b.URL())
	c := config(t, b.URL())
	c.tune.statusMass = 100 * time.Millisecond
	a := newAgent(t, c)
	var underWay atomic.Bool
	underWay.Store(true)
	a.status.underWay = underWay.Load
	a.run()
	a.ready()
	many := func(state scheduler.State) (took time.Duration) {
		var want strings.Builder
		var all []scheduler.Status
		for i := range 3000 {
			s := stat(fmt.Sprintf("route/%04d", i), "etcd", state)
			all = append(all, s)
			fmt.Fprintf(&want, "%s=%s ", s.Key, state)
		}
		begin := time.Now()
		a.brd.set(all...)
		a.told(kv, want.String())
		return time.Since(begin)
	}
	if took := many(scheduler.Pending); took < 4*c.tune.statusMass {
		t.Errorf("3000 statuses were written in %s, while something was under way", took)
	}
	underWay.Store(false)
	many(scheduler.Configured) // and all the same when nothing is
}

// Nor are they listed when a session begins, as at a start, unless that never ends.
func TestAListOfManyStatusesWaits(t *testing.T) {
	b := etcdtest.Start(t)
	kv := client(t, b.URL())
	c := config(t, b.URL())
	c.tune.statusCalm = 300 * time.Millisecond
	a := newAgent(t, c)
	a.status.underWay = func() bool { return true }
	a.status.intent = func() int { return manyStatuses + 1 }
	begin := time.Now()
	a.run()
	a.ready()
	a.brd.set(stat("route/r", "etcd", scheduler.Configured))
	a.told(kv, "route/r=configured")
	if took := time.Since(begin); took < c.tune.statusCalm {
		t.Errorf("the statuses were listed after %s, while something was under way", took)
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
