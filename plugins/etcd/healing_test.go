package etcd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
	"github.com/plumb-net/plumb/scheduler"
)

// storeView reads the store as the dumbest of readers.
func storeView(t testing.TB, kv clientv3.KV) map[string]string {
	t.Helper()
	resp, err := kv.Get(context.Background(), base+"config/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, kv := range resp.Kvs {
		var text string
		if err := json.Unmarshal(kv.Value, &text); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(text, "bad") {
			text = "invalid: text: is bad"
		}
		out[strings.TrimPrefix(string(kv.Key), base+"config/")] = text
	}
	return out
}

// same fails unless the source wants what the store holds.
func (a *agent) same(kv clientv3.KV) {
	a.t.Helper()
	if got, want := a.rec.wanted(), storeView(a.t, kv); !maps.Equal(got, want) {
		a.t.Fatalf("the source wants %v\nthe store holds %v\n%s", got, want, story(a.rec.since(0)))
	}
}

func TestACutWatchIsHealedByAListAndOnlyIfNeeded(t *testing.T) {
	b := etcdtest.Start(t)
	p := etcdtest.StartProxy(t, b.Addr())
	kv := client(t, b.URL())
	a := runAgent(t, config(t, p.URL()))
	a.ready()
	a.upTo(put(t, kv, "route/a", "1"))

	// Nothing changed meanwhile: a new session, not a word.
	said, sessions := a.rec.count(), a.sessions()
	p.Break()
	a.nextSession(sessions)
	a.upTo(put(t, kv, "route/b", "1"))
	if got := story(a.rec.since(said)); got != "put route/b, not through the agent: route/b=1\n" {
		t.Errorf("after a harmless cut:\n%s", got)
	}

	// A delete was missed: the list says it.
	sessions = a.sessions()
	p.Freeze()
	rev := del(t, kv, "config/route/a")
	p.Break()
	p.Thaw()
	a.nextSession(sessions)
	a.upTo(rev)
	a.same(kv)
	last := a.rec.since(0)[a.rec.count()-1]
	if !last.Complete || !strings.HasPrefix(last.Note, "full list at revision ") {
		t.Errorf("the missed delete came as\n%s", story([]scheduler.Txn{last}))
	}
}

func (a *agent) sessions() int { return a.source.standingFacts().sessions }

func (a *agent) nextSession(after int) {
	a.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for a.sessions() == after {
		if time.Now().After(deadline) {
			a.t.Fatalf("no new session; health %v", a.Health())
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// A watch that is open but gives nothing is noticed.
func TestASilentWatchIsNoticed(t *testing.T) {
	b := etcdtest.Start(t)
	p := etcdtest.StartProxy(t, b.Addr())
	kv := client(t, b.URL())
	c := config(t, p.URL())
	log := new(lockedBuffer)
	c.Log = slog.New(slog.NewTextHandler(log, nil))
	a := runAgent(t, c)
	a.ready()
	p.Freeze()
	rev := put(t, kv, "route/a", "1")
	a.state(healthDown, "")
	if !strings.Contains(log.String(), errStalled.Error()) {
		t.Errorf("not the silence was noticed, but:\n%s", log)
	}
	p.Thaw()
	a.upTo(rev)
	a.same(kv)
	a.state(healthOK, "")
}

type lockedBuffer struct {
	mu sync.Mutex // guards what follows
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A server that gives signs of life but no events is found by comparing. The
// fault is played by moving what the source believes to have seen.
func TestEventsLostOnALiveWatchAreNoticed(t *testing.T) {
	b := etcdtest.Start(t)
	kv := client(t, b.URL())
	c := config(t, b.URL())
	c.tune.auditEvery, c.tune.stallAfter = 50*time.Millisecond, 2*time.Second
	a := runAgent(t, c)
	a.ready()
	a.upTo(put(t, kv, "route/a", "1"))
	sessions := a.sessions()
	a.source.noteRevision(a.source.rev()-1, 1)
	a.nextSession(sessions)
	if f := a.source.standingFacts(); !strings.Contains(f.ended, errLostEvents.Error()) {
		t.Errorf("the session ended because %q", f.ended)
	}
	// Keys that come and go under the comparison are no alarm.
	sessions = a.sessions()
	for i := range 300 {
		put(t, kv, fmt.Sprintf("route/%d", i%3), "x")
		a.upTo(del(t, kv, fmt.Sprintf("config/route/%d", i%3)))
	}
	if a.sessions() != sessions {
		t.Errorf("a false alarm: %q", a.source.standingFacts().ended)
	}
}

// The server restarts under a watch, and history is compacted beyond it.
func TestCompactionWhileAwayLosesNothing(t *testing.T) {
	b := etcdtest.Start(t)
	p := etcdtest.StartProxy(t, b.Addr())
	kv := client(t, b.URL())
	a := runAgent(t, config(t, p.URL()))
	a.ready()
	put(t, kv, "route/gone", "1")
	a.upTo(put(t, kv, "route/stays", "1"))
	p.Freeze()
	del(t, kv, "config/route/gone")
	rev := put(t, kv, "route/new", "1")
	if _, err := kv.Compact(t.Context(), rev); err != nil {
		t.Fatal(err)
	}
	p.Break()
	p.Thaw()
	a.upTo(rev)
	a.same(kv)
}

// Random histories on a real server behind a misbehaving network, against a
// dumb model: after healing, the source wants what the store holds.
func TestRandomHistories(t *testing.T) {
	seeds := 3
	if s := os.Getenv("ETCD_HISTORIES"); s != "" {
		seeds, _ = strconv.Atoi(s)
	}
	for seed := range seeds {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			t.Parallel() // most of it is waiting
			history(t, rand.New(rand.NewPCG(uint64(seed), 0)))
		})
	}
}

func history(t *testing.T, rnd *rand.Rand) {
	b := etcdtest.Start(t)
	p := etcdtest.StartProxy(t, b.Addr())
	kv := client(t, b.URL())
	a := runAgent(t, config(t, p.URL()))
	for phase := range 5 {
		for range 25 {
			randomWrite(t, rnd, kv)
			switch rnd.IntN(25) {
			case 0:
				p.Break()
			case 1:
				p.Freeze()
				for range rnd.IntN(10) {
					randomWrite(t, rnd, kv)
				}
				p.Thaw()
			case 2:
				resp, err := kv.Get(t.Context(), "x")
				if err != nil {
					t.Fatal(err)
				}
				if _, err := kv.Compact(t.Context(), resp.Header.Revision); err != nil && !strings.Contains(err.Error(), "compacted") {
					t.Fatal(err)
				}
			case 3:
				b.Stop()
				b.Start()
			}
		}
		switch {
		case phase == 2:
			b.Stop()
			time.Sleep(2 * time.Second) // down for longer than any patience
			b.Start()
		case phase == 3:
			// Frozen for longer than a silent watch is believed.
			p.Freeze()
			randomWrite(t, rnd, kv)
			time.Sleep(1500 * time.Millisecond)
			p.Thaw()
		}
		a.upTo(put(t, kv, "route/last", strconv.Itoa(phase)))
		a.same(kv)
	}
	for i, txn := range a.rec.since(0) {
		if !txn.Complete && strings.HasPrefix(txn.Note, "full list") || txn.Complete && !strings.HasPrefix(txn.Note, "full list") {
			t.Errorf("transaction %d: %s", i, story([]scheduler.Txn{txn}))
		}
	}
}

// randomWrite changes one to four of eight keys. It outlasts a restart.
func randomWrite(t *testing.T, rnd *rand.Rand, kv clientv3.KV) {
	t.Helper()
	var ops []clientv3.Op
	for _, i := range rnd.Perm(8)[:1+rnd.IntN(4)] {
		key := fmt.Sprintf("%sconfig/route/r%d", base, i)
		switch rnd.IntN(8) {
		case 0, 1, 2:
			ops = append(ops, clientv3.OpDelete(key))
		case 3:
			ops = append(ops, clientv3.OpPut(key, `"bad"`))
		default:
			ops = append(ops, clientv3.OpPut(key, fmt.Sprintf(`"%d"`, rnd.IntN(3))))
		}
	}
	var err error
	for range 200 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err = kv.Txn(ctx).Then(ops...).Commit()
		cancel()
		if err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal(err)
}
