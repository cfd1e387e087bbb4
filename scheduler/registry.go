package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/scheduler/graph"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// kinds finds the kind of a key. Prefixes end in a slash and do not overlap,
// so each folder of the key is looked up once.
type kinds struct {
	byPrefix map[string]*kind
	sorted   []*kind
	depth    int // the most slashes in a prefix
	last     *kind
}

func newKinds() *kinds { return &kinds{byPrefix: map[string]*kind{}} }

func (ks *kinds) find(k Key) *kind {
	s := string(k)
	if ks.last != nil && strings.HasPrefix(s, string(ks.last.Prefix)) {
		return ks.last
	}
	for i, d := 0, 0; d < ks.depth; d++ {
		j := strings.IndexByte(s[i:], '/')
		if j < 0 {
			return nil
		}
		i += j + 1
		if kd := ks.byPrefix[s[:i]]; kd != nil {
			ks.last = kd
			return kd
		}
	}
	return nil
}

func (ks *kinds) graphKind(k Key) *graph.Kind {
	if kd := ks.find(k); kd != nil {
		return &kd.Kind
	}
	return nil
}

// all are the kinds in the order of their prefixes.
func (ks *kinds) all() []*kind { return ks.sorted }

func (ks *kinds) registered(k *kind) bool { return ks.byPrefix[string(k.Prefix)] == k }

func (ks *kinds) add(k *kind) error {
	for _, o := range ks.sorted {
		if o.Name == k.Name {
			return fmt.Errorf("kind %q is registered already: unregister it first", k.Name)
		}
		if strings.HasPrefix(string(o.Prefix), string(k.Prefix)) || strings.HasPrefix(string(k.Prefix), string(o.Prefix)) {
			return fmt.Errorf("kind %q: its prefix %q overlaps with %q of kind %q: choose one that neither contains the other",
				k.Name, k.Prefix, o.Prefix, o.Name)
		}
	}
	if err := ks.checkOrder(k); err != nil {
		return err
	}
	ks.byPrefix[string(k.Prefix)] = k
	ks.depth = max(ks.depth, strings.Count(string(k.Prefix), "/"))
	i, _ := slices.BinarySearchFunc(ks.sorted, k, func(a, b *kind) int { return strings.Compare(string(a.Prefix), string(b.Prefix)) })
	ks.sorted = slices.Insert(ks.sorted, i, k)
	return nil
}

// checkOrder refuses a kind that would be read after itself.
func (ks *kinds) checkOrder(k *kind) error {
	way := []string{k.Name}
	var after func(names []string) bool
	after = func(names []string) bool {
		for _, name := range names {
			if way = append(way, name); name == k.Name {
				return true
			}
			if o := ks.named(name); o != nil && after(o.readAfter) {
				return true
			}
			way = way[:len(way)-1]
		}
		return false
	}
	if after(k.readAfter) {
		return fmt.Errorf("kind %q would be read after itself, by ReadAfter: %s; take one out", k.Name, strings.Join(way, " after "))
	}
	return nil
}

// named is the kind with a name, nil if none is registered.
func (ks *kinds) named(name string) *kind {
	for _, k := range ks.sorted {
		if k.Name == name {
			return k
		}
	}
	return nil
}

func (ks *kinds) remove(k *kind) {
	ks.last = nil
	delete(ks.byPrefix, string(k.Prefix))
	ks.sorted = slices.DeleteFunc(ks.sorted, func(o *kind) bool { return o == k })
}

// Register adds a kind, at any time. Values that waited for it wake, and its
// world is read. The error says how to mend the descriptor, or is ErrStopped.
func Register[V, M any](s *Scheduler, d Descriptor[V, M]) (*Kind[V, M], error) {
	k, err := erase(d)
	if err != nil {
		return nil, err
	}
	k.timeout = cmp.Or(k.timeout, s.opts.Timeout)
	var failed error
	err = s.call(func(l *loop) {
		l.because("", "kind "+k.Name+" is registered", func() { failed = l.register(k, s.startWatch) })
	})
	if err != nil {
		return nil, err
	}
	if failed != nil {
		return nil, failed
	}
	return &Kind[V, M]{s: s, k: k}, nil
}

func (e *engine) register(k *kind, startWatch func(*kind)) error {
	if err := e.kinds.add(k); err != nil {
		return err
	}
	var waiting []*graph.Node
	e.g.Below(k.Prefix, func(n *graph.Node) bool { waiting = append(waiting, n); return true })
	slices.SortFunc(waiting, byKey)
	for _, n := range waiting {
		n.Kind = &k.Kind
		e.g.Start(n)
		e.reapply(n)
	}
	e.g.KindChanged(k.Prefix)
	e.recheckAll = true
	e.lookAtKind(k)
	e.readAgainAfter(k)
	if k.watch != nil {
		startWatch(k)
	}
	return nil
}

// reapply judges a want again, now that its kind is known.
func (e *engine) reapply(n *graph.Node) {
	e.g.Wake(n)
	switch {
	case n.Source == graph.Derived && n.Base != nil:
		e.derive(n.Base, n, n.Desired)
	case n.X != nil && len(n.X.Wants) > 0:
		e.applyStrongest(n, n.X.Wants)
	case n.Source >= 0:
		e.apply(n, &graph.Want{Source: n.Source, Value: n.Desired})
	}
	if n.X == nil || n.X.Invalid == nil || n.Desired == nil {
		return
	}
	if validate(kindOf(n), n.Key, n.Desired) != nil { // nor was the value before it judged
		e.setDesired(n, nil)
	} else {
		e.setDesired(n, n.Desired) // now its needs are known
	}
}

// startWatch runs a kind's Watch until it is unregistered or the scheduler
// stops, and again with backoff when it fails.
func (s *Scheduler) startWatch(k *kind) {
	ctx, cancel := context.WithCancel(s.ctx)
	k.stop = cancel
	s.background.Go(func() {
		defer cancel()
		for attempt := 1; ; attempt++ {
			began := s.opts.Clock.Now()
			err := s.watchOnce(ctx, k)
			if ctx.Err() != nil {
				return
			}
			if s.opts.Clock.Now().Sub(began) >= s.opts.RetryMax {
				attempt = 1 // it worked
			}
			wait := s.l.backoff(attempt)
			s.Submit(Txn{Source: k.Name, Note: "watch ended: " + fmt.Sprint(err), Look: []Key{k.Prefix}, hint: true})
			again := make(chan struct{})
			stop := s.opts.Clock.AfterFunc(wait, func() { close(again) })
			select {
			case <-ctx.Done():
				stop()
				return
			case <-again:
			}
		}
	})
}

func (s *Scheduler) watchOnce(ctx context.Context, k *kind) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("watch panicked: %v", p)
		}
	}()
	return k.watch(ctx, func(keys ...Key) {
		if len(keys) == 0 {
			keys = []Key{k.Prefix}
		}
		s.hear(k, keys)
	})
}

// KindInfo describes a registered kind.
type KindInfo struct {
	Name         string
	Prefix       Key
	Observed     bool
	Capabilities []string
	// Read reports whether the world of the kind was read, completely, at least
	// once; a kind without Retrieve has nothing to read.
	Read bool
	// Looking: a read of the whole kind is under way or due.
	Looking bool
	// Unread says why the world of the kind cannot be read now; empty: it can.
	Unread string
}

// Kinds describes the registered kinds, sorted by prefix.
func (s *Scheduler) Kinds() []KindInfo {
	var out []KindInfo
	_ = s.call(func(l *loop) {
		for _, k := range l.kinds.all() {
			out = append(out, KindInfo{Name: k.Name, Prefix: k.Prefix, Observed: k.Observed,
				Capabilities: slices.Clone(k.capabilities), Read: k.Read || !k.Reads,
				Looking: k.look.running || k.look.all, Unread: kv.FirstLine(k.look.err)})
		}
	})
	return out
}

func (ks *kinds) names() []string {
	out := make([]string, len(ks.sorted))
	for i, k := range ks.sorted {
		out[i] = k.Name
	}
	return out
}
