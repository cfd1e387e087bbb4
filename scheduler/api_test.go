package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/internal/sim"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

var ctx = context.Background()

// running is a scheduler on a World with kinds a (deriving d), b and o (observed).
type running struct {
	*scheduler.Scheduler
	t     *testing.T
	world *schedulertest.World
	a     *scheduler.Kind[schedulertest.Thing, int]
	stop  func() error
}

// run starts one; it and all its goroutines must have ended when the test's
// bubble does.
func run(t *testing.T, o scheduler.Options) *running {
	return runKinds(t, o, func(d scheduler.Descriptor[schedulertest.Thing, int]) scheduler.Descriptor[schedulertest.Thing, int] {
		return d
	})
}

// runKinds starts one whose kinds are made over first.
func runKinds(t *testing.T, o scheduler.Options, over func(scheduler.Descriptor[schedulertest.Thing, int]) scheduler.Descriptor[schedulertest.Thing, int]) *running {
	r := startOn(t, schedulertest.NewWorld(), o, over)
	r.Submit(scheduler.Txn{Complete: true})
	synctest.Wait() // all was read
	return r
}

// startOn starts one on a World, of which nothing was told yet.
func startOn(t *testing.T, w *schedulertest.World, o scheduler.Options, over func(scheduler.Descriptor[schedulertest.Thing, int]) scheduler.Descriptor[schedulertest.Thing, int]) *running {
	r := &running{Scheduler: scheduler.New(o), t: t, world: w}
	var err error
	r.a, err = scheduler.Register(r.Scheduler, over(r.world.Kind("a", schedulertest.Options{DerivedTo: "d"})))
	r.check(err)
	for name, o := range map[string]schedulertest.Options{"b": {}, "d": {}, "o": {Observed: true}} {
		_, err := scheduler.Register(r.Scheduler, over(r.world.Kind(name, o)))
		r.check(err)
	}
	runCtx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- r.Run(runCtx) }()
	stopped := false
	r.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-done
	}
	t.Cleanup(func() { r.world.Release(); _ = r.stop() })
	return r
}

func (r *running) check(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// want applies changes given as lines of the stories' language.
func (r *running) want(lines ...string) scheduler.Result {
	r.t.Helper()
	res, err := r.Apply(ctx, scheduler.Txn{Want: changes(lines...)})
	r.check(err)
	return res
}

func changes(lines ...string) []scheduler.Change {
	t, err := sim.Step{Do: "txn", Lines: lines}.ParseTxn([]string{""})
	if err != nil {
		panic(err)
	}
	return t.Want
}

func (r *running) hang(op string, k scheduler.Key) {
	r.world.SetFault(func(o string, key scheduler.Key) schedulertest.Fault {
		if o == op && key == k {
			return schedulertest.Hang
		}
		return schedulertest.None
	})
}

func TestWaitCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{})
		r.hang("create", "a/1")
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		began := time.Now()
		_, err := r.Apply(short, scheduler.Txn{Want: changes("a/1 v1")})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("Apply returned %v after %v, want the deadline after 1s", err, time.Since(began))
		}
		r.world.Release()
		synctest.Wait()
		if got := r.world.String(); got != "a/1=v1\n" {
			t.Errorf("the transaction did not go on: there is %q", got)
		}
	})
}

// Apply waits for chains of needs and for derived values, and no longer.
func TestApplyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{})
		r.want("a/1 v1 needs=b/1 derives=p0")
		h := r.Submit(scheduler.Txn{Want: changes("b/1 v1 needs=b/2", "b/2 v1")})
		res, err := h.Wait(ctx)
		r.check(err)
		if !res.OK() || res.Keys[0].State != scheduler.Configured {
			t.Errorf("b/1 settled as %v", res.Keys)
		}
		r.hang("create", "d/1/p1")
		h = r.Submit(scheduler.Txn{Want: changes("a/1 v2 needs=b/1 derives=p0,p1")})
		time.Sleep(time.Second)
		select {
		case <-h.Done():
			t.Error("Apply did not wait for a derived value")
		default:
		}
		other := r.want("b/9 v1")
		if !other.OK() {
			t.Errorf("an unrelated key had to wait: %v", other.Keys)
		}
		r.world.Release()
		if res, err = h.Wait(ctx); err != nil || !res.OK() {
			t.Errorf("the base settled as %v, %v", res.Keys, err)
		}
	})
}

// A look ends when all that moved because of it is settled: what was found to be gone,
// what depended on it, and what that derives.
func TestLookEndsWithWhatMoved(t *testing.T) {
	for name, look := range map[string]scheduler.Txn{
		"a key": {Look: []scheduler.Key{"b/1"}}, "a kind": {Look: []scheduler.Key{"b/"}}, "all": {LookAll: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := run(t, scheduler.Options{})
				r.want("b/1 v1", "a/1 v1 needs=b/1 derives=p0", "b/2 v1")
				r.world.Take("b/1", false)
				r.hang("create", "d/1/p0")
				h := r.Submit(look)
				synctest.Wait()
				select {
				case <-h.Done():
					t.Error("it did not wait for what it has brought about")
				default:
				}
				r.want("b/3 v1") // which is another's doing
				r.world.Release()
				res, err := h.Wait(ctx)
				if err != nil || r.world.Objects()["d/1/p0"].Text == "" {
					t.Errorf("it ended with %v, %v; there is %s", res.Keys, err, r.world)
				}
			})
		})
	}
}

// Who gave up waiting for a transaction is forgotten: nothing of the way to what it waited
// for is kept.
func TestNobodyWaitsAfterGivingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{})
		r.hang("create", "a/1")
		waiting, giveUp := context.WithCancel(ctx)
		gone := make(chan error)
		go func() {
			_, err := r.Apply(waiting, scheduler.Txn{Want: changes("a/1 v1", "b/1 v1 needs=a/1")})
			gone <- err
		}()
		synctest.Wait()
		if n := scheduler.WaitedFor(r.Scheduler); n == 0 {
			t.Error("nobody waits for a/1")
		}
		giveUp()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("Apply: %v", err)
		}
		synctest.Wait()
		if n := scheduler.WaitedFor(r.Scheduler); n != 0 {
			t.Errorf("%d keys are waited for by nobody", n)
		}
	})
}

// What failed is forgotten with the kind that it failed with.
func TestUnregisterForgetsFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{})
		r.world.SetFault(func(op string, _ scheduler.Key) schedulertest.Fault {
			if op == "create" {
				return schedulertest.Fail
			}
			return schedulertest.None
		})
		r.Submit(scheduler.Txn{Want: changes("a/1 v1")})
		synctest.Wait()
		s, err := r.Get(ctx, "a/1")
		if err != nil || s.State != scheduler.Retrying || s.Attempts != 1 {
			t.Errorf("a/1 is %+v, error %v", s, err)
		}
		r.check(r.Unregister("a"))
		s, err = r.Get(ctx, "a/1")
		if err != nil || s.State != scheduler.Unimplemented || s.Attempts != 0 || !s.NextTry.IsZero() {
			t.Errorf("of no kind, a/1 is %+v, error %v", s, err)
		}
	})
}

func TestKindReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{})
		if _, _, ok := r.a.Get("a/1"); ok {
			t.Error("a/1 is there before anything is")
		}
		r.want("a/1 v1", "a/2 v1 needs=b/1")
		if st, err := r.Get(ctx, "b/1"); !errors.Is(err, scheduler.ErrUnknownKey) {
			t.Errorf("Get of what is only needed: %v %v", st, err)
		}
		if v, m, ok := r.a.Get("a/1"); !ok || v.Text != "v1" || m == 0 {
			t.Errorf("Get a/1: %v %v %v", v, m, ok)
		}
		if _, _, ok := r.a.Get("a/2"); ok {
			t.Error("a/2 is in place without its need")
		}
		if v, ok := r.a.Wanted("a/2"); !ok || v.Text != "v1" {
			t.Errorf("Wanted a/2: %v %v", v, ok)
		}
		all, err := r.List(ctx, "a/")
		r.check(err)
		if want, is, m := r.a.Of(all[0]); want.Text != "v1" || is.Text != "v1" || m == 0 {
			t.Errorf("a/1 in types: %v %v %v", want, is, m)
		}
		if want, is, m := r.a.Of(all[1]); want.Text != "v1" || is.Text != "" || m != 0 {
			t.Errorf("a/2 in types: %v %v %v", want, is, m)
		}
		n := 0
		for k, o := range r.a.All() {
			n++
			if _, m, _ := r.a.Get(k); k != "a/1" || o.Value.Text != "v1" || o.Meta != m || m == 0 {
				t.Errorf("All yields %s %v", k, o)
			}
		}
		if n != 1 {
			t.Errorf("All yields %d keys", n)
		}
		r.check(r.stop())
		if v, _, ok := r.a.Get("a/1"); !ok || v.Text != "v1" {
			t.Error("what was read before can be read after the end")
		}
	})
}

// TestIndex: an index names what is in place, follows it, and forgets it with its kind.
func TestIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{})
		r.want("a/1 one", "a/2 two")
		x, err := scheduler.NewIndex(r.a, func(k scheduler.Key, v schedulertest.Thing, meta int) []string {
			switch {
			case meta == 0:
				t.Errorf("%s has no meta", k)
			case v.Text == "none":
				return nil
			case v.Text == "bad":
				panic("told to")
			}
			return []string{v.Text, "all"}
		})
		r.check(err)
		finds := func(name string, want ...scheduler.Key) {
			t.Helper()
			var got []scheduler.Key
			for k, o := range x.Find(name) {
				if got = append(got, k); o.Meta == 0 {
					t.Errorf("%s has no meta", k)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", name, got, want)
			}
		}
		finds("all", "a/1", "a/2")
		finds("two", "a/2")
		r.want("a/1 two", "a/3 none", "a/4 bad", "a/5 waits needs=b/1")
		finds("two", "a/1", "a/2")
		finds("one")
		finds("all", "a/1", "a/2")
		finds("waits")
		r.want("a/2 -")
		finds("two", "a/1")
		r.check(r.Unregister("a"))
		finds("two")
		if v, _, ok := r.a.Get("a/1"); ok {
			t.Errorf("a kind that is unregistered still tells of %v", v)
		}
		r.check(r.stop())
		if _, err := scheduler.NewIndex(r.a, func(scheduler.Key, schedulertest.Thing, int) []string { return nil }); !errors.Is(err, scheduler.ErrStopped) {
			t.Errorf("after the end: %v", err)
		}
	})
}

func TestRegisterRefuses(t *testing.T) {
	type D = scheduler.Descriptor[int, int]
	create := func(context.Context, scheduler.Key, int) (int, error) { return 0, nil }
	remove := func(context.Context, scheduler.Key, int, int) error { return nil }
	for _, c := range []struct {
		d    D
		says string
	}{
		{D{Prefix: "x/"}, "no Name"},
		{D{Name: "x", Prefix: "x"}, "end it with a slash"},
		{D{Name: "x", Prefix: "x/", Create: create}, "one of Create and Delete"},
		{D{Name: "x", Prefix: "x/"}, "needs Retrieve"},
		{D{Name: "a route", Prefix: "x/"}, "one word"},
		{D{Name: "x", Prefix: "x/", Create: create, Delete: remove, Timeout: -1}, "none for the default"},
		{D{Name: "x", Prefix: "x/", Create: create, Delete: remove, Decode: func([]byte) (int, error) { return 0, nil }}, "give it both, or none"},
		{D{Name: "x", Prefix: "x/", Create: create, Delete: remove, Interest: func(scheduler.Key, bool) {}}, "for observed kinds"},
		{D{Name: "x", Prefix: "x/", Needs: func(scheduler.Key, int) []scheduler.Need { return nil },
			Validate: func(scheduler.Key, int) error { return nil }}, "drop Needs, Validate, or"},
		{D{Name: "x", Prefix: "x/", Derive: func(scheduler.Key, int) []scheduler.Change { return nil },
			Interest: func(scheduler.Key, bool) {}}, "Derive and Interest"},
		{D{Name: "x", Prefix: "x/", Create: create, Delete: remove, ReadAfter: []string{"a"}}, "ReadAfter and no Retrieve"},
		{D{Name: "x", Prefix: "a/x/", Create: create, Delete: remove}, "overlaps"},
		{D{Name: "a", Prefix: "x/", Create: create, Delete: remove}, "registered already"},
	} {
		s := scheduler.New(scheduler.Options{})
		_, err := scheduler.Register(s, D{Name: "a", Prefix: "a/", Create: create, Delete: remove})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = scheduler.Register(s, c.d); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want it to say %q", c.d.Name, err, c.says)
		}
	}
}

// message is of the shape of a protobuf message, whose internal state changes when it is encoded.
type message struct{}

func (*message) ProtoReflect() {}

func TestRegisterRefusesMessagesWithoutEqual(t *testing.T) {
	d := scheduler.Descriptor[*message, int]{
		Name: "x", Prefix: "x/", Create: func(context.Context, scheduler.Key, *message) (int, error) { return 0, nil },
		Delete: func(context.Context, scheduler.Key, *message, int) error { return nil },
	}
	if _, err := scheduler.Register(scheduler.New(scheduler.Options{}), d); err == nil || !strings.Contains(err.Error(), "proto.Equal") {
		t.Errorf("%v, want it to name proto.Equal", err)
	}
	d.Equal = func(scheduler.Key, *message, *message) bool { return true }
	if _, err := scheduler.Register(scheduler.New(scheduler.Options{}), d); err != nil {
		t.Error(err)
	}
}

func TestHistoryBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{HistoryCount: 10, HistoryBytes: 8 << 10})
		for i := range 100 {
			r.want(fmt.Sprintf("a/%d v1", i))
		}
		all := r.History(scheduler.HistoryQuery{})
		if len(all) != 10 || all[9].Seq != 101 {
			t.Errorf("kept %d records, the last is %d", len(all), all[len(all)-1].Seq)
		}
		many := make([]string, 1000)
		for i := range many {
			many[i] = fmt.Sprintf("b/%d v1", i)
		}
		r.want(many...)
		all = r.History(scheduler.HistoryQuery{})
		last := all[len(all)-1]
		if len(last.Asked) != 256 || last.AskedTotal != 1000 || last.Dropped == 0 || len(last.Done)+last.Dropped != 1000 {
			t.Errorf("the big record: asked %d of %d, done %d, dropped %d", len(last.Asked), last.AskedTotal, len(last.Done), last.Dropped)
		}
		if got := r.History(scheduler.HistoryQuery{Limit: 1}); len(got) != 1 || got[0].Seq != last.Seq {
			t.Error("Limit 1 is not the newest")
		}
	})
}

// Everybody reads while everything moves; for the race detector.
func TestReadersWhileBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{HistoryBytes: 20 << 10})
		end := make(chan struct{})
		var readers sync.WaitGroup
		defer readers.Wait()
		follower := r.Follow()
		for _, read := range []func(){
			func() { _, _ = r.List(ctx); _, _ = r.Get(ctx, "a/1") },
			func() { _ = r.History(scheduler.HistoryQuery{Key: "a/1"}); _, _ = r.Why(ctx, "a/2") },
			func() { r.a.Get("a/1"); r.a.Wanted("a/1"); r.Kinds(); _, _ = r.Edges(ctx); _, _ = r.Sources(ctx) },
			func() { _, _ = r.Preview(ctx, scheduler.Txn{Want: changes("a/1 -", "a/3 v9")}) },
			func() {
				if _, err := scheduler.Register(r.Scheduler, r.world.Kind("x", schedulertest.Options{})); err == nil {
					_ = r.Unregister("x")
				}
			},
			func() { _, _ = follower.Next(ctx) },
			func() { w := r.Watch("a/"); _, _, _ = w.Next(ctx); w.Stop() },
			func() {
				ago := time.Now().Add(-3 * time.Millisecond)
				_, _ = r.At(ctx, ago)
				_, _ = r.Changes(ctx, ago, time.Time{}, "a/")
				_, _ = r.Blame(ctx, "a/1")
				_ = r.History(scheduler.HistoryQuery{Seq: 7})
			},
			func() { _ = r.Pause("a/3", "busy", time.Time{}); _ = r.Resume("a/3"); r.Retry("a/3") },
		} {
			readers.Go(func() {
				for {
					select {
					case <-end:
						return
					default:
						read()
						time.Sleep(time.Millisecond)
					}
				}
			})
		}
		for i := range 300 {
			r.want(fmt.Sprintf("a/%d v%d derives=p0,p1", i%3, i), fmt.Sprintf("a/%d v%d needs=a/%d", i%5+3, i, i%3))
			r.world.Put("a/1", schedulertest.Thing{Text: "other"}, true)
			time.Sleep(time.Millisecond)
		}
		close(end)
	})
}

// A plan is executed on the state it was made for, or not at all.
func TestPlanBase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{})
		r.want("b/1 v1", "a/1 v1 needs=b/1")
		txn := scheduler.Txn{Want: changes("b/1 v2 fixed")}
		p, err := r.Preview(ctx, txn)
		r.check(err)
		txn.Base = p.Base
		r.want("b/2 v1") // has nothing to do with it
		again, err := r.Preview(ctx, scheduler.Txn{Want: txn.Want})
		r.check(err)
		if again.Base.String() != p.Base.String() {
			t.Error("an unrelated change moved the base")
		}
		r.want("a/2 v1 needs=b/1")
		if _, err := r.Apply(ctx, txn); !errors.Is(err, scheduler.ErrBaseMoved) || !strings.HasSuffix(err.Error(), ": a/2") {
			t.Errorf("a plan on an old base: %v", err)
		}
		p, err = r.Preview(ctx, scheduler.Txn{Want: txn.Want})
		r.check(err)
		txn.Base = p.Base
		if res, err := r.Apply(ctx, txn); err != nil || !res.OK() {
			t.Errorf("a plan on its base: %v %v", res, err)
		}
		txn = scheduler.Txn{Want: changes("a/2 v2 needs=b/1")}
		p, err = r.Preview(ctx, txn)
		r.check(err)
		txn.Base = p.Base
		r.want("b/1 v3") // is only needed, and read
		if _, err := r.Apply(ctx, txn); !errors.Is(err, scheduler.ErrBaseMoved) || !strings.HasSuffix(err.Error(), ": b/1") {
			t.Errorf("a plan whose need moved: %v", err)
		}
	})
}

// What has a time may be said before Run.
func TestPauseBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scheduler.New(scheduler.Options{})
		if err := s.Pause("a/1", "held", time.Now().Add(time.Second)); err != nil {
			t.Error(err)
		}
	})
}

// What is asked before Run is answered on what was submitted before it; nothing is
// done yet.
func TestAskedBeforeRun(t *testing.T) {
	w, s := schedulertest.NewWorld(), scheduler.New(scheduler.Options{})
	if _, err := scheduler.Register(s, w.Kind("a", schedulertest.Options{})); err != nil {
		t.Fatal(err)
	}
	s.Submit(scheduler.Txn{Want: changes("a/1 v1")})
	s.Submit(scheduler.Txn{Want: changes("a/1 v2 bad")})
	if err := s.Unregister("a"); err != nil {
		t.Fatal(err)
	}
	all, err := s.List(ctx)
	if err != nil || len(all) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	if v, ok := all[0].Desired.(schedulertest.Thing); !ok || v.Text != "v1" {
		t.Errorf("the last valid value is %v: it was judged after its kind had gone", all[0].Desired)
	}
	if done := w.Lines(); len(done) > 0 {
		t.Errorf("before Run this was done: %q", done)
	}
}

// TestDerived: what a value would derive is told without anything being wanted.
func TestDerived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{})
		for text, want := range map[string]string{"a/1 v1 derives=p,q": "[d/1/p d/1/q]", "a/1 v1 bad derives=p": "[]", "b/1 v1": "[]", "x/1 v1": "[]"} {
			c := changes(text)[0]
			keys, err := r.Derived(c.Key, c.Value)
			r.check(err)
			if got := fmt.Sprint(keys); got != want {
				t.Errorf("%s derives %s, want %s", text, got, want)
			}
		}
	})
}
