package etcd

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
	"github.com/plumb-net/plumb/scheduler"
)

func TestMain(m *testing.M) {
	Main()
	os.Setenv("GORACE", "atexit_sleep_ms=0") // the race detector would keep stores for a second
	goleak.VerifyTestMain(m)
}

// client is the operator's: the official client, by another way than ours.
func client(t testing.TB, endpoint string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// agent is a plugin that runs.
type agent struct {
	*Plugin
	t    testing.TB
	rec  *recorder
	brd  *board
	cfg  Config
	stop func() error
}

// quick is the timing of tests.
func quick() tuning {
	return tuning{
		opTimeout: 2 * time.Second, retryMin: 10 * time.Millisecond, retryMax: 200 * time.Millisecond,
		progressEvery: 100 * time.Millisecond, stallAfter: time.Second, saveEvery: 20 * time.Millisecond,
		leaseTTL: 2 * time.Second, healthEvery: 200 * time.Millisecond,
	}
}

func config(t testing.TB, endpoints ...string) Config {
	dir := t.TempDir()
	return Config{Label: "h", StateDir: filepath.Join(dir, "state"), RunDir: filepath.Join(dir, "run"), Endpoints: endpoints, tune: quick()}
}

// runAgent runs a plugin until the test ends or stop is called.
func runAgent(t testing.TB, c Config) *agent {
	t.Helper()
	a := newAgent(t, c)
	a.run()
	return a
}

func newAgent(t testing.TB, c Config) *agent {
	t.Helper()
	a := &agent{t: t, rec: newRecorder(), brd: newBoard(), cfg: c}
	p, err := New(c, decodeText, a.rec, a.brd.watch)
	if err != nil {
		t.Fatal(err)
	}
	a.Plugin = p
	return a
}

func (a *agent) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	a.stop = sync.OnceValue(func() error {
		cancel()
		begin := time.Now()
		a.await("it lets go of the store", func() bool { return a.link.Load() == nil })
		if took := time.Since(begin); took > time.Second {
			a.t.Errorf("stopping took %s", took)
		}
		// The embedded store ends after that, and writes to a disk which others may keep busy:
		// it has a bound of its own, see embedded.Process.Close.
		return <-done
	})
	a.t.Cleanup(func() {
		if err := a.stop(); err != nil {
			a.t.Errorf("Run: %v", err)
		}
	})
}

// ready waits for the first word.
func (a *agent) ready() {
	a.t.Helper()
	a.rec.wait(a.t, "the first word", func(txns []scheduler.Txn) bool { return len(txns) > 0 })
}

// upTo waits until a revision was submitted.
func (a *agent) upTo(rev int64) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := a.Reached(ctx, rev); err != nil {
		a.t.Fatalf("%v\n%s", err, story(a.rec.since(0)))
	}
}

// state waits until health has a state and a reason with the words.
func (a *agent) state(state, words string) {
	a.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		h := a.Health()
		if h.State == state && strings.Contains(h.Reason, words) {
			return
		}
		if time.Now().After(deadline) {
			a.t.Fatalf("health is %s (%s), waited for %s (%s)", h.State, h.Reason, state, words)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (a *agent) await(what string, is func() bool) {
	a.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			a.t.Fatalf("waited in vain: %s; health %v", what, a.Health())
		}
	}
}

// stores are the two kinds of store, each with an operator's client.
func stores(t *testing.T, test func(t *testing.T, c Config, kv func() clientv3.KV)) {
	t.Run("embedded", func(t *testing.T) {
		c := config(t)
		test(t, c, func() clientv3.KV { return client(t, "unix://"+c.socket()) })
	})
	t.Run("external", func(t *testing.T) {
		b := etcdtest.Start(t)
		c := config(t, b.URL())
		test(t, c, func() clientv3.KV { return client(t, b.URL()) })
	})
}

const base = "/plumb/h/"

// put writes intent as an operator and returns the revision.
func put(t testing.TB, kv clientv3.KV, key, text string) int64 {
	t.Helper()
	r, err := kv.Put(context.Background(), base+"config/"+key, `"`+text+`"`)
	if err != nil {
		t.Fatal(err)
	}
	return r.Header.Revision
}

func del(t testing.TB, kv clientv3.KV, key string, opts ...clientv3.OpOption) int64 {
	t.Helper()
	r, err := kv.Delete(context.Background(), base+key, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return r.Header.Revision
}
