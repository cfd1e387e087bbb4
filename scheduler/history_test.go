package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// Whatever happens, the past that the scheduler tells is the past that was:
// a dumb oracle keeps a full picture after every step.
func TestHistoryTellsThePast(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	first, last := *from, *from+uint64(*histories)/5
	if *seed != 0 {
		first, last = *seed, *seed
	}
	trimmed := 0
	for i := first; i <= last; i++ {
		var err error
		synctest.Test(t, func(t *testing.T) {
			p := newPast(t, i)
			defer p.stop()
			err = p.play(*steps)
			trimmed += p.trimmed
		})
		if err != nil {
			t.Fatalf("%v\nplay it again with -run %s -seed %d", err, t.Name(), i)
		}
	}
	if trimmed == 0 && first != last {
		t.Error("no history was ever trimmed")
	}
}

// keyPicture is how all keys stand.
type keyPicture map[scheduler.Key]string

type past struct {
	seed     uint64
	rng      *rand.Rand
	world    *schedulertest.World
	s        *scheduler.Scheduler
	stop     func()
	times    []time.Time
	pictures []keyPicture
	lines    []string
	trimmed  int
	ran      atomic.Int64 // operations
}

func newPast(t *testing.T, seed uint64) *past {
	p := &past{seed: seed, rng: rand.New(rand.NewPCG(seed, 7)), world: schedulertest.NewWorld()}
	faults := rand.New(rand.NewPCG(seed, 8))
	all := []schedulertest.Fault{schedulertest.Fail, schedulertest.FailAfter, schedulertest.FailForever, schedulertest.Panic,
		schedulertest.Hang, schedulertest.FailLater, schedulertest.FailInvalid, schedulertest.FailConflict}
	p.world.SetFault(func(op string, _ scheduler.Key) schedulertest.Fault {
		switch op {
		case "create", "update", "delete":
			p.ran.Add(1)
		case "look":
		default:
			return schedulertest.None
		}
		if faults.IntN(5) > 0 || op == "look" && faults.IntN(3) > 0 {
			return schedulertest.None
		}
		if op == "look" {
			return schedulertest.Fail
		}
		return all[faults.IntN(len(all))]
	})
	o := scheduler.Options{Sources: []string{"strong", "weak"}, Workers: 1, Rand: func() float64 { return 0.5 }}
	if seed%3 == 0 {
		o.HistoryBytes = 40 << 10
	}
	p.s = scheduler.New(o)
	for name, ko := range map[string]schedulertest.Options{
		"a": {DerivedTo: "d"}, "b": {NoUpdate: true}, "d": {}, "o": {Observed: true}} {
		_, err := scheduler.Register(p.s, p.world.Kind(name, ko))
		check(t, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.s.Run(ctx) }()
	p.stop = func() { p.world.Release(); cancel(); <-done }
	return p
}

func (p *past) play(steps int) error {
	for range steps {
		p.step()
		p.world.Release()
		synctest.Wait()
		p.times = append(p.times, time.Now())
		now, err := p.look(func() ([]scheduler.Status, error) { return p.s.List(context.Background()) })
		if err != nil {
			return err
		}
		p.pictures = append(p.pictures, now)
		time.Sleep(time.Millisecond)
		if p.rng.IntN(4) == 0 {
			if err := p.check(); err != nil {
				return err
			}
		}
	}
	if err := p.check(); err != nil {
		return err
	}
	return p.checkSteps()
}

// checkSteps: every operation stands in the record of what caused it.
func (p *past) checkSteps() error {
	p.world.Release()
	synctest.Wait()
	done, records := 0, p.s.History(scheduler.HistoryQuery{})
	for _, r := range records {
		done += len(r.Done)
		for _, d := range r.Done {
			if r.Seq == 0 || d.Via == d.Key {
				return fmt.Errorf("seed %d: %v has no cause in %v", p.seed, d, r)
			}
		}
	}
	ran := int(p.ran.Load())
	if records[0].Seq == 1 && done != ran {
		return fmt.Errorf("seed %d: %d operations ran, %d are recorded\nhistory:\n%s\nworld:\n%s\n%v", p.seed, ran, done,
			strings.Join(p.lines, "\n"), strings.Join(p.world.Lines(), "\n"), records)
	}
	return nil
}

func (p *past) look(f func() ([]scheduler.Status, error)) (keyPicture, error) {
	all, err := f()
	out := keyPicture{}
	for _, st := range all {
		out[st.Key] = show(scheduler.Moment{State: st.State, Desired: st.Desired, Actual: st.Actual, Origin: st.Origin})
	}
	return out, err
}

// show is a moment: all of what is wanted, and of what is there what its kind compares.
func show(m scheduler.Moment) string {
	wanted, there := "nothing", "nothing"
	if t, ok := m.Desired.(schedulertest.Thing); ok {
		wanted = t.String()
	}
	if t, ok := m.Actual.(schedulertest.Thing); ok {
		there = fmt.Sprint(t.Text, t.Peer, t.Needs, t.Claims, t.Derives)
	}
	return fmt.Sprintf("%s by %q wanted %s there %s", m.State, m.Origin, wanted, there)
}

func (p *past) check() error {
	for i, at := range p.times {
		told, err := p.look(func() ([]scheduler.Status, error) { return p.s.At(context.Background(), at) })
		var trimmed *scheduler.HistoryError
		if errors.As(err, &trimmed) && at.Before(trimmed.Earliest) {
			p.trimmed++
			continue
		}
		if err != nil {
			return err
		}
		if d := difference(p.pictures[i], told); d != "" {
			return fmt.Errorf("seed %d: at step %d of %d (was, told):\n%shistory:\n%s", p.seed, i, len(p.times), d, strings.Join(p.lines, "\n"))
		}
		if err := p.checkChanges(i); err != nil {
			return err
		}
	}
	return nil
}

// checkChanges: what changed between two pictures is what differs in them.
func (p *past) checkChanges(i int) error {
	j := i + p.rng.IntN(len(p.times)-i)
	changes, err := p.s.Changes(context.Background(), p.times[i], p.times[j])
	if err != nil {
		return err
	}
	want := map[scheduler.Key]bool{}
	for k := range p.pictures[i] {
		want[k] = p.pictures[i][k] != p.pictures[j][k]
	}
	for k := range p.pictures[j] {
		want[k] = p.pictures[i][k] != p.pictures[j][k]
	}
	maps.DeleteFunc(want, func(_ scheduler.Key, differs bool) bool { return !differs })
	got, lines := map[scheduler.Key]bool{}, p.lines
	for _, c := range changes {
		got[c.Key] = true
		lines = append(lines, fmt.Sprintf("%s: %s → %s; in truth %s → %s", c.Key, show(c.Before), show(c.After),
			p.pictures[i][c.Key], p.pictures[j][c.Key]))
	}
	if !maps.Equal(want, got) {
		return fmt.Errorf("seed %d: from step %d to %d: want changes of %v, told %v\nhistory:\n%s", p.seed, i, j,
			slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)), strings.Join(lines, "\n"))
	}
	return nil
}

func difference(was, told keyPicture) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(was)) {
		if was[k] != told[k] {
			fmt.Fprintf(&b, "%s: %s\n  told: %s\n", k, was[k], told[k])
		}
	}
	for _, k := range slices.Sorted(maps.Keys(told)) {
		if _, ok := was[k]; !ok {
			fmt.Fprintf(&b, "%s was not there\n  told: %s\n", k, told[k])
		}
	}
	return b.String()
}

func (p *past) note(format string, args ...any) {
	p.lines = append(p.lines, fmt.Sprintf("%d ", len(p.times))+fmt.Sprintf(format, args...))
}

func (p *past) key(kinds ...string) scheduler.Key {
	return scheduler.Key(fmt.Sprintf("%s/%d", kinds[p.rng.IntN(len(kinds))], p.rng.IntN(4)))
}

func (p *past) step() {
	switch n := p.rng.IntN(16); {
	case n < 7:
		p.write()
	case n < 9:
		k := p.key("a", "b", "o", "o")
		p.note("%s moves", k)
		if p.rng.IntN(2) == 0 {
			p.world.Take(k, true)
		} else {
			p.world.Put(k, schedulertest.Thing{Text: "moved"}, true)
		}
	case n == 9:
		p.note("look at all")
		p.s.Submit(scheduler.Txn{LookAll: true})
	case n == 10:
		k := p.key("a", "b")
		p.note("pause %s", k)
		_ = p.s.Pause(k, "for a test", time.Time{})
	case n == 11:
		k := p.key("a", "b")
		p.note("resume %s", k)
		_ = p.s.Resume(k)
	case n == 12:
		p.note("a source speaks")
		p.s.Submit(scheduler.Txn{Source: "strong", Complete: true})
		p.s.Submit(scheduler.Txn{Source: "weak", Complete: true})
	default:
		d := time.Duration(p.rng.IntN(3000)) * time.Millisecond
		p.note("wait %v", d)
		time.Sleep(d)
	}
}

// write submits some transactions in one round.
func (p *past) write() {
	for range 1 + p.rng.IntN(3) {
		txn := scheduler.Txn{Source: []string{"strong", "weak"}[p.rng.IntN(2)]}
		for range 1 + p.rng.IntN(3) {
			k := p.key("a", "b")
			c := scheduler.Withdraw(k)
			switch p.rng.IntN(8) {
			case 0, 1:
			case 2:
				c = scheduler.SetInvalid(k, errors.New("no value"))
			default:
				c = scheduler.Set(k, p.thing(k))
			}
			p.note("%s says %+v", txn.Source, c)
			txn.Want = append(txn.Want, c)
		}
		p.s.Submit(txn)
	}
}

func (p *past) thing(k scheduler.Key) schedulertest.Thing {
	t := schedulertest.Thing{Text: fmt.Sprintf("v%d", p.rng.IntN(3)), Bad: p.rng.IntN(10) == 0, Fixed: p.rng.IntN(3) == 0}
	if n := p.key("a", "b", "o"); n != k && p.rng.IntN(2) == 0 {
		t.Needs = []string{string(n)}
	}
	if p.rng.IntN(6) == 0 {
		t.Claims = []string{"name"}
	}
	if strings.HasPrefix(string(k), "a/") {
		for i := range p.rng.IntN(3) {
			t.Derives = append(t.Derives, []string{"p", "q<o/1", "r>s"}[i])
		}
	}
	return t
}

// Who follows gets every record with all its steps and changes, once; a slow
// one is told what it missed.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{HistoryBytes: 64 << 10})
		f := r.Follow()
		for i := range 5 {
			r.want(fmt.Sprintf("a/%d v1", i))
		}
		records, steps, missed := drain(t, f)
		if len(records) != 6 || steps != 5 || missed != 0 || len(records[6].Changed) != 1 {
			t.Errorf("%d records, %d steps, %d missed: %+v", len(records), steps, missed, records)
		}
		r.want("a/1 v2")
		if records, steps, _ := drain(t, f); len(records) != 1 || steps != 1 {
			t.Errorf("one more: %+v", records)
		}
		for i := range 2000 {
			r.want(fmt.Sprintf("a/1 w%d", i))
		}
		if _, _, missed := drain(t, f); missed < 1000 {
			t.Errorf("missed %d", missed)
		}
	})
}

// Values are handed to who follows as their kind encodes them. There is none of what is
// absent, of a kind that nobody registered, and of one that does not encode it.
func TestFollowEncodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := runKinds(t, scheduler.Options{}, func(d thingKind) thingKind {
			if d.Name == "b" {
				return d
			}
			d.Encode = func(v schedulertest.Thing) ([]byte, error) {
				if v.Text == "v2" {
					return nil, fmt.Errorf("it cannot be encoded")
				}
				return []byte("<" + v.Text + ">"), nil
			}
			d.Decode = func(b []byte) (schedulertest.Thing, error) { return schedulertest.Thing{Text: string(b)}, nil }
			return d
		})
		f := r.Follow()
		drain(t, f)
		r.Submit(scheduler.Txn{Want: changes("a/1 v1", "a/2 v2", "b/1 v1", "nokind/1 v1")})
		synctest.Wait()
		records, _, _ := drain(t, f)
		got := map[scheduler.Key]string{}
		for _, rec := range records {
			for _, c := range rec.Changed {
				got[c.Key] += fmt.Sprint(c.Before.Desired, c.Before.Actual, c.After.Desired, c.After.Actual)
			}
		}
		none := fmt.Sprint(nil, nil, nil, nil)
		want := map[scheduler.Key]string{"a/2": none, "b/1": none, "nokind/1": none,
			"a/1": fmt.Sprint(nil, nil, scheduler.Encoded("<v1>"), scheduler.Encoded("<v1>"))}
		if !maps.Equal(got, want) {
			t.Errorf("changes are handed over as %v, want %v", got, want)
		}
	})
}

// drain reads what there is.
func drain(t *testing.T, f *scheduler.Follower) (records map[uint64]scheduler.Record, steps, missed int) {
	t.Helper()
	records = map[uint64]scheduler.Record{}
	for {
		now, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		all, err := f.Next(now)
		cancel()
		if err != nil {
			return records, steps, missed
		}
		for _, r := range all {
			steps += len(r.Done)
			missed += r.Missed
			r.Changed = append(records[r.Seq].Changed, r.Changed...) // it may come in parts
			records[r.Seq] = r
		}
	}
}

// What is too long ago is refused, with the time from which on it can be asked;
// that of a quiet history is its beginning.
func TestHistoryBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{HistoryBytes: 16 << 10})
		began := time.Now()
		time.Sleep(time.Second)
		r.want("a/1 first")
		if all, err := r.At(ctx, began, "a/"); err != nil || len(all) != 0 {
			t.Errorf("%v, %v", all, err)
		}
		for i := range 500 {
			time.Sleep(time.Second)
			r.want(fmt.Sprintf("a/1 v%d", i))
		}
		_, err := r.At(ctx, began)
		var trimmed *scheduler.HistoryError
		if !errors.As(err, &trimmed) || !trimmed.Earliest.After(began) {
			t.Fatal(err)
		}
		if all, err := r.At(ctx, trimmed.Earliest, "a/1"); err != nil || len(all) != 1 || all[0].Desired.(schedulertest.Thing).Text == "v499" {
			t.Errorf("%v, %v", all, err)
		}
		if _, err := r.Changes(ctx, began, time.Time{}); !errors.As(err, &trimmed) {
			t.Error(err)
		}
	})
}

// A turn that changes more than the history has room for loses what is old,
// and nothing else happens to it.
func TestHistoryOfMoreThanItHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{HistoryBytes: 30_000})
		lines := make([]string, 2000)
		for _, text := range []string{"v1", "v2", "v1"} {
			for i := range lines {
				lines[i] = fmt.Sprintf("a/%d %s", i, text)
			}
			if res := r.want(lines...); !res.OK() {
				t.Fatal(res)
			}
		}
		if _, err := r.Changes(ctx, time.Now(), time.Time{}); err != nil {
			t.Error(err)
		}
	})
}
