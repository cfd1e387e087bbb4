package iface_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/plumb-net/plumb/descriptors/iface"
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink/hosttest"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/scheduler"
)

type (
	op    = scheduler.Op[*models.Interface, kernel.LinkRef]
	found = scheduler.Found[*models.Interface, kernel.LinkRef]
	scope = scheduler.Scope[*models.Interface, kernel.LinkRef]
	known = scheduler.Known[*models.Interface, kernel.LinkRef]
)

// bench is the kind on a live kernel, with a stand-in for the scheduler.
type bench struct {
	*hosttest.Host
	t      *testing.T
	own    *netlinktest.Namespace
	nets   map[string]*netlinktest.Namespace // by selector netns
	ledger *kernel.MemLedger
	names  *kernel.Names
	fail   *failpoints
	self   *belief
	kind   scheduler.Descriptor[*models.Interface, kernel.LinkRef]
	label  string
}

const label = "host7"

func newBench(t *testing.T, nets ...string) *bench {
	t.Helper()
	return newBenchOn(t, hosttest.Linux(t), nets...)
}

func newBenchOn(t *testing.T, h *hosttest.Host, nets ...string) *bench {
	b := &bench{Host: h, t: t, own: h.Net, nets: map[string]*netlinktest.Namespace{}, ledger: &kernel.MemLedger{}, fail: &failpoints{}, label: label}
	for _, name := range nets {
		ns, path := h.Named(t, name)
		b.nets[name] = &netlinktest.Namespace{Path: path, Inode: uint64(ns)}
	}
	b.restart()
	return b
}

// restart makes the kind anew, as after a crash of the agent: what was in
// memory is lost, the ledger and the kernel stay.
func (b *bench) restart() { b.restartOn(b.Kernel) }

// restartOn has the kind work on another kernel.
func (b *bench) restartOn(k kernel.Kernel) {
	b.names, b.self = &kernel.Names{}, &belief{in: map[scheduler.Key]inPlace{}, want: map[scheduler.Key]*models.Interface{}}
	b.kind = iface.New(iface.Deps{
		Kernel: k, Owner: kernel.NewOwner(b.label, "boot", b.ledger, b.fail.hit), Names: b.names,
		Places: b, Interfaces: b.self, KeyFile: testKey,
	})
}

// Resolve finds the namespaces of the test by the selector netns.
func (b *bench) Resolve(_ context.Context, in *models.Namespace) (selector.Place, error) {
	if in.GetIn() == nil {
		return selector.Place{NS: b.Own()}, nil
	}
	n := b.nets[in.GetNetns()]
	if n == nil {
		return selector.Place{}, fmt.Errorf("%s: %w", in.Text(), kernel.ErrNoNamespace)
	}
	ns, err := b.Open(n.Path)
	return selector.Place{NS: ns, Path: n.Path}, err
}

// ns is where a value of the selector netns lives; "" is the own namespace.
func (b *bench) ns(name string) *netlinktest.Namespace {
	if name == "" {
		return b.own
	}
	return b.nets[name]
}

func (b *bench) value(text string) *models.Interface {
	b.t.Helper()
	msg, err := models.DecodeKind(models.KindInterface, []byte(text))
	if err != nil {
		b.t.Fatal(err)
	}
	return msg.(*models.Interface)
}

// want tells the stand-in what should be.
func (b *bench) want(name, text string) (scheduler.Key, *models.Interface) {
	b.t.Helper()
	k, v := scheduler.Key(models.InterfaceKey(name)), b.value(text)
	if err := b.kind.Validate(k, v); err != nil {
		b.t.Fatal(err)
	}
	b.self.mu.Lock()
	defer b.self.mu.Unlock()
	b.self.want[k] = v
	return k, v
}

// try creates and believes what came of it.
func (b *bench) try(name, text string) (kernel.LinkRef, error) {
	b.t.Helper()
	k, v := b.want(name, text)
	return b.create(k, v)
}

func (b *bench) create(k scheduler.Key, v *models.Interface) (kernel.LinkRef, error) {
	ref, err := b.kind.Create(context.Background(), k, v)
	if err == nil {
		b.self.put(k, v, ref)
	}
	return ref, err
}

func (b *bench) make(name, text string) kernel.LinkRef {
	b.t.Helper()
	ref, err := b.try(name, text)
	if err != nil {
		b.t.Fatalf("create %s: %v", name, err)
	}
	return ref
}

func (b *bench) update(name, text string) error {
	b.t.Helper()
	k, v := b.want(name, text)
	from, ref, _ := b.self.Get(k)
	ref, err := b.kind.Update(context.Background(), k, from, v, ref)
	if err == nil {
		b.self.put(k, v, ref)
	}
	return err
}

func (b *bench) delete(name string) error {
	b.t.Helper()
	k := scheduler.Key(models.InterfaceKey(name))
	v, ref, _ := b.self.Get(k)
	err := b.kind.Delete(context.Background(), k, v, ref)
	if err == nil {
		b.self.drop(k)
	}
	return err
}

// look reads all, or some keys, as the scheduler would.
func (b *bench) look(names ...string) map[scheduler.Key]found {
	b.t.Helper()
	s := scope{All: len(names) == 0}
	for _, name := range names {
		s.Keys = append(s.Keys, scheduler.Key(models.InterfaceKey(name)))
	}
	s.Known = b.self.known(s)
	got := map[scheduler.Key]found{}
	for f, err := range b.kind.Retrieve(context.Background(), s) {
		if err != nil {
			b.t.Errorf("retrieve %s: %v", f.Key, err)
		}
		got[f.Key] = f
	}
	return got
}

// same checks that a look finds what is wanted, and nothing else.
func (b *bench) same(names ...string) {
	b.t.Helper()
	for _, got := range []map[scheduler.Key]found{b.look(names...), b.look()} {
		b.self.mu.Lock()
		want := slices.Sorted(maps.Keys(b.self.want))
		b.self.mu.Unlock()
		for _, k := range want {
			if len(names) > 0 && !slices.Contains(names, string(k[len("interface/"):])) {
				continue
			}
			f, there := got[k]
			v, _ := b.self.Wanted(k)
			if !there {
				b.t.Errorf("%s was not found", k)
			} else if verdict := b.kind.Compare(k, f.Value, v); verdict.Change != scheduler.Same {
				b.t.Errorf("%s: %s\nfound  %s\nwanted %s", k, verdict.Reason, models.Encode(f.Value), models.Encode(v))
			}
			delete(got, k)
		}
		for k := range got {
			if _, wanted := b.self.Wanted(k); !wanted {
				b.t.Errorf("%s was found and is not wanted", k)
			}
		}
	}
}

// writes counts what is written to the kernel while f runs.
func (b *bench) writesOf(f func()) uint64 {
	before := b.Writes()
	f()
	return b.Writes() - before
}

// belief stands in for what the scheduler knows of the kind.
type belief struct {
	mu   sync.Mutex
	in   map[scheduler.Key]inPlace
	want map[scheduler.Key]*models.Interface
}

type inPlace struct {
	v   *models.Interface
	ref kernel.LinkRef
}

func (s *belief) put(k scheduler.Key, v *models.Interface, ref kernel.LinkRef) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.in[k] = inPlace{v, ref}
}

func (s *belief) drop(k scheduler.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.in, k)
	delete(s.want, k)
}

func (s *belief) Get(k scheduler.Key) (*models.Interface, kernel.LinkRef, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.in[k]
	return p.v, p.ref, ok
}

func (s *belief) Wanted(k scheduler.Key) (*models.Interface, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.want[k]
	return v, ok
}

func (s *belief) known(sc scope) (list []known) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, v := range s.want {
		if !sc.All && !slices.Contains(sc.Keys, k) {
			continue
		}
		kn := known{Key: k, Value: v}
		if p, ok := s.in[k]; ok {
			kn.Value, kn.Meta, kn.InPlace = p.v, p.ref, true
		}
		list = append(list, kn)
	}
	return list
}

// failpoints crash operations at a named place.
type failpoints struct {
	mu   sync.Mutex
	at   string
	hits map[string]int
	do   map[string]func() // what somebody else does at a place
}

var errCrash = errors.New("crash")

func (f *failpoints) hit(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hits == nil {
		f.hits = map[string]int{}
	}
	f.hits[name]++
	if do := f.do[name]; do != nil {
		do()
	}
	if name == f.at {
		return errCrash
	}
	return nil
}

func (f *failpoints) set(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at = name
}

// testKey is what the files with keys of these tests hold.
func testKey(file string) (models.WireGuardKey, error) { return sha256.Sum256([]byte(file)), nil }
