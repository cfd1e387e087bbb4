package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/plumb-net/plumb/scheduler/internal/kind"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// Register adds a kind, at any time. Values that waited for it wake, and its
// objects are read. The error says how to mend the descriptor, or is ErrStopped.
func Register[V, M any](s *Scheduler, d Descriptor[V, M]) (*Kind[V, M], error) {
	k, err := erase(d)
	if err != nil {
		return nil, err
	}
	k.Timeout = cmp.Or(k.Timeout, s.opts.Timeout)
	var failed error
	err = s.call(func(l *loop) {
		l.WithRecord("", "kind "+k.Name+" is registered", func() { failed = l.Register(k, s.startWatch) })
	})
	if err != nil {
		return nil, err
	}
	if failed != nil {
		return nil, failed
	}
	return &Kind[V, M]{s: s, k: k}, nil
}

// startWatch runs a kind's Watch until it is unregistered or the scheduler
// stops, and again with backoff when it fails.
func (s *Scheduler) startWatch(k *kind.Kind) {
	ctx, cancel := context.WithCancel(s.ctx)
	k.Stop = cancel
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
			wait := s.l.Backoff(attempt)
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

func (s *Scheduler) watchOnce(ctx context.Context, k *kind.Kind) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("watch panicked: %v", p)
		}
	}()
	return k.Watch(ctx, func(keys ...Key) {
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
	// Read reports whether all objects of the kind were read at least
	// once; a kind without Retrieve has nothing to read.
	Read bool
	// Looking: a read of the whole kind is under way or due.
	Looking bool
	// Unread says why the kind cannot be read now; empty: it can.
	Unread string
	// Operations are the figures of its creations, updates and deletions, as far as there
	// were any since it was registered.
	Operations []OperationFigures
	// Drift is how often others have changed what was as wanted since it was registered.
	Drift DriftFigures
	// AwaitTurn is how many keys are to go and wait for their turn; see Policy.Disruptions.
	AwaitTurn int
}

// OperationFigures are how many operations of a kind that do the same have ended, and how
// long they took; those of a batch took as long as the batch. Deleting what was gone already
// is OK. What lapsed has failed.
type OperationFigures struct {
	Op         Operation
	OK, Failed uint64
	Took       time.Duration            // all of them together
	Within     map[time.Duration]uint64 // how many took no longer
}

// DriftFigures are how often others have changed what was as wanted, and how often that was
// repaired: not where a policy leaves it, or where it came back by itself.
type DriftFigures struct{ Found, Repaired uint64 }

// Kinds describes the registered kinds, sorted by prefix.
func (s *Scheduler) Kinds() []KindInfo {
	var out []KindInfo
	_ = s.call(func(l *loop) {
		for _, k := range l.Kinds.All() {
			out = append(out, KindInfo{Name: k.Name, Prefix: k.Prefix, Observed: k.Observed,
				Capabilities: slices.Clone(k.Capabilities), Read: k.Read || !k.Reads, Drift: DriftFigures(k.Drift), AwaitTurn: l.AwaitTurn(k),
				Looking: k.Look.Running || k.Look.All, Unread: kv.FirstLine(k.Look.Err), Operations: figuresOf(k)})
		}
	})
	return out
}

func figuresOf(k *kind.Kind) (all []OperationFigures) {
	for i, f := range k.Figures {
		if f.OK+f.Failed == 0 {
			continue
		}
		within := map[time.Duration]uint64{}
		for j, b := range kind.Bounds {
			within[b] = f.Within[j]
		}
		all = append(all, OperationFigures{Op: kind.Counted[i], OK: f.OK, Failed: f.Failed, Took: f.Took, Within: within})
	}
	return all
}

// Unregister removes a kind. Its values become unimplemented; what depends on
// them leaves. No object of the kind itself is touched, and nobody
// knows any more what it depends on, so that may go; operations of it that
// are under way end by themselves, and their outcome counts no more. The error
// says that no kind has that name, or is ErrStopped.
func (s *Scheduler) Unregister(name string) error {
	var failed error
	err := s.call(func(l *loop) {
		for _, k := range l.Kinds.All() {
			if k.Name == name {
				l.WithRecord("", "kind "+name+" is unregistered", func() { l.Unregister(k) })
				return
			}
		}
		failed = fmt.Errorf("no kind %q is registered", name)
	})
	return cmp.Or(err, failed)
}
