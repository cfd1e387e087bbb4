package etcd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
	"github.com/plumb-net/plumb/scheduler"
)

func TestJudge(t *testing.T) {
	for name, tc := range map[string]struct {
		known, found identity
		want         trust
		reason       string
	}{
		"first start ever":      {identity{}, identity{Revision: 1, Cluster: 7}, fresh, ""},
		"state directory lost":  {identity{}, identity{"a", 9, 7}, same, ""},
		"same":                  {identity{"a", 5, 7}, identity{"a", 9, 7}, same, ""},
		"same, nothing new":     {identity{"a", 5, 7}, identity{"a", 5, 7}, same, ""},
		"old record":            {identity{"a", 5, 0}, identity{"a", 5, 7}, same, ""},
		"emptied":               {identity{"a", 5, 7}, identity{"", 1, 7}, foreign, "no id"},
		"emptied and grown":     {identity{"a", 5, 7}, identity{"", 99, 7}, foreign, "no id"},
		"another":               {identity{"a", 5, 7}, identity{"b", 99, 7}, foreign, "its id is b"},
		"old snapshot":          {identity{"a", 50, 7}, identity{"a", 9, 7}, restored, "older state"},
		"snapshot that went on": {identity{"a", 50, 7}, identity{"a", 99, 8}, restored, "a copy"},
		"damaged record":        {identity{ID: unreadable}, identity{"a", 9, 7}, foreign, "damaged"},
	} {
		got, reason := judge(tc.known, tc.found)
		if got != tc.want || !strings.Contains(reason, tc.reason) || (reason == "") != (tc.reason == "") {
			t.Errorf("%s: got %d, %q", name, got, reason)
		}
	}
}

// The story of a replaced store, from decision 2.
func TestAnotherStoreDeletesNothingUntilAccepted(t *testing.T) {
	b := etcdtest.Start(t)
	c := config(t, b.URL())
	kv := client(t, b.URL())
	a := runAgent(t, c)
	a.ready()
	put(t, kv, "route/old", "1")
	a.upTo(put(t, kv, "route/both", "1"))

	b.Wipe()
	a.state(healthDegraded, "another store or an emptied one")
	put(t, kv, "route/both", "2")
	put(t, kv, "route/new", "1")
	a.wants("route/old=1 route/both=2 route/new=1")
	// New intent applies to its own key, deletions too.
	put(t, kv, "route/brief", "1")
	a.upTo(del(t, kv, "config/route/brief"))
	a.wants("route/old=1 route/both=2 route/new=1")

	// A restart of the agent changes nothing of that.
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	a = runAgent(t, c)
	a.state(healthDegraded, "another store or an emptied one")
	a.wants("route/both=2 route/new=1")
	for _, txn := range a.rec.since(0) {
		if txn.Complete {
			t.Errorf("a store that is not known said a complete word:\n%s", story([]scheduler.Txn{txn}))
		}
	}

	if _, err := a.Accept(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.state(healthOK, "")
	txns := a.rec.since(0)
	if last := txns[len(txns)-1]; !last.Complete {
		t.Errorf("accepting said\n%s", story(txns))
	}
	a.same(kv)

	// From now on it is the known store.
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	del(t, kv, "config/route/both")
	a = runAgent(t, c)
	a.ready()
	a.state(healthOK, "")
	a.wants("route/new=1")
	if txns := a.rec.since(0); len(txns) != 1 || !txns[0].Complete {
		t.Errorf("after the acceptance:\n%s", story(txns))
	}
}

// wants waits until the source wants exactly "key=text key=text".
func (a *agent) wants(list string) {
	a.t.Helper()
	want := map[string]string{}
	for _, kv := range strings.Fields(list) {
		k, v, _ := strings.Cut(kv, "=")
		want[k] = v
	}
	a.rec.wait(a.t, "wanting "+list, func([]scheduler.Txn) bool {
		got := a.rec.wanted()
		if len(got) != len(want) {
			return false
		}
		for k, v := range want {
			if got[k] != v {
				return false
			}
		}
		return true
	})
}

func TestAnAgentThatSawTheOldStoreWithdrawsOnAcceptance(t *testing.T) {
	b := etcdtest.Start(t)
	kv := client(t, b.URL())
	a := runAgent(t, config(t, b.URL()))
	a.ready()
	a.upTo(put(t, kv, "route/old", "1"))
	b.Wipe()
	a.state(healthDegraded, "")
	put(t, kv, "route/new", "1")
	a.wants("route/old=1 route/new=1")
	if _, err := a.Accept(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.wants("route/new=1")
}

func TestARestoredSnapshotIsNotBelieved(t *testing.T) {
	b := etcdtest.Start(t)
	c := config(t, b.URL())
	kv := client(t, b.URL())
	a := runAgent(t, c)
	a.ready()
	a.upTo(put(t, kv, "route/early", "1"))
	back := b.Keep()
	a.upTo(put(t, kv, "route/late", "1"))

	back()
	a.state(healthDegraded, "older state")
	a.wants("route/early=1 route/late=1")

	// Accepting it gives it a new id, for the old one is also that of the
	// store it was copied from.
	before, _, err := a.Get(t.Context(), "store")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Accept(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.wants("route/early=1")
	after, _, err := a.Get(t.Context(), "store")
	if err != nil || string(before.Value) == string(after.Value) {
		t.Errorf("the id is still %s (%v)", after.Value, err)
	}
	a.state(healthOK, "")
}

// The known store comes back after another one was there: it is believed, and
// what the other one wished for is gone.
func TestTheKnownStoreComesBack(t *testing.T) {
	b := etcdtest.Start(t)
	kv := client(t, b.URL())
	a := runAgent(t, config(t, b.URL()))
	a.ready()
	a.upTo(put(t, kv, "route/true", "1"))
	back := b.Keep()
	b.Wipe()
	a.state(healthDegraded, "")
	put(t, kv, "route/false", "1")
	a.wants("route/true=1 route/false=1")
	back()
	a.wants("route/true=1")
	a.state(healthOK, "")
}

func TestALostStateDirectoryTrustsTheStore(t *testing.T) {
	b := etcdtest.Start(t)
	c := config(t, b.URL())
	kv := client(t, b.URL())
	a := runAgent(t, c)
	a.ready()
	a.upTo(put(t, kv, "route/a", "1"))
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	c.StateDir += "2"
	a = runAgent(t, c)
	a.ready()
	if txns := a.rec.since(0); len(txns) != 1 || !txns[0].Complete {
		t.Errorf("got\n%s", story(txns))
	}
	a.wants("route/a=1")
	a.state(healthOK, "")
}

func TestADamagedRecordIsNotAnAbsentOne(t *testing.T) {
	c := config(t)
	a := runAgent(t, c)
	a.ready()
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.StateDir, "store.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	a = runAgent(t, c)
	a.state(healthDegraded, "damaged")
	if _, err := a.Accept(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.state(healthOK, "")
}

// An embedded store whose data somebody removed is another store too.
func TestAWipedEmbeddedStore(t *testing.T) {
	c := config(t)
	a := runAgent(t, c)
	a.ready()
	a.upTo(put(t, client(t, "unix://"+c.socket()), "route/a", "1"))
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(c.StateDir, "etcd")); err != nil {
		t.Fatal(err)
	}
	a = runAgent(t, c)
	a.state(healthDegraded, "another store or an emptied one")
	if a.rec.count() != 0 {
		t.Errorf("it said\n%s", story(a.rec.since(0)))
	}
}

// Deleting everything on purpose works, with the id and presence too: on a
// live watch it is plain that the store is still the same.
func TestDeletingEverythingOnPurpose(t *testing.T) {
	stores(t, func(t *testing.T, c Config, kvs func() clientv3.KV) {
		a := runAgent(t, c)
		a.ready()
		kv := kvs()
		put(t, kv, "route/a", "1")
		a.upTo(put(t, kv, "route/b", "1"))
		id, _, err := a.Get(t.Context(), "store")
		if err != nil {
			t.Fatal(err)
		}
		a.upTo(del(t, kv, "", clientv3.WithPrefix()))
		a.wants("")
		a.key("store", string(id.Value))
		a.key("agent", `"host"`)
		a.state(healthOK, "")
		if err := a.stop(); err != nil {
			t.Fatal(err)
		}
		a = runAgent(t, c)
		a.ready()
		a.state(healthOK, "")
	})
}

// key waits until a key of the store holds the words.
func (a *agent) key(key, words string) {
	a.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		kv, ok, err := a.Get(a.t.Context(), key)
		if err == nil && ok && strings.Contains(string(kv.Value), words) {
			return
		}
		if time.Now().After(deadline) {
			a.t.Fatalf("%s is %q (%v, %v), waited for %q", key, kv.Value, ok, err, words)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestAcceptOfAKnownStoreSaysItsWordAgain(t *testing.T) {
	a := runAgent(t, config(t))
	a.ready()
	said := a.rec.count()
	if _, err := a.Accept(t.Context()); err != nil {
		t.Fatal(err)
	}
	if txns := a.rec.since(said); len(txns) != 1 || !txns[0].Complete {
		t.Errorf("it said\n%s", story(txns))
	}
}

func TestAcceptWithoutAStoreFails(t *testing.T) {
	b := etcdtest.Start(t)
	a := runAgent(t, config(t, b.URL()))
	a.ready()
	b.Stop()
	a.state(healthDown, "")
	if _, err := a.Accept(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot be reached") {
		t.Errorf("got %v", err)
	}
}
