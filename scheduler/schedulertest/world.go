// Package schedulertest is for everybody who writes descriptors: a small world
// with laws, faults to order, random histories and a dumb oracle.
//
// A [World] holds objects of a few kinds whose values are [Thing]s. It is told
// what each operation does, checks the laws that the scheduler promises at
// every one of them, and can be told to fail, to lose things, to change them
// behind the scheduler's back.
package schedulertest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/plumb-net/plumb/scheduler"
)

// Thing is a value: a text, what it needs, what it derives.
type Thing struct {
	Text string
	// Needs are keys; one that ends in a slash is any key below, "k=v" wants
	// the needed thing's text to be v. With "k@" the thing is built with the
	// needed thing's text, with "k#" with what its last operation left (its
	// metadata), and is built anew when that changes.
	Needs []string
	// Peer is a key needed together with this one.
	Peer string
	// Derives are names of derived values, each below "<derived kind>/<name of
	// this>/". "p<k" needs k also, "p>q" itself derives q.
	Derives []string
	// Claims are names that only one may have.
	Claims []string
	// Fixed: a change of the text replaces instead of updating.
	Fixed bool
	// Bad is refused by validation.
	Bad bool
}

func (t Thing) equal(o Thing) bool {
	return t.Text == o.Text && t.Peer == o.Peer && slices.Equal(t.Needs, o.Needs) && slices.Equal(t.Claims, o.Claims) &&
		slices.Equal(t.Derives, o.Derives)
}

// World is a made-up outside world. It may be used from any goroutine.
type World struct {
	mu      sync.Mutex
	objects map[scheduler.Key]Thing
	metas   map[scheduler.Key]int // counts up with every thing made or changed by us
	built   map[string]string     // "thing need": the text of what it was built with
	made    int
	foreign map[scheduler.Key]bool
	notify  map[string]func(...scheduler.Key)
	Log     []string // operations, in order, as text
	broken  []string // laws that were broken
	// Fault is asked before an operation ("create", "update", "delete",
	// "look") on a key; what it returns happens. nil: nothing ever fails.
	Fault func(op string, k scheduler.Key) Fault
	// Counts tells how often each operation and fault happened.
	Counts map[string]int
	// Deaf kinds have no Retrieve.
	deaf  map[string]bool
	quiet bool
	hung  map[scheduler.Key]chan struct{} // operations that Release lets go on
}

// Fault is what goes wrong with one operation.
type Fault uint8

// The faults.
const (
	None         Fault = iota
	Fail               // nothing is done, an error is returned
	FailAfter          // it is done, and an error is returned all the same
	FailForever        // nothing is done, and trying again is pointless
	Panic              // nothing is done, the descriptor panics
	Hang               // nothing happens until Release, whatever the context says; then it is done
	FailLater          // nothing is done, and the next try is due in 10 s
	FailInvalid        // nothing is done, the value is refused
	FailConflict       // nothing is done, somebody else's is there
)

var faultNames = [...]string{"none", "fail", "fail-after", "fail-forever", "panic", "hang", "later", "invalid", "conflict"}

func (f Fault) String() string { return faultNames[f] }

// ParseFault is the reverse of String.
func ParseFault(name string) (Fault, error) {
	i := slices.Index(faultNames[:], name)
	if i < 0 {
		return None, fmt.Errorf("no fault is called %q: take one of %v", name, faultNames)
	}
	return Fault(i), nil
}

// ErrFault is what failing operations return.
var ErrFault = errors.New("fault")

// NewWorld makes an empty world.
func NewWorld() *World {
	return &World{objects: map[scheduler.Key]Thing{}, metas: map[scheduler.Key]int{}, built: map[string]string{}, foreign: map[scheduler.Key]bool{},
		notify: map[string]func(...scheduler.Key){}, Counts: map[string]int{}, deaf: map[string]bool{},
		hung: map[scheduler.Key]chan struct{}{}}
}

// Broken are the laws that were broken so far, in words.
func (w *World) Broken() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.broken)
}

// String lists what is there, sorted.
func (w *World) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(w.objects)) {
		fmt.Fprintf(&b, "%s=%s", k, w.objects[k].Text)
		if w.foreign[k] {
			b.WriteString(" foreign")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// SetFault sets Fault while the world is in use.
func (w *World) SetFault(f func(op string, k scheduler.Key) Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Fault = f
}

// Lines copies the log.
func (w *World) Lines() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.Log)
}

// Objects copies what is there.
func (w *World) Objects() map[scheduler.Key]Thing {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.objects)
}

// Put makes or changes an object behind the scheduler's back; tell says
// whether the change is reported.
func (w *World) Put(k scheduler.Key, t Thing, tell bool) {
	w.mu.Lock()
	if _, there := w.objects[k]; !there {
		w.mark(k)
	}
	w.objects[k] = t
	f := w.notify[kindName(k)]
	w.mu.Unlock()
	if tell && f != nil {
		f(k)
	}
}

// mark gives the object new metadata.
func (w *World) mark(k scheduler.Key) int {
	w.made++
	w.metas[k] = w.made
	return w.made
}

// Take removes an object, and all that the world would take along: what needs it.
func (w *World) Take(k scheduler.Key, tell bool) {
	w.mu.Lock()
	var gone []scheduler.Key
	w.take(k, &gone)
	var calls []func()
	if tell {
		for _, g := range gone {
			if f := w.notify[kindName(g)]; f != nil {
				calls = append(calls, func() { f(g) })
			}
		}
	}
	w.mu.Unlock()
	for _, c := range calls {
		c()
	}
}

func (w *World) take(k scheduler.Key, gone *[]scheduler.Key) {
	if _, ok := w.objects[k]; !ok {
		return
	}
	delete(w.objects, k)
	*gone = append(*gone, k)
	for _, d := range slices.Sorted(maps.Keys(w.objects)) {
		t, ok := w.objects[d]
		if ok && (w.names(t, k) || strings.HasPrefix(rest(d), rest(k)+"/") && len(rest(d)) > len(rest(k))) {
			w.take(d, gone)
		}
	}
}

// names tells whether t needs k by its key. A thing with a condition on k goes
// with k like any other: would it stay, dangling, then a new k could be removed
// before the thing was ever read, which nobody could know to be wrong.
func (w *World) names(t Thing, k scheduler.Key) bool {
	return slices.ContainsFunc(t.Needs, func(n string) bool {
		key, _, _ := parseNeed(n)
		return key == string(k)
	})
}

func kindName(k scheduler.Key) string {
	name, _, _ := strings.Cut(string(k), "/")
	return name
}

func rest(k scheduler.Key) string {
	_, r, _ := strings.Cut(string(k), "/")
	return r
}

// Options of a kind of a world.
type Options struct {
	Observed  bool
	NoUpdate  bool
	Deaf      bool // no Retrieve
	NoWatch   bool
	Batch     bool
	DerivedTo string // name of the kind of derived values
}

// Kind makes the descriptor of a kind of this world, keys "<name>/…".
func (w *World) Kind(name string, o Options) scheduler.Descriptor[Thing, int] {
	d := scheduler.Descriptor[Thing, int]{
		Name: name, Prefix: scheduler.Key(name + "/"),
		Equal: func(_ scheduler.Key, a, b Thing) bool { return a.equal(b) },
	}
	if !o.Deaf {
		d.Retrieve = w.retrieve(name)
	} else {
		w.mu.Lock()
		w.deaf[name] = true
		w.mu.Unlock()
	}
	if !o.NoWatch {
		d.Watch = w.watch(name)
	}
	if o.Observed {
		return d
	}
	d.Needs = needs
	d.Claims = claims
	d.Validate = func(_ scheduler.Key, t Thing) error {
		if t.Bad {
			return scheduler.Invalid("text", "%q is bad, good would be anything else", t.Text)
		}
		return nil
	}
	if o.DerivedTo != "" {
		d.Derive = func(k scheduler.Key, t Thing) []scheduler.Change { return derive(o.DerivedTo, k, t) }
	}
	d.Create = w.create
	d.Delete = w.delete
	if !o.NoUpdate {
		d.Update = w.update
		d.Compare = compare
	}
	if o.Batch {
		d.CreateBatch = func(ctx context.Context, ops []*scheduler.Op[Thing, int]) {
			for _, op := range ops {
				op.Meta, op.Err = w.create(ctx, op.Key, op.Value)
			}
		}
		d.DeleteBatch = func(ctx context.Context, ops []*scheduler.Op[Thing, int]) {
			for _, op := range ops {
				op.Err = w.delete(ctx, op.Key, op.Value, op.Meta)
			}
		}
	}
	return d
}

func compare(_ scheduler.Key, from, to Thing) scheduler.Verdict {
	switch {
	case from.equal(to):
		return scheduler.Verdict{}
	case to.Fixed || from.Peer != to.Peer:
		return scheduler.Verdict{Change: scheduler.Replace, Reason: "it is fixed"}
	}
	return scheduler.Verdict{Change: scheduler.InPlace, Reason: "text " + from.Text + " → " + to.Text}
}

// parseNeed splits what Thing.Needs says; how is '=', '@', '#' or 0.
func parseNeed(n string) (key, text string, how byte) {
	i := strings.IndexAny(n, "=@#")
	if i < 0 {
		return n, "", 0
	}
	return n[:i], n[i+1:], n[i]
}

func needs(k scheduler.Key, t Thing) []scheduler.Need {
	var out []scheduler.Need
	for _, n := range t.Needs {
		key, text, how := parseNeed(n)
		need := scheduler.On(scheduler.Key(key), "to stand on")
		if strings.HasSuffix(key, "/") {
			need = scheduler.AnyOf(scheduler.Key(key), "any of them")
		}
		switch how {
		case '=':
			need = scheduler.If(need, func(_ scheduler.Key, v Thing, _ int) bool { return v.Text == text })
		case '@':
			need = scheduler.Project(need, func(v Thing, _ int) string { return v.Text })
		case '#':
			need = scheduler.Project(need, func(_ Thing, m int) string { return strconv.Itoa(m) })
		}
		out = append(out, need)
	}
	if t.Peer != "" {
		peer := scheduler.Key(t.Peer)
		out = append(out, scheduler.Together(peer, "its peer", func(p Thing) error {
			if p.Peer != string(k) {
				return scheduler.Invalid("peer", "%s names %q as its peer, not %s", peer, p.Peer, k)
			}
			return nil
		}))
		if k > peer {
			out = append(out, scheduler.On(peer, "which makes the pair"))
		}
	}
	return out
}

func claims(_ scheduler.Key, t Thing) []scheduler.Claim {
	var out []scheduler.Claim
	for _, c := range t.Claims {
		out = append(out, scheduler.Claim{ID: c, What: "the name " + c})
	}
	return out
}

func derive(kind string, k scheduler.Key, t Thing) []scheduler.Change {
	var out []scheduler.Change
	for _, d := range t.Derives {
		name, nested, _ := strings.Cut(d, ">")
		name, needs, _ := strings.Cut(name, "<")
		c := Thing{Text: "derived"}
		if needs != "" {
			c.Needs = []string{needs}
		}
		if nested != "" {
			c.Derives = []string{nested}
		}
		out = append(out, scheduler.Set(scheduler.Key(kind+"/"+rest(k)+"/"+name), c))
	}
	return out
}

// begin notes an operation and decides what goes wrong with it.
func (w *World) begin(op string, k scheduler.Key) Fault {
	w.Counts[op]++
	var f Fault
	if w.Fault != nil {
		f = w.Fault(op, k)
	}
	if f != None {
		w.Log = append(w.Log, fmt.Sprintf("! %s %s: %s", op, k, f))
		w.Counts[op+" "+f.String()]++
	}
	switch f {
	case Panic:
		panic("told to")
	case Hang:
		c := make(chan struct{})
		w.hung[k] = c
		w.mu.Unlock()
		<-c
		w.mu.Lock()
	}
	return f
}

// note puts a line between the operations in the log.
func (w *World) note(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Log = append(w.Log, "  "+line)
}

func (w *World) breach(format string, args ...any) {
	w.broken = append(w.broken, fmt.Sprintf(format, args...))
	w.Log = append(w.Log, "BROKEN: "+fmt.Sprintf(format, args...))
}

func (f Fault) err() error {
	switch f {
	case Fail, FailAfter:
		return ErrFault
	case FailForever:
		return scheduler.Terminal(ErrFault)
	case FailLater:
		return scheduler.Retry(ErrFault, 10*time.Second)
	case FailInvalid:
		return scheduler.Invalid("text", "the world refuses it")
	case FailConflict:
		return scheduler.Conflict("somebody", ErrFault)
	}
	return nil
}

// undone tells that the operation does nothing.
func (f Fault) undone() bool { return f != None && f != FailAfter && f != Hang }

// Release lets all operations go on that hang.
func (w *World) Release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, c := range w.hung {
		close(c)
		delete(w.hung, k)
	}
}

func (w *World) create(_ context.Context, k scheduler.Key, t Thing) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.begin("create", k)
	if f.undone() {
		return 0, f.err()
	}
	if w.foreign[k] {
		return 0, scheduler.Conflict("somebody", errors.New("it is there already"))
	}
	w.checkGround("create", k, t)
	if old, ok := w.objects[k]; ok && !old.equal(t) && !w.deaf[kindName(k)] {
		w.Counts["create over"]++
	}
	w.objects[k] = t
	w.build(k, t)
	w.Log = append(w.Log, "+ "+string(k)+"="+t.Text)
	return w.mark(k), f.err()
}

func (w *World) update(_ context.Context, k scheduler.Key, from, to Thing, _ int) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.begin("update", k)
	if f.undone() {
		return 0, f.err()
	}
	old, ok := w.objects[k]
	if !ok {
		return 0, errors.New("it is not there")
	}
	if old.equal(to) {
		w.breach("update of %s to what it is already", k)
	}
	w.checkGround("update", k, to)
	w.objects[k] = to
	w.build(k, to)
	w.Log = append(w.Log, "~ "+string(k)+"="+to.Text)
	return w.mark(k), f.err()
}

func (w *World) delete(_ context.Context, k scheduler.Key, _ Thing, _ int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.begin("delete", k)
	if f.undone() {
		return f.err()
	}
	if w.foreign[k] {
		w.breach("delete of %s, which is foreign", k)
		return nil
	}
	if _, ok := w.objects[k]; ok {
		for d, t := range w.objects {
			if w.standsOn(d, t, k) {
				w.breach("delete of %s, which %s stands on", k, d)
			}
		}
	}
	delete(w.objects, k)
	w.Log = append(w.Log, "- "+string(k))
	return f.err()
}

// build notes with what the thing was built.
func (w *World) build(k scheduler.Key, t Thing) {
	for _, n := range t.Needs {
		if key, _, how := parseNeed(n); how == '@' {
			w.built[string(k)+" "+n] = w.objects[scheduler.Key(key)].Text
		}
	}
}

// Outdated names something that the thing was built with and that has changed
// since, "" if there is nothing like that.
func (w *World) Outdated(k scheduler.Key) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.objects[k].Needs {
		if key, _, how := parseNeed(n); how == '@' && w.built[string(k)+" "+n] != w.objects[scheduler.Key(key)].Text {
			return key
		}
	}
	return ""
}

// standsOn tells whether d cannot do without k.
func (w *World) standsOn(d scheduler.Key, t Thing, k scheduler.Key) bool {
	for _, n := range t.Needs {
		key, _, _ := parseNeed(n)
		if key == string(k) {
			return true
		}
		// If others change the world unseen, the scheduler may believe in another one.
		if !w.quiet && strings.HasSuffix(key, "/") && strings.HasPrefix(string(k), key) && w.countBelow(key) == 1 {
			return true
		}
	}
	return false
}

func (w *World) countBelow(prefix string) int {
	n := 0
	for k := range w.objects {
		if strings.HasPrefix(string(k), prefix) {
			n++
		}
	}
	return n
}

// checkGround: law 1. What a thing needs must be there when it is made.
func (w *World) checkGround(op string, k scheduler.Key, t Thing) {
	for _, n := range t.Needs {
		key, text, how := parseNeed(n)
		if strings.HasSuffix(key, "/") {
			if w.countBelow(key) == 0 {
				w.missing(op, k, n)
			}
			continue
		}
		o, ok := w.objects[scheduler.Key(key)]
		if !ok || how == '=' && o.Text != text {
			w.missing(op, k, n)
		}
	}
	if t.Peer != "" && string(k) > t.Peer {
		if _, ok := w.objects[scheduler.Key(t.Peer)]; !ok {
			w.missing(op, k, t.Peer)
		}
	}
}

// missing is a breach, unless the world took the need away behind the
// scheduler's back, which nobody could know.
func (w *World) missing(op string, k scheduler.Key, need string) {
	if !w.quiet {
		w.breach("%s of %s without %s", op, k, need)
	}
}

// Unreliable tells the world that it changes behind the scheduler's back, so
// that missing ground is not the scheduler's fault.
func (w *World) Unreliable(yes bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.quiet = yes
}

// SetForeign makes an object somebody else's.
func (w *World) SetForeign(k scheduler.Key, t Thing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.objects[k], w.foreign[k] = t, true
}

func (w *World) retrieve(name string) func(context.Context, scheduler.Scope[Thing, int]) iter.Seq2[scheduler.Found[Thing, int], error] {
	return func(_ context.Context, s scheduler.Scope[Thing, int]) iter.Seq2[scheduler.Found[Thing, int], error] {
		return func(yield func(scheduler.Found[Thing, int], error) bool) {
			w.mu.Lock()
			var out []scheduler.Found[Thing, int]
			var err error
			if w.begin("look", scheduler.Key(name+"/")).undone() {
				err = ErrFault
			}
			for _, k := range slices.Sorted(maps.Keys(w.objects)) {
				if kindName(k) == name && (s.All || slices.Contains(s.Keys, k)) {
					out = append(out, scheduler.Found[Thing, int]{Key: k, Value: w.objects[k], Meta: w.metas[k], Foreign: w.foreign[k]})
				}
			}
			w.mu.Unlock()
			if err != nil {
				yield(scheduler.Found[Thing, int]{}, err)
				return
			}
			for _, f := range out {
				if !yield(f, nil) {
					return
				}
			}
		}
	}
}

func (w *World) watch(name string) func(context.Context, func(...scheduler.Key)) error {
	return func(ctx context.Context, notify func(...scheduler.Key)) error {
		w.mu.Lock()
		w.notify[name] = notify
		w.mu.Unlock()
		<-ctx.Done()
		return ctx.Err()
	}
}
