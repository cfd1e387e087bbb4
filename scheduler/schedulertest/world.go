package schedulertest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/plumb-net/plumb/scheduler"
)

// overdue is how long the scheduler of a World waits for an operation.
const overdue = 30 * time.Second

// World is a system in memory, outside of the scheduler. It may be used from any goroutine.
type World struct {
	mu       sync.Mutex
	objects  map[scheduler.Key]object
	made     int
	process  *process // that may act on the world now
	notify   map[string]func(...scheduler.Key)
	due      map[scheduler.Key]bool     // of those, what the scheduler is told to read; see Asked
	unseen   map[scheduler.Key]bool     // changed behind the scheduler's back; true: and read since
	going    map[scheduler.Key]bool     // what is being deleted
	known    map[scheduler.Key][]object // what was there before, each time
	mute     bool                       // no source has synced so far
	deaf     map[string]bool            // kinds without Retrieve
	echo     map[string]bool            // kinds that report our own acts
	adopts   map[string]bool            // kinds that take over what is foreign
	observed map[string]bool            // kinds that are never made
	lanes    map[string]bool            // kinds of which one operation runs at a time
	orders   orders
	fault    func(op string, k scheduler.Key) Fault
	kinds    map[string]*registration
	hung     []chan struct{} // operations that Release lets go on
	everHung bool
	slowing  int       // slow operations under way
	slowed   bool      // an operation was slow since the last time that nothing moved
	everSlow bool      // there was one
	moves    int       // how often something changed behind the scheduler's back
	hungAt   time.Time // when the first began of what hangs since nothing did
	readHung bool      // one of them is a read
	log      []entry
	bases    map[string]string          // kinds, and the kind of what they derive
	applied  map[scheduler.Key]Thing    // what operations brought about, where nothing moved since
	replaced map[scheduler.Key][]Thing  // previous values, see replace
	broken   []string                   // laws that were broken
	owners   map[string]scheduler.Key   // who was first to have a name, while it claims it
	claims   map[scheduler.Key][]string // what the values that are wanted claim
	by       map[scheduler.Key]string   // who made the change that is reported next
	limit    int                        // see Bound
	deleted  map[string][]time.Time     // by kind, what has to keep to the limit
	left     map[string]time.Time       // by kind, when something that needed one went last
	Tally    *Tally
}

// object is a thing that is there.
type object struct {
	Thing
	meta    int // counts up with every thing made or changed by us
	foreign bool
	lost    bool    // what it may stand on was changed by somebody else, or while its kind was not there
	found   *Thing  // what was there and was taken over
	built   []built // with what it was built, per need; nil: nobody can know
}

// registration is a kind of a process. Once it is unregistered, what it still
// does has no effect either.
type registration struct {
	process *process
	gone    bool
}

func (r *registration) over() bool { return r.gone || r.process.dead }

// process is one life of the scheduler. What a process that has ended still
// does has no effect.
type process struct{ dead bool }

// NewWorld makes an empty World.
func NewWorld() *World {
	return &World{objects: map[scheduler.Key]object{}, process: &process{}, notify: map[string]func(...scheduler.Key){}, kinds: map[string]*registration{},
		bases: map[string]string{}, by: map[scheduler.Key]string{}, applied: map[scheduler.Key]Thing{}, replaced: map[scheduler.Key][]Thing{},
		unseen: map[scheduler.Key]bool{}, due: map[scheduler.Key]bool{}, going: map[scheduler.Key]bool{}, known: map[scheduler.Key][]object{}, deaf: map[string]bool{}, echo: map[string]bool{}, adopts: map[string]bool{}, observed: map[string]bool{}, lanes: map[string]bool{},
		owners: map[string]scheduler.Key{}, Tally: NewTally()}
}

// String lists what is there, sorted.
func (w *World) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(w.objects)) {
		fmt.Fprintf(&b, "%s=%s", k, w.objects[k].Text)
		if w.objects[k].foreign {
			b.WriteString(" foreign")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// SetFault has f asked before an operation ("create", "update", "delete",
// "look") on a key and before an event ("events"); what it returns happens.
// Faults that were ordered in words come first.
func (w *World) SetFault(f func(op string, k scheduler.Key) Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = f
}

// Order asks for a fault.
func (w *World) Order(o Order) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.orders = append(w.orders, o)
}

// NoFaults takes back all that was ordered.
func (w *World) NoFaults() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.orders = nil
}

// Objects copies what is there.
func (w *World) Objects() map[scheduler.Key]Thing {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make(map[scheduler.Key]Thing, len(w.objects))
	for k, o := range w.objects {
		out[k] = o.Thing
	}
	return out
}

// Put makes or changes an object behind the scheduler's back; tell says
// whether the change is reported.
func (w *World) Put(k scheduler.Key, t Thing, tell bool) {
	w.mu.Lock()
	o, there := w.objects[k]
	if !there {
		w.made++
		o.meta = w.made
	}
	w.moved(k)
	w.objects[k] = object{Thing: t, meta: o.meta, foreign: o.foreign}
	w.came(k)
	w.unlock(tell, k)
}

// Blame has it known who makes the next change of a key.
func (w *World) Blame(k scheduler.Key, by string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.by[k] = by
}

// changedBy says it, once.
func (w *World) changedBy(k scheduler.Key) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer delete(w.by, k)
	return w.by[k]
}

// SetForeign makes an object somebody else's.
func (w *World) SetForeign(k scheduler.Key, t Thing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.moved(k)
	w.objects[k] = object{Thing: t, foreign: true}
	w.came(k)
}

// moved is to be called before an object changes behind the scheduler's back.
func (w *World) moved(k scheduler.Key) {
	if o, there := w.objects[k]; there {
		w.known[k] = append(w.known[k], o)
	}
	for d, o := range w.objects {
		if slices.ContainsFunc(o.Needs, func(n string) bool { return w.accepts(n, k, d) }) {
			o.lost = true
			w.objects[d] = o
		}
	}
	w.unseen[k] = false
	w.moves++
	delete(w.due, k)
	delete(w.applied, k)
}

// seen says that the scheduler knows how things stand with a key.
func (w *World) seen(k scheduler.Key) {
	delete(w.unseen, k)
	delete(w.due, k)
	delete(w.known, k)
}

// Take removes an object, and all that the world would take along: what needs it.
func (w *World) Take(k scheduler.Key, tell bool) {
	w.mu.Lock()
	var gone []scheduler.Key
	w.take(k, &gone)
	w.unlock(tell, gone...)
}

func (w *World) take(k scheduler.Key, gone *[]scheduler.Key) {
	if _, ok := w.objects[k]; !ok {
		return
	}
	if _, unseen := w.unseen[k]; unseen { // that it had its names is not known either
		w.disown(func(owner scheduler.Key) bool { return owner != k })
	}
	w.moved(k)
	delete(w.objects, k)
	w.went(k, false)
	*gone = append(*gone, k)
	for _, d := range slices.Sorted(maps.Keys(w.objects)) {
		o, ok := w.objects[d]
		if ok && (names(o.Thing, k) || partOf(d, k)) {
			w.take(d, gone)
		}
	}
}

// names reports whether t needs k by its key. A thing with a condition on k goes
// with k like any other: would it stay, dangling, then a new k could be removed
// before the thing was ever read, which nobody could know to be wrong.
func names(t Thing, k scheduler.Key) bool {
	return slices.ContainsFunc(t.Needs, func(n string) bool {
		key, _, _ := ParseNeed(n)
		return key == string(k)
	})
}

// unlock leaves the world and, if told to, reports what changed.
func (w *World) unlock(tell bool, keys ...scheduler.Key) {
	var calls []func()
	for _, k := range keys {
		f := w.notify[KindName(k)]
		if !tell || f == nil {
			continue
		}
		switch w.next("events", k) {
		case None:
			calls = append(calls, func() { f(k) })
		case Doubled:
			calls = append(calls, func() { f(k); f(k) })
		case Late:
			time.AfterFunc(lateness, func() { w.hear(k) })
		}
	}
	w.mu.Unlock()
	for _, c := range calls {
		c()
	}
}

// hear reports a change to who listens now.
func (w *World) hear(k scheduler.Key) {
	w.mu.Lock()
	f := w.notify[KindName(k)]
	w.mu.Unlock()
	if f != nil {
		f(k)
	}
}

// Release lets all operations go on that hang.
func (w *World) Release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.release()
}

func (w *World) release() {
	for _, h := range w.hung {
		close(h)
	}
	w.hung, w.readHung = nil, false
}

// Hanging reports whether anything hangs.
func (w *World) Hanging() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.hung) > 0
}

// UnderWay reports whether an operation that is slow, or hangs, has begun and not ended.
func (w *World) UnderWay() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.slowing > 0 || len(w.hung) > 0
}

// Doubtful reports whether a read hangs, which may tell of what others did meanwhile, or
// an operation that is overdue, of which nobody knows what will come.
func (w *World) Doubtful() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.readHung || len(w.hung) > 0 && time.Since(w.hungAt) >= overdue
}

// Crashed reports whether the scheduler's process has ended by a fault.
func (w *World) Crashed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.process.dead
}

// NewProcess ends the scheduler's process as far as the world is concerned:
// whatever the kinds that were made so far still do has no effect. Kinds made
// from now on are those of a new process, which has seen nothing so far.
func (w *World) NewProcess() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.process.dead = true
	w.process = &process{}
	w.release()
	clear(w.notify)
	clear(w.unseen)
	clear(w.due)
	clear(w.applied)
	clear(w.replaced)
	clear(w.known)
	clear(w.going)
	clear(w.by)
	w.disown(func(k scheduler.Key) bool {
		o, there := w.objects[k]
		return there && !o.foreign && !w.deaf[KindName(k)] // the new process can see that it has the name
	})
	for k, o := range w.objects {
		w.unseen[k] = false
		o.built = nil
		w.objects[k] = o
	}
}

// Mute says whether no source has synced so far: then nothing may be done.
func (w *World) Mute(yes bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mute = yes
}

// Bound says how many things of a kind may go within a minute, by the policies of the
// scheduler; zero: any number. It is checked of those that depend on nothing, so that they
// go for no other reason than that they are to. While something else delays what has had its
// turn, or lets things go without one, there must be no bound.
func (w *World) Bound(limit int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limit, w.deleted, w.left = limit, map[string][]time.Time{}, map[string]time.Time{}
}

// Settled is called when nothing moves. The scheduler then knows everything that it has read, unless slow
// operations delay others that were based on the state before.
func (w *World) Settled() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.hung) > 0 || w.slowing > 0 {
		return
	}
	w.hungAt = time.Time{}
	w.slowed = false
	clear(w.replaced)
	for k, read := range w.unseen {
		if read {
			w.seen(k)
		}
	}
}

// Still reports whether the scheduler knows how all things stand, and that nothing will go
// wrong with what it does.
func (w *World) Still() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.objects {
		if o.foreign {
			return false // what it takes to have its place is not known
		}
	}
	return len(w.unseen) == 0 && len(w.orders) == 0 && w.fault == nil && !w.everHung && w.slowing == 0
}

// Foreign reports whether an object is somebody else's.
func (w *World) Foreign(k scheduler.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.objects[k].foreign
}

// ForgetKind is for a kind that is unregistered: nobody knows any more with
// what its objects were built.
func (w *World) ForgetKind(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.notify, name)
	w.kinds[name].gone = true
	w.disown(func(k scheduler.Key) bool { return KindName(k) != name })
	maps.DeleteFunc(w.going, func(k scheduler.Key, _ bool) bool { return KindName(k) == name })
	for k, o := range w.objects {
		if slices.Contains(o.Needs, name+"/#") || slices.Contains(o.Needs, name+"/@") {
			o.built = nil // nor which of them others were built with
			w.objects[k] = o
		}
		if KindName(k) == name {
			delete(w.applied, k)
			o.built, o.lost = nil, true
			w.objects[k] = o
			w.unseen[k] = false
		}
	}
}
