package schedulertest

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/plumb-net/plumb/scheduler"
)

// What the descriptors of a World do to it.

var errDead = errors.New("the process has ended, or the kind is unregistered")

// begin notes an operation and decides what goes wrong with it.
func (w *World) begin(r *registration, op string, k scheduler.Key) (Fault, error) {
	if r.over() {
		return None, errDead
	}
	f := w.next(op, k)
	switch f {
	case None:
		return None, nil
	case Panic:
		panic("told to")
	case Hang:
		h := make(chan struct{})
		w.hung, w.everHung = append(w.hung, h), true
		w.readHung = w.readHung || op == "look"
		if w.hungAt.IsZero() {
			w.hungAt = time.Now()
		}
		w.mu.Unlock()
		<-h
		w.mu.Lock()
		if r.over() {
			return None, errDead
		}
		if op != "look" {
			w.moved(k) // it may have been given up
		}
	}
	if f.undone() {
		return f, f.err()
	}
	return f, nil
}

// slow lets time pass between the begin of an operation and what it does, if it is to be slow.
func (w *World) slow(r *registration, f *Fault) error {
	if *f != Slow {
		return nil
	}
	*f = None
	w.slowing, w.slowed, w.everSlow = w.slowing+1, true, true
	w.mu.Unlock()
	time.Sleep(slowness)
	w.mu.Lock()
	w.slowing--
	if r.over() {
		return errDead
	}
	return nil
}

// next finds the fault that an operation, read or event meets, and counts it.
func (w *World) next(op string, k scheduler.Key) Fault {
	f := w.orders.next(op, k)
	if f == None && w.fault != nil {
		f = w.fault(op, k)
	}
	w.Tally.fault(op, f)
	if f != None {
		w.log = append(w.log, entry{what: "! " + op + " ", key: k, fault: f})
	}
	return f
}

// end is the error of an operation that was done. The process of one that
// crashes ends here.
func (w *World) end(r *registration, f Fault) error {
	if f == Crash {
		r.process.dead = true
		return errDead
	}
	return f.err()
}

// done tells of what was done, where the kind hears its own acts.
func (w *World) done(k scheduler.Key) { w.unlock(w.echo[KindName(k)], k) }

func (w *World) create(r *registration, k scheduler.Key, t Thing) (int, error) {
	w.mu.Lock()
	defer w.done(k)
	if w.going[scheduler.Key(t.Peer)] && !r.over() {
		w.breach("create of %s while its old peer %s is being deleted", k, t.Peer)
	}
	f, err := w.begin(r, "create", k)
	if err != nil {
		return 0, err
	}
	was := w.objects[k]
	if was.foreign && !w.adopts[KindName(k)] {
		return 0, scheduler.Conflict("somebody", errors.New("it is there already"))
	}
	w.checkGround("create", k, t)
	moves := w.moves
	if err := w.slow(r, &f); err != nil {
		return 0, err
	}
	if f.halves() {
		t = half(t)
	}
	meta, err := w.set("+ ", r, f, k, t)
	o := w.objects[k]
	if was.foreign {
		o.found = &was.Thing
	}
	// In a lane it may have waited since it was begun, and others may have changed what it is to stand on.
	o.lost = moves != w.moves || w.lanes[KindName(k)] && w.everSlow && w.moves > 0
	w.objects[k] = o
	return meta, err
}

func (w *World) update(r *registration, k scheduler.Key, _, to Thing) (int, error) {
	w.mu.Lock()
	defer w.done(k)
	f, err := w.begin(r, "update", k)
	if err != nil {
		return 0, err
	}
	old, ok := w.objects[k]
	if !ok {
		return 0, errors.New("it is not there")
	}
	_, unseen := w.unseen[k]
	if old.SameAs(to) && !unseen && !w.everSlow { // behind a slow one it may have waited, and become so
		w.breach("update of %s to what it is already", k)
	}
	w.checkGround("update", k, to)
	w.checkFits(k, old.Thing, to)
	known, moves := len(w.unseen) == 0, w.moves
	if f == Slow {
		if err := w.slow(r, &f); err != nil {
			return 0, err
		}
		if old, ok = w.objects[k]; !ok { // somebody else took it meanwhile
			return 0, errors.New("it is not there")
		}
		if known && moves == w.moves {
			w.checkFits(k, old.Thing, to)
		}
	}
	if compare(k, old.Thing, to).Change == scheduler.InPlaceAlone && !unseen {
		w.checkFree("update", k)
	}
	if f.halves() {
		to = half(old.Thing)
	}
	return w.set("~ ", r, f, k, to)
}

// giveBack makes what was taken over as it was found, and somebody else's.
func (w *World) giveBack(r *registration, k scheduler.Key, found Thing) error {
	w.mu.Lock()
	defer w.done(k)
	f, err := w.begin(r, "release", k)
	if err == nil {
		err = w.slow(r, &f)
	}
	if err != nil {
		return err
	}
	if was := w.objects[k].found; was == nil || !was.SameAs(found) {
		w.breach("release of %s as it was never found", k)
	}
	w.objects[k] = object{Thing: found, foreign: true}
	w.came(k)
	w.log = append(w.log, entry{what: "< ", key: k, text: found.Text})
	return w.end(r, f)
}

func (w *World) set(sign string, r *registration, f Fault, k scheduler.Key, t Thing) (int, error) {
	w.made++
	o := object{Thing: t, meta: w.made, found: w.objects[k].found}
	if f == None {
		if !slices.ContainsFunc(t.Needs, func(n string) bool { return !w.met(k, n) }) {
			o.built = w.parts(k, t)
		}
		w.seen(k)
		w.checkNames(k, t)
		w.replace(k)
		w.applied[k] = t
	} else {
		delete(w.applied, k)
	}
	w.objects[k] = o
	w.came(k)
	w.log = append(w.log, entry{what: sign, key: k, text: t.Text})
	return w.made, w.end(r, f)
}

func (w *World) delete(r *registration, k scheduler.Key) error {
	w.mu.Lock()
	defer w.done(k)
	if !r.over() {
		w.going[k] = true
		defer func() {
			if !r.over() {
				delete(w.going, k)
			}
		}()
	}
	f, err := w.begin(r, "delete", k)
	if _, unseen := w.unseen[k]; err == nil && w.objects[k].foreign && !unseen {
		w.breach("delete of %s, which is foreign", k)
	}
	if err == nil {
		err = w.slow(r, &f)
	}
	if err != nil || w.objects[k].foreign {
		return err
	}
	if w.objects[k].found != nil {
		w.breach("delete of %s, which was taken over", k)
	}
	w.checkFree("delete", k)
	w.checkBound(k, w.objects[k].Thing)
	if o, ok := w.objects[k]; ok && f.halves() {
		_, err := w.set("~ ", r, f, k, half(o.Thing))
		return err
	}
	if w.left != nil {
		for _, n := range w.objects[k].Needs {
			key, _, _ := ParseNeed(n)
			w.left[KindName(scheduler.Key(key))] = time.Now()
		}
	}
	delete(w.objects, k)
	w.went(k, true)
	if f == None {
		w.seen(k)
	}
	w.log = append(w.log, entry{what: "- ", key: k})
	return w.end(r, f)
}

type (
	foundThing = scheduler.Found[Thing, int]
	thingScope = scheduler.Scope[Thing, int]
)

func (w *World) retrieve(r *registration, name string) func(context.Context, thingScope) iter.Seq2[foundThing, error] {
	return func(ctx context.Context, s thingScope) iter.Seq2[foundThing, error] {
		return func(yield func(foundThing, error) bool) {
			found, unread, err := w.read(ctx, r, name, s)
			for _, f := range found {
				if !yield(f, nil) {
					return
				}
			}
			for _, k := range unread {
				if !yield(foundThing{Key: k}, ErrFault) {
					return
				}
			}
			if err != nil {
				yield(foundThing{}, err)
			}
		}
	}
}

// read copies what is in the scope, and names what could not be read.
func (w *World) read(ctx context.Context, r *registration, name string, s thingScope) (found []foundThing, unread []scheduler.Key, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f, err := w.begin(r, "look", scheduler.Key(name+"/"))
	if err != nil {
		return nil, nil, err
	}
	inTime := ctx.Err() == nil // else nobody takes it in
	keys := s.Keys
	if s.All {
		keys = nil
		for k := range w.objects {
			if KindName(k) == name {
				keys = append(keys, k)
			}
		}
		slices.Sort(keys)
	}
	for _, k := range keys {
		if len(w.orders) > 0 && w.orders.next("look", k) != None {
			w.Tally.fault("look key", Fail)
			unread = append(unread, k)
			continue
		}
		if _, unseen := w.unseen[k]; unseen && inTime {
			w.unseen[k] = true
		}
		if o, ok := w.objects[k]; ok {
			found = append(found, foundThing{Key: k, Value: o.Thing, Meta: o.meta, Foreign: o.foreign})
		}
	}
	if s.All && inTime {
		for k := range w.unseen {
			if KindName(k) == name && !slices.Contains(unread, k) {
				w.unseen[k] = true
			}
		}
	}
	return found, unread, w.end(r, f)
}

func (w *World) watch(r *registration, name string) func(context.Context, func(...scheduler.Key)) error {
	return func(ctx context.Context, notify func(...scheduler.Key)) error {
		w.mu.Lock()
		if !r.over() {
			w.notify[name] = notify
		}
		w.mu.Unlock()
		<-ctx.Done()
		return ctx.Err()
	}
}
