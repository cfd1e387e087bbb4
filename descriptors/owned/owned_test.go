package owned_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

type (
	op  = scheduler.Op[*models.Route, string]
	job = owned.Job[string]
)

// namespaces is a kernel of which only namespaces are asked.
type namespaces struct {
	kernel.Kernel
	alive map[kernel.NS]bool
}

func (n namespaces) Alive(ns kernel.NS) bool { return n.alive[ns] }

// bench is a kind whose objects are names, and tells in order what happens.
type bench struct {
	t       *testing.T
	ledger  *kernel.MemLedger
	owner   *kernel.Owner
	objects owned.Objects[*models.Route, string]
	fail    string // a failpoint
	refuse  map[scheduler.Key]bool
	world   map[string]bool
	log     []string
}

var errCrash = errors.New("crash")

func newBench(t *testing.T) *bench {
	b := &bench{t: t, ledger: &kernel.MemLedger{}, refuse: map[scheduler.Key]bool{}, world: map[string]bool{}}
	b.owner = kernel.NewOwner("host7", "boot", b.ledger, func(name string) error {
		b.say("%s, ledger %s", name, b.recorded())
		if name == b.fail {
			return errCrash
		}
		return nil
	})
	b.objects = owned.Objects[*models.Route, string]{
		Kind: "route", Kernel: namespaces{alive: map[kernel.NS]bool{1: true}}, Owner: b.owner, Prepare: b.prepare,
		Forget: func(e kernel.Entry) { b.say("forget %s", e.ID) },
	}
	return b
}

func (b *bench) say(format string, args ...any) { b.log = append(b.log, fmt.Sprintf(format, args...)) }

func (b *bench) recorded() []string {
	var ids []string
	for _, e := range b.ledger.Entries("") {
		ids = append(ids, e.ID)
	}
	return ids
}

func (b *bench) prepare(_ context.Context, o *op) (job, error) {
	b.say("prepare %s", o.Key)
	if b.refuse[o.Key] {
		return job{}, errors.New("refused")
	}
	return job{
		Entries: []kernel.Entry{{ID: string(o.Key), NS: 1}},
		Make: func() (string, error) {
			b.world[string(o.Key)] = true
			return string(o.Key), b.owner.Hit("route/made")
		},
		Cancel: func() { b.say("cancel %s", o.Key) },
	}, nil
}

func (b *bench) create(ctx context.Context, keys ...scheduler.Key) (errs []error) {
	var ops []*op
	for _, k := range keys {
		ops = append(ops, &op{Key: k})
	}
	b.objects.CreateBatch(ctx, ops)
	for _, o := range ops {
		errs = append(errs, o.Err)
	}
	return errs
}

func (b *bench) retrieve(s scheduler.Scope[*models.Route, string]) (found []string) {
	for f, err := range b.objects.Retrieve(context.Background(), s, func(e kernel.Entry) (*models.Route, string, error) {
		if !b.world[e.ID] {
			return nil, "", fmt.Errorf("%s: %w", e.ID, kernel.ErrNotExist)
		}
		return nil, e.ID, nil
	}) {
		if err != nil {
			b.t.Error(err)
		}
		found = append(found, f.Meta)
	}
	return found
}

func (b *bench) said(want string) {
	b.t.Helper()
	if got := strings.Join(b.log, "\n"); got != strings.TrimSpace(want) {
		b.t.Errorf("happened:\n%s\nwant:\n%s", got, want)
	}
	b.log = nil
}

// TestOrder: what is made is in the ledger before it is there, all of a batch by one
// write, and out of it after it is gone.
func TestOrder(t *testing.T) {
	b := newBench(t)
	b.refuse["route/b"] = true
	if errs := b.create(t.Context(), "route/a", "route/b", "route/c"); errs[0] != nil || errs[1] == nil || errs[2] != nil {
		t.Error(errs)
	}
	b.said(`
prepare route/a
prepare route/b
prepare route/c
route/recorded, ledger [route/a route/c]
route/made, ledger [route/a route/c]
route/made, ledger [route/a route/c]`)
	if err := b.objects.DeleteRecorded("route/a", func(e kernel.Entry) error {
		b.say("remove %s", e.ID)
		return kernel.ErrNotExist // it went by itself
	}); err != nil {
		t.Error(err)
	}
	b.said(`
remove route/a
forget route/a
route/deleted, ledger [route/a route/c]`)
	if got := b.recorded(); !slices.Equal(got, []string{"route/c"}) {
		t.Error(got)
	}
}

// TestCrashes: after a crash the ledger names what is there, or more.
func TestCrashes(t *testing.T) {
	for _, c := range []struct {
		fail  string
		there bool
	}{{"route/recorded", false}, {"route/made", true}, {"route/deleted", true}} {
		b := newBench(t)
		b.fail = c.fail
		err := b.create(t.Context(), "route/a")[0]
		if err == nil {
			err = b.objects.DeleteRecorded("route/a", func(kernel.Entry) error { return nil })
		}
		if !errors.Is(err, errCrash) || !slices.Equal(b.recorded(), []string{"route/a"}) || b.world["route/a"] != c.there {
			t.Errorf("%s: %v, ledger %v, there %v", c.fail, err, b.recorded(), b.world)
		}
	}
}

// TestBeginsFirst: a reading that ran while an object was made does not forget its entry.
func TestBeginsFirst(t *testing.T) {
	b := newBench(t)
	reading := b.owner.Reading()
	b.create(t.Context(), "route/a")
	reading.Forget("route/a")
	if got := b.recorded(); !slices.Equal(got, []string{"route/a"}) {
		t.Error(got)
	}
}

// TestCancel: of what was recorded and is not made any more, what was noted is taken back.
func TestCancel(t *testing.T) {
	b := newBench(t)
	b.fail = "route/recorded"
	if err := b.create(t.Context(), "route/a")[0]; !errors.Is(err, errCrash) {
		t.Error(err)
	}
	b.said(`
prepare route/a
route/recorded, ledger [route/a]
cancel route/a`)
}

// TestRefusedIsNotRecorded: a batch of which nothing can be made leaves no trace.
func TestRefusedIsNotRecorded(t *testing.T) {
	b := newBench(t)
	b.refuse["route/a"] = true
	b.create(t.Context(), "route/a")
	b.said("prepare route/a")
}

// TestRetrieve: what is not there is forgotten, but not while it is being made.
func TestRetrieve(t *testing.T) {
	b := newBench(t)
	b.create(t.Context(), "route/a", "route/b", "route/c")
	delete(b.world, "route/b")
	delete(b.world, "route/c")
	all := scheduler.Scope[*models.Route, string]{All: true}
	end := b.owner.Begin("route/c")
	if got := b.retrieve(all); !slices.Equal(got, []string{"route/a"}) {
		t.Error(got)
	}
	if got := b.recorded(); !slices.Equal(got, []string{"route/a", "route/c"}) {
		t.Error(got)
	}
	end()
	if got := b.retrieve(scheduler.Scope[*models.Route, string]{Keys: []scheduler.Key{"route/a"}}); !slices.Equal(got, []string{"route/a"}) {
		t.Error(got)
	}
	b.retrieve(all)
	if got := b.recorded(); !slices.Equal(got, []string{"route/a"}) {
		t.Error(got)
	}
}

// TestReadOnlyForgetsNothing: what is only shown to somebody leaves ledger and memory alone.
func TestReadOnlyForgetsNothing(t *testing.T) {
	b := newBench(t)
	b.create(t.Context(), "route/a", "route/b")
	delete(b.world, "route/b")
	b.log = nil
	if got := b.retrieve(scheduler.Scope[*models.Route, string]{All: true, ReadOnly: true}); !slices.Equal(got, []string{"route/a"}) {
		t.Error(got)
	}
	if got := b.recorded(); !slices.Equal(got, []string{"route/a", "route/b"}) {
		t.Error(got)
	}
	b.said("")
}

// TestForeignStays: what the ledger does not name is not removed.
func TestForeignStays(t *testing.T) {
	b := newBench(t)
	if err := b.objects.DeleteRecorded("route/x", func(kernel.Entry) error { t.Error("removed"); return nil }); err != nil {
		t.Error(err)
	}
	// Nor what was in a namespace that is gone.
	if err := b.ledger.Add(kernel.Entry{ID: "route/y", NS: 2, Boot: "boot"}); err != nil {
		t.Fatal(err)
	}
	if err := b.objects.DeleteRecorded("route/y", func(kernel.Entry) error { t.Error("removed"); return nil }); err != nil {
		t.Error(err)
	}
	if got := b.recorded(); len(got) != 0 {
		t.Error(got)
	}
}

// TestMemory: groups are apart, and leave nothing behind.
func TestMemory(t *testing.T) {
	var m owned.Memory[kernel.NS, string, int]
	m.Note(1, "a", 1)
	if before, had := m.Note(1, "a", 2); before != 1 || !had {
		t.Error(before, had)
	}
	m.Note(1, "b", 3)
	m.Note(2, "a", 4)
	m.ForgetIf(1, func(n int) bool { return n == 3 })
	if _, there := m.Get(1, "b"); there {
		t.Error("it is still there")
	}
	if got := m.Of(func(ns kernel.NS) bool { return ns == 1 }, true); !slices.Equal(got, []int{2}) {
		t.Error(got)
	}
	m.Forget(2, "a")
	m.Forget(2, "a")
	if got := m.All(); len(got) != 0 {
		t.Error(got)
	}
}

// TestDumps: a namespace is read once, and a dead one is empty.
func TestDumps(t *testing.T) {
	reads := 0
	d := owned.Dumps[int]{Read: func(ns kernel.NS) (int, error) {
		reads++
		return int(ns), map[kernel.NS]error{2: kernel.ErrNoNamespace, 3: errCrash}[ns]
	}}
	for range 2 {
		if n, err := d.Of(1); n != 1 || err != nil {
			t.Error(n, err)
		}
		if _, err := d.Of(2); err != nil {
			t.Error(err)
		}
		if _, err := d.Of(3); !errors.Is(err, errCrash) {
			t.Error(err)
		}
	}
	if reads != 3 {
		t.Error(reads)
	}
}
