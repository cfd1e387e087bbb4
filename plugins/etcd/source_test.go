package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
	"github.com/plumb-net/plumb/scheduler"
)

func TestTheFirstWordIsCompleteEvenIfEmpty(t *testing.T) {
	stores(t, func(t *testing.T, c Config, kv func() clientv3.KV) {
		a := runAgent(t, c)
		a.ready()
		if txns := a.rec.since(0); len(txns) != 1 || !txns[0].Complete || len(txns[0].Want) != 0 || txns[0].Source != "etcd" {
			t.Errorf("got\n%s", story(txns))
		}
		a.state(healthOK, "")
		for _, k := range []string{"store.json", "uuid"} {
			if _, err := os.Stat(filepath.Join(c.StateDir, k)); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestPutsAndDeletesAreTransactionsOfTheirOwn(t *testing.T) {
	stores(t, func(t *testing.T, c Config, kv func() clientv3.KV) {
		a := runAgent(t, c)
		a.ready()
		s := kv()
		put(t, s, "route/r1", "one")
		put(t, s, "route/r2", "two")
		a.upTo(del(t, s, "config/route/r1"))
		want := "put route/r1, not through the agent: route/r1=one\nput route/r2, not through the agent: route/r2=two\ndelete route/r1, not through the agent: -route/r1\n"
		if got := story(a.rec.since(1)); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
}

// 1,000 keys in one transaction of the store are one transaction of ours.
func TestOneRevisionIsOneTransaction(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		c := config(t)
		a := runAgent(t, c)
		a.ready()
		oneRevision(t, a, client(t, "unix://"+c.socket()))
	})
	t.Run("external", func(t *testing.T) {
		b := etcdtest.Start(t, "--max-txn-ops=2000")
		a := runAgent(t, config(t, b.URL()))
		a.ready()
		oneRevision(t, a, client(t, b.URL()))
	})
}

func oneRevision(t *testing.T, a *agent, kv clientv3.KV) {
	ops := make([]clientv3.Op, 1000)
	for i := range ops {
		ops[i] = clientv3.OpPut(fmt.Sprintf("%sconfig/route/r%03d", base, 999-i), `"x"`)
	}
	resp, err := kv.Txn(t.Context()).Then(ops...).Commit()
	if err != nil {
		t.Fatal(err)
	}
	a.upTo(resp.Header.Revision)
	txns := a.rec.since(1)
	if len(txns) != 1 || len(txns[0].Want) != 1000 || txns[0].Complete {
		t.Fatalf("got %d transactions\n%s", len(txns), story(txns))
	}
	if want := fmt.Sprintf("1000 keys at revision %d, not through the agent", resp.Header.Revision); txns[0].Note != want {
		t.Errorf("note %q, want %q", txns[0].Note, want)
	}
	sorted := slices.IsSortedFunc(txns[0].Want, func(a, b scheduler.Change) int { return strings.Compare(string(a.Key), string(b.Key)) })
	if !sorted {
		t.Error("the changes are not in the order of keys")
	}
}

// Revisions are never joined, however close they are.
func TestAdjacentRevisionsAreTwoTransactions(t *testing.T) {
	stores(t, func(t *testing.T, c Config, kv func() clientv3.KV) {
		a := runAgent(t, c)
		a.ready()
		s := kv()
		done := make(chan error)
		const n = 200
		for i := range n {
			go func() {
				_, err := s.Put(context.Background(), base+"config/route/r", fmt.Sprintf(`"%d"`, i))
				done <- err
			}()
		}
		for range n {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		a.upTo(put(t, s, "route/r", "end"))
		if txns := a.rec.since(1); len(txns) != n+1 {
			t.Errorf("%d revisions made %d transactions\n%s", n+1, len(txns), story(txns))
		}
	})
}

// A scheduler that is slow makes the server send many revisions in one
// response, in fragments. They stay apart and whole.
func TestASlowSubmitterStillGetsEveryRevisionWhole(t *testing.T) {
	b := etcdtest.Start(t)
	c := config(t, b.URL())
	a := runAgent(t, c)
	a.ready()
	kv := client(t, b.URL())
	gate := make(chan struct{})
	a.rec.mu.Lock()
	a.rec.gate = gate
	a.rec.mu.Unlock()
	big := strings.Repeat("x", 8<<10)
	const n = 1500
	var last int64
	for i := range n {
		resp, err := kv.Txn(t.Context()).Then(
			clientv3.OpPut(base+"config/route/a", fmt.Sprintf(`"%d %s"`, i, big)),
			clientv3.OpPut(base+"config/route/b", fmt.Sprintf(`"%d"`, i)),
			clientv3.OpDelete(base+"config/route/c")).Commit()
		if err != nil {
			t.Fatal(err)
		}
		last = resp.Header.Revision
	}
	close(gate)
	a.upTo(last)
	txns := a.rec.since(1)
	if len(txns) != n {
		t.Fatalf("%d revisions made %d transactions", n, len(txns))
	}
	for i, txn := range txns {
		if len(txn.Want) != 2 { // deleting what is not there is no event
			t.Fatalf("transaction %d is torn: %s", i, story(txns[i:i+1]))
		}
	}
}

func TestAListLongerThanAPageIsOneWord(t *testing.T) {
	b := etcdtest.Start(t, "--max-txn-ops=2000")
	kv := client(t, b.URL())
	for p := range 3 {
		ops := make([]clientv3.Op, 1000)
		for i := range ops {
			ops[i] = clientv3.OpPut(fmt.Sprintf("%sconfig/route/r%d-%03d", base, p, i), `"x"`)
		}
		if _, err := kv.Txn(t.Context()).Then(ops...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	c := config(t, b.URL())
	c.tune.pageBytes = 4 << 10
	a := runAgent(t, c)
	a.ready()
	if txns := a.rec.since(0); len(txns) != 1 || len(txns[0].Want) != 3000 || !txns[0].Complete {
		t.Errorf("got\n%s", story(txns))
	}
}

func TestOneBadKeyHarmsOneKey(t *testing.T) {
	a := runAgent(t, config(t))
	a.ready()
	kv := client(t, "unix://"+a.cfg.socket())
	put(t, kv, "route/good", "fine")
	put(t, kv, "route/odd", "bad luck")
	put(t, kv, "plainly", "x")
	put(t, kv, "root/r", "x")
	put(t, kv, "route/a b", "x")
	put(t, kv, "route/", "x")
	put(t, kv, "", "x")
	put(t, kv, "route/\xff", "x")
	put(t, kv, "route/huge", strings.Repeat("x", models.MaxValue))
	a.upTo(put(t, kv, "route/"+strings.Repeat("n", 300), "x"))
	want := map[string]string{
		"route/good":                        "fine",
		"route/odd":                         "invalid: text: is bad",
		"plainly":                           "is no key",
		"root/r":                            "unknown kind",
		"route/a b":                         "cannot hold ' '",
		"route%2F":                          "is no key",
		"%":                                 "is no key",
		"route/%FF":                         "is no key",
		"route/huge":                        "262146 bytes; at most 262144 (256 KiB)",
		"route/" + strings.Repeat("n", 300): "at most 200",
	}
	got := a.rec.wanted()
	for k, w := range want {
		if !strings.Contains(got[k], w) {
			t.Errorf("%s is %q, want %q", k, got[k], w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got keys %q", slices.Sorted(maps.Keys(got)))
	}
	// Deleting them takes them back under the same names.
	a.upTo(del(t, kv, "config/", clientv3.WithPrefix()))
	if got := a.rec.wanted(); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}

// The agent's own decoder is models.Decode.
func TestRealModels(t *testing.T) {
	c := config(t)
	rec := newRecorder()
	_, err := New(c, models.Decode, rec, newBoard().watch)
	if err != nil {
		t.Fatal(err)
	}
	ch := Decoder(models.Decode).change("interface/web", []byte(`{"dummy":{},"mtuu":1500}`))
	var inv *scheduler.InvalidError
	if !errors.As(ch.Invalid, &inv) || len(inv.Fields) != 1 || !strings.Contains(inv.Error(), "mtu") {
		t.Errorf("got %v", ch.Invalid)
	}
	if ch := Decoder(models.Decode).change("microservice/web", []byte(`{}`)); ch.Invalid == nil {
		t.Error("an observed kind can be written")
	}
}

func TestReachedWaitsForForeignRevisionsToo(t *testing.T) {
	stores(t, func(t *testing.T, c Config, kv func() clientv3.KV) {
		a := runAgent(t, c)
		a.ready()
		r, err := kv().Put(t.Context(), "/somewhere/else", "x")
		if err != nil {
			t.Fatal(err)
		}
		if rev, err := a.Revision(t.Context()); err != nil || rev < r.Header.Revision {
			t.Errorf("the store is told to stand at %d, after a write at %d: %v", rev, r.Header.Revision, err)
		}
		a.upTo(r.Header.Revision)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := a.Reached(ctx, r.Header.Revision+1000); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

func TestHealthSpeaksOfAbsentEtcdAndHeals(t *testing.T) {
	b := etcdtest.Start(t)
	b.Stop()
	a := runAgent(t, config(t, b.URL()))
	a.state(healthDown, "no etcd answers at "+b.URL()+": nothing listens there (connection refused)")
	if a.rec.count() != 0 {
		t.Errorf("it said something:\n%s", story(a.rec.since(0)))
	}
	if _, listed := a.Lag(); listed {
		t.Error("it knows how far behind it is")
	}
	if _, _, err := a.Get(t.Context(), "config/route/r"); !errors.Is(err, models.ErrStoreDown) || !strings.Contains(err.Error(), b.URL()) {
		t.Errorf("Get: %v", err)
	}
	b.Start()
	a.ready()
	a.state(healthOK, "")
	if _, listed := a.Lag(); !listed {
		t.Error("it does not know how far behind it is")
	}
	h := a.Health()
	for _, k := range []string{"endpoints", "revision", "lag", "store", "watch_age", "last_list", "keys"} {
		if h.Details[k] == "" {
			t.Errorf("no %s in %v", k, h.Details)
		}
	}
}

// TestStrangeKeysAreTold: what is written beside config/ by mistake is told, until it is
// gone, and all that is ours is not.
func TestStrangeKeysAreTold(t *testing.T) {
	stores(t, func(t *testing.T, c Config, kv func() clientv3.KV) {
		a := runAgent(t, c)
		a.ready()
		for _, key := range []string{"config/interface/a", "applyset/x", "status/a", "confg/interface/a", "interface/b", "zzz"} {
			if _, err := kv().Put(t.Context(), "/plumb/h/"+key, "1"); err != nil {
				t.Fatal(err)
			}
		}
		a.state(healthOK, "not known and not read: /plumb/h/confg/interface/a, /plumb/h/interface/b, /plumb/h/zzz; intent is below /plumb/h/config/")
		for _, key := range []string{"confg/interface/a", "interface/b", "zzz"} {
			if _, err := kv().Delete(t.Context(), "/plumb/h/"+key); err != nil {
				t.Fatal(err)
			}
		}
		a.await("nothing is strange", func() bool { return a.Health().Reason == "" })
	})
}
