package etcd

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
	"github.com/plumb-net/plumb/plugins/fleet/record"
	"github.com/plumb-net/plumb/scheduler"
)

var events = flag.Int("events", 20_000, "events in which integrity must not raise a false alarm")

// liar loses, doubles, reorders and falsifies one event in some.
type liar struct {
	lies   atomic.Int64
	honest atomic.Bool

	mu     sync.Mutex // a watch may be made again before the one before has ended
	random *rand.Rand
	late   *etcdserverpb.WatchResponse
}

func (l *liar) change(r *etcdserverpb.WatchResponse) (out []*etcdserverpb.WatchResponse) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.late != nil && !l.honest.Load() {
		out = append(out, l.late)
	}
	l.late = nil
	if r.WatchId != configWatch || len(r.Events) == 0 || l.honest.Load() {
		return append(out, r)
	}
	i := l.random.IntN(len(r.Events))
	e := r.Events[i]
	switch l.random.IntN(12) {
	case 0:
		r.Events = slices.Delete(r.Events, i, i+1)
	case 1:
		r.Events = slices.Insert(r.Events, i, e)
	case 2:
		l.late = r // and what comes next goes before
		l.lies.Add(1)
		return out
	case 3:
		r.Events[i] = proto.CloneOf(e)
		r.Events[i].Kv.Value = []byte(`"lie"`)
	case 4: // nothing of it
		l.lies.Add(1)
		return out
	default:
		return append(out, r)
	}
	l.lies.Add(1)
	return append(out, r)
}

// TestALyingWatch: whatever comes of the events, integrity finds what differs and what is
// wanted ends as the store has it.
func TestALyingWatch(t *testing.T) {
	b := etcdtest.Start(t)
	kv := client(t, b.URL())
	found := 0 // by integrity; a list that the watch's silence causes may come first
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			l := &liar{random: random}
			c := config(t, etcdtest.StartTamper(t, b.Addr(), l.change))
			c.tune.auditEvery, c.tune.stallAfter = 50*time.Millisecond, time.Second
			a := runAgent(t, c)
			a.ready()
			writes := rand.New(rand.NewPCG(seed, 2))
			for range 300 {
				key := fmt.Sprintf("route/r%d", writes.IntN(8))
				if writes.IntN(4) == 0 {
					del(t, kv, "config/"+key)
				} else {
					put(t, kv, key, fmt.Sprint(writes.IntN(100)))
				}
			}
			l.honest.Store(true)
			a.await("what the store has", func() bool { return maps.Equal(a.rec.wanted(), storeView(t, kv)) })
			if l.lies.Load() == 0 {
				t.Error("nobody lied")
			}
			found += a.Checks().Differed
		})
	}
	if found == 0 && !t.Failed() {
		t.Error("integrity found nothing")
	}
}

// TestVerify: asked for, it tells what differs, and what is told then does not.
func TestVerify(t *testing.T) {
	b := etcdtest.Start(t)
	kv := client(t, b.URL())
	var lose atomic.Bool
	var lost atomic.Int64
	url := etcdtest.StartTamper(t, b.Addr(), func(r *etcdserverpb.WatchResponse) []*etcdserverpb.WatchResponse {
		if lose.Load() && len(r.Events) > 0 {
			lost.Add(int64(len(r.Events)))
			r.Events = nil
		}
		return []*etcdserverpb.WatchResponse{r}
	})
	a := runAgent(t, config(t, url))
	a.ready()
	a.upTo(put(t, kv, "route/a", "1"))
	if check, err := a.Verify(t.Context()); err != nil || check.Keys != 1 || len(check.Differ) != 0 {
		t.Fatalf("%+v, %v", check, err)
	}
	lose.Store(true)
	put(t, kv, "route/b", "1")
	put(t, kv, "route/a", "2")
	a.await("both are lost", func() bool { return lost.Load() == 2 })
	lose.Store(false)
	a.upTo(put(t, kv, "route/c", "1"))
	check, err := a.Verify(t.Context())
	if err != nil || fmt.Sprint(check.Differ) != "[route/a route/b]" {
		t.Fatalf("%+v, %v", check, err)
	}
	if got := a.rec.wanted(); !maps.Equal(got, map[string]string{"route/a": "2", "route/b": "1", "route/c": "1"}) {
		t.Error(got)
	}
	if check, err := a.Verify(t.Context()); err != nil || len(check.Differ) != 0 {
		t.Fatalf("%+v, %v", check, err)
	}
	b.Stop()
	if _, err := a.Verify(t.Context()); err == nil {
		t.Error("compared without a store")
	}
}

// TestNoFalseAlarm: comparing all the time while much changes finds nothing.
func TestNoFalseAlarm(t *testing.T) {
	b := etcdtest.Start(t, "--max-txn-ops=200")
	kv := client(t, b.URL())
	c := config(t, b.URL())
	c.tune.auditEvery = 10 * time.Millisecond
	a := runAgent(t, c)
	a.ready()
	for n := 0; n < *events; n += 100 {
		ops := make([]clientv3.Op, 100)
		for i := range ops {
			key := fmt.Sprintf("%sconfig/route/r%d", base, (n*7+i)%900)
			if ops[i] = clientv3.OpPut(key, fmt.Sprintf("%q", fmt.Sprint(n))); (n+i)%5 == 0 {
				ops[i] = clientv3.OpDelete(key)
			}
		}
		resp, err := kv.Txn(t.Context()).Then(ops...).Commit()
		if err != nil {
			t.Fatal(err)
		}
		if n%5000 == 0 {
			a.upTo(resp.Header.Revision)
		}
	}
	a.await("what the store has", func() bool { return maps.Equal(a.rec.wanted(), storeView(t, kv)) })
	a.await("a few comparisons", func() bool { return a.Checks().Done > 5 })
	if c := a.Checks(); c.Differed != 0 || a.sessions() != 1 {
		t.Errorf("%+v in %d sessions", c, a.sessions())
	}
}

// TestConverged: the store is told up to where its intent was carried out, and only then.
func TestConverged(t *testing.T) {
	b := etcdtest.Start(t)
	kv := client(t, b.URL())
	a := runAgent(t, config(t, b.URL()))
	a.ready()
	rev := put(t, kv, "route/a", "1")
	a.upTo(rev)
	a.await("the store is told", func() bool {
		resp, err := kv.Get(t.Context(), base+"converged")
		if err != nil || len(resp.Kvs) == 0 {
			return false
		}
		var c record.Converged
		return json.Unmarshal(resp.Kvs[0].Value, &c) == nil && c.Revision == rev && c.Incarnation == a.Plugin.cfg.Incarnation && !c.Time.IsZero()
	})
	if a.Converged() != rev {
		t.Error(a.Converged())
	}
}

// TestConvergence: it stands at the last revision before the first that is not settled.
func TestConvergence(t *testing.T) {
	s := scheduler.New(scheduler.Options{})
	c := newConvergence()
	c.add(3, nil)
	c.add(4, s.Submit(scheduler.Txn{Source: Source})) // nobody runs it
	c.add(5, nil)
	ctx := t.Context()
	go c.run(ctx)
	if err := c.at.wait(ctx, 3, func() {}); err != nil || c.at.get() != 3 {
		t.Fatal(c.at.get(), err)
	}
	go func() { _ = s.Run(ctx) }()
	if err := c.at.wait(ctx, 5, func() {}); err != nil {
		t.Fatal(err)
	}
}
