package schedulertest

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/plumb-net/plumb/scheduler"
)

func (x *trial[V, M]) cancelled() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if x.d.Retrieve != nil && !x.within(func() { x.drain(ended, x.scope()) }) {
		x.fail(x.d.Prefix, "Retrieve of all does not return")
		return
	}
	if x.observed() {
		return
	}
	x.each(func(s Sample[V]) {
		k, v := s.Key, s.Values[0]
		var m M
		var err error
		if !x.soon(k, "Create", func() { m, err = x.d.Create(ended, k, v) }) {
			return
		}
		if x.blameless(k, "Create", err); err == nil {
			x.made(k, v, m)
			x.isAs(k, v, "a Create that succeeded all the same")
		} else if !x.create(k, v) {
			return
		}
		for _, to := range s.Values[1:] {
			if !x.cancelledUpdate(ended, k, to) {
				return
			}
		}
		x.cancelledDelete(ended, k)
	})
}

func (x *trial[V, M]) cancelledUpdate(ended context.Context, k scheduler.Key, to V) (ok bool) {
	from, m, _ := x.view.Get(k)
	if x.d.Update == nil || !inPlace(x.compare(k, from, to)) || !x.ground(k, to) {
		return true
	}
	x.view.want(k, to)
	var err error
	if !x.soon(k, "Update", func() { m, err = x.d.Update(ended, k, from, to, m) }) {
		return false
	}
	if x.blameless(k, "Update", err); err == nil {
		x.view.put(k, to, m)
		x.isAs(k, to, "an Update that succeeded all the same")
		return true
	}
	return x.update(k, to, scheduler.InPlace)
}

func (x *trial[V, M]) cancelledDelete(ended context.Context, k scheduler.Key) {
	v, m, _ := x.view.Get(k)
	var err error
	if !x.soon(k, "Delete", func() { err = x.d.Delete(ended, k, v, m) }) {
		return
	}
	if x.blameless(k, "Delete", err); err == nil {
		x.isGone(k, "a Delete that succeeded all the same")
	}
	x.remove(k)
}

// soon runs an operation and reports if it does not return.
func (x *trial[V, M]) soon(k scheduler.Key, what string, f func()) bool {
	if x.within(f) {
		return true
	}
	x.fail(k, "%s does not return when its context has ended", what)
	x.order = nil // whatever holds it up holds up the clearing as well
	return false
}

// blameless reports an error that makes more of a cancellation than it is.
func (x *trial[V, M]) blameless(k scheduler.Key, what string, err error) {
	var invalid *scheduler.InvalidError
	var class *scheduler.OpError
	if errors.As(err, &invalid) || errors.As(err, &class) && (class.Terminal || class.Owner != "") {
		x.fail(k, "%s without time fails with %v (%T): nobody would try it again", what, err, err)
	}
}

func (x *trial[V, M]) drain(ctx context.Context, s scheduler.Scope[V, M]) {
	for range x.d.Retrieve(ctx, s) {
		continue // only the reading itself is of interest
	}
}

// stalled cancels operations that are under way on a system that hangs.
func (x *trial[V, M]) stalled() {
	s, scope := x.spec.Samples[0], x.scope()
	k, v := s.Key, s.Values[0]
	read := func(ctx context.Context) { x.drain(ctx, scope) }
	if x.d.Retrieve != nil && !x.stall(k, "Retrieve", read) || x.observed() || !x.ground(k, v) {
		return
	}
	var m M
	var err error
	if !x.stall(k, "Create", func(ctx context.Context) { m, err = x.d.Create(ctx, k, v) }) {
		return
	}
	if err == nil {
		x.made(k, v, m)
	}
	if x.create(k, v) {
		m := x.metaOf(k)
		x.stall(k, "Delete", func(ctx context.Context) { _ = x.d.Delete(ctx, k, v, m) })
	}
}

func (x *trial[V, M]) stall(k scheduler.Key, name string, op func(ctx context.Context)) bool {
	release := x.spec.Stall(x.t)
	defer release()
	ctx, cancel := context.WithCancel(context.Background())
	defer time.AfterFunc(time.Millisecond, cancel).Stop()
	return x.soon(k, name, func() { op(ctx) })
}

// ear collects what a Watch notifies.
type ear struct {
	mu    sync.Mutex
	all   bool
	keys  map[scheduler.Key]bool
	heard chan struct{} // something came
}

func newEar() *ear { return &ear{keys: map[scheduler.Key]bool{}, heard: make(chan struct{}, 1)} }

func (e *ear) notify(keys ...scheduler.Key) {
	e.mu.Lock()
	e.all = e.all || len(keys) == 0
	for _, k := range keys {
		e.keys[k] = true
	}
	e.mu.Unlock()
	select {
	case e.heard <- struct{}{}:
	default:
	}
}

// of reports whether the key, a folder of it or all was notified, and forgets
// that it was all.
func (e *ear) of(k scheduler.Key) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for key := range e.keys {
		if key == k || strings.HasSuffix(string(key), "/") && strings.HasPrefix(string(k), string(key)) {
			return true
		}
	}
	all := e.all
	e.all = false
	return all
}

// startWatch runs Watch; stop ends it and reports whether it did end.
func (x *trial[V, M]) startWatch(e *ear) (ended chan error, stop func() bool) {
	ctx, cancel := context.WithCancel(context.Background())
	ended, done, begun := make(chan error, 1), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				ended <- fmt.Errorf("panicked: %v", p)
			}
		}()
		close(begun)
		ended <- x.d.Watch(ctx, e.notify)
	}()
	<-begun
	return ended, func() bool { cancel(); return x.ends(done) }
}

func (x *trial[V, M]) watch() {
	if !x.all() {
		return
	}
	if x.d.Retrieve != nil {
		x.retrieve(x.scope()) // what was read before Watch is not read again without being told
	}
	e := newEar()
	_, stop := x.startWatch(e)
	defer stop()
	for _, s := range slices.Backward(x.spec.Samples) {
		x.at = s.Key
		if _, _, there := x.view.Get(s.Key); !there {
			continue // it went with another
		}
		x.spec.Remove(x.t, s.Key)
		if !x.hears(e, s.Key) {
			x.fail(s.Key, "it was removed by somebody else, and nothing was notified")
			return
		}
		x.gone(s.Key)
		if x.d.Retrieve != nil {
			x.retrieve(x.scope())
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for k := range e.keys {
		if !strings.HasPrefix(string(k), string(x.d.Prefix)) {
			x.fail(k, "it was notified, and is none of %s", x.d.Prefix)
		}
	}
}

// hears waits until the key was notified; false if it was not in time.
func (x *trial[V, M]) hears(e *ear, k scheduler.Key) bool {
	patience := time.After(x.spec.Patience)
	for !e.of(k) {
		select {
		case <-e.heard:
		case <-patience:
			return false
		}
	}
	return true
}

// readOnly reads the objects for somebody all the while that they change.
func (x *trial[V, M]) readOnly() {
	if !x.all() {
		return
	}
	shown := x.scope()
	shown.ReadOnly = true
	for k, f := range x.retrieve(x.scope()) {
		x.alike(k, map[scheduler.Key]scheduler.Found[V, M]{k: f}, x.retrieve(shown))
	}
	e := newEar()
	_, stop := x.startWatch(e)
	defer stop()
	for _, s := range slices.Backward(x.spec.Samples) {
		x.at = s.Key
		if _, _, there := x.view.Get(s.Key); !there {
			continue // it went with another
		}
		end := x.keepReading(shown)
		x.spec.Remove(x.t, s.Key)
		end()
		if _, there := x.retrieve(shown)[s.Key]; there {
			x.fail(s.Key, "it was removed by somebody else, and a reading that is read-only finds it")
		}
		if !x.hears(e, s.Key) {
			x.fail(s.Key, "it was removed by somebody else while it was read for somebody, and nothing was notified")
			return
		}
		x.gone(s.Key)
		x.retrieve(x.scope())
	}
}

// keepReading reads until end is called.
func (x *trial[V, M]) keepReading(s scheduler.Scope[V, M]) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			for range x.d.Retrieve(context.Background(), s) {
				continue
			}
		}
	})
	return func() { cancel(); done.Wait() }
}

func (x *trial[V, M]) watchEnds() {
	e := newEar()
	ended, stop := x.startWatch(e)
	x.all()
	x.clear()
	select {
	case err := <-ended:
		x.fail(x.d.Prefix, "Watch ended by itself: %v", err)
	case <-time.After(min(x.spec.Patience, 500*time.Millisecond)): // long enough to begin
	}
	if !stop() {
		x.fail(x.d.Prefix, "Watch does not return when its context has ended")
	}
}

// goroutines does everything several times and counts: what grows each time leaks.
func (x *trial[V, M]) goroutines() {
	const rounds = 4
	round := func() {
		if x.d.Watch != nil {
			_, stop := x.startWatch(newEar())
			defer stop()
		}
		if x.all() && x.d.Retrieve != nil {
			x.retrieve(x.scope())
		}
		x.clear()
	}
	round() // what is started once and kept is no leak
	before := goroutines()
	for range rounds {
		round()
	}
	deadline := time.Now().Add(x.spec.Patience)
	for {
		leaks := grown(before, goroutines(), rounds)
		if len(leaks) == 0 {
			return
		}
		if time.Now().After(deadline) {
			x.fail(x.d.Prefix, "after %d rounds there are more goroutines of %s", rounds, strings.Join(leaks, ", "))
			return
		}
		time.Sleep(time.Millisecond)
	}
}

var createdBy = regexp.MustCompile(`(?m)^created by (\S+)`)

// goroutines counts what runs, by who started it.
func goroutines() map[string]int {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	count := map[string]int{}
	for _, m := range createdBy.FindAllSubmatch(stacks, -1) {
		count[string(m[1])]++
	}
	return count
}

func grown(before, after map[string]int, by int) (names []string) {
	for name, n := range after {
		if n >= before[name]+by {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
