package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/fleet/record"
	"github.com/plumb-net/plumb/plugins/intent"
	"github.com/plumb-net/plumb/scheduler"
)

// Source names this source of intent in transactions.
const Source = "etcd"

// Submitter takes transactions in order; the scheduler is one.
type Submitter interface {
	intent.Submitter
	// Derived are the keys of the values that a value splits off.
	Derived(k scheduler.Key, value any) ([]scheduler.Key, error)
}

// source turns the store into transactions. run owns everything that is not
// guarded; the package documentation has the walk.
type source struct {
	cfg    Config
	prefix string // of intent keys
	idKey  string
	decode Decoder
	submit Submitter
	memory *memory
	log    *slog.Logger

	// viewOf is the id of the store that the view is of.
	viewOf string
	// complete: the last word was complete, and the view is all of it.
	complete bool

	// saying is held while something is decoded and submitted, and guards what follows.
	saying    sync.Mutex
	view      view
	overrides map[string]models.Override // by raw name
	// overridden: the overrides changed since the last list.
	overridden bool

	// reached is the revision up to which everything was submitted.
	reached milestone
	// converged is up to where it was carried out.
	converged convergence
	// lists counts the lists.
	lists milestone
	// head is the newest revision of the store that was heard of.
	head atomic.Int64

	mu        sync.Mutex // guards what follows
	cut       context.CancelCauseFunc
	stream    *stream
	accepting []*acceptance
	wake      chan struct{} // ends a pause between sessions
	asked     chan struct{} // has a token when something may be asked of the agent
	facts     facts
}

// facts are what health says of the source.
type facts struct {
	// reason is why the store is not trusted; empty if it is.
	reason string
	// storeID of the store that answers.
	storeID string
	// down is the last failure, if no session came up since.
	down     error
	listed   time.Time
	sessions int
	ended    string // why the last session ended
	keys     int
	rev      int64 // of the last list or event
	checks   models.StoreChecks
}

// acceptance is an operator's word that the store is to be believed.
type acceptance struct {
	done   chan struct{}
	handle *scheduler.Handle
	err    error
}

func newSource(cfg Config, m *memory, decode Decoder, submit Submitter) *source {
	return &source{
		cfg:    cfg,
		prefix: cfg.prefix() + "config/",
		idKey:  cfg.prefix() + "store",
		decode: decode,
		submit: submit,
		memory: m,
		log:    cfg.Log,
		wake:   make(chan struct{}, 1),
		asked:  make(chan struct{}, 1),

		converged: newConvergence(),
	}
}

// run holds one session after another until ctx ends.
func (s *source) run(ctx context.Context, current func() *link) {
	b := backoff{min: s.cfg.tune.retryMin, max: s.cfg.tune.retryMax}
	for ctx.Err() == nil {
		lasted, err := s.session(ctx, current())
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errAccept) || errors.Is(err, errOverride) {
			continue
		}
		s.failed(err, lasted)
		if lasted {
			b.reset()
			continue
		}
		b.wait(ctx, s.wake)
	}
}

// failed notes why a session ended. One that had started well is followed by
// the next at once, and only that one reports whether the store is down.
func (s *source) failed(err error, lasted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.facts.ended = s.cfg.say(err)
	if lasted {
		s.log.Info("the watch of the store ended and is made anew", "reason", s.cfg.say(err))
		return
	}
	if s.facts.down == nil || s.cfg.say(s.facts.down) != s.cfg.say(err) {
		s.log.Warn("the store cannot be read", "reason", s.cfg.say(err))
	}
	s.facts.down = err
	for _, a := range s.accepting {
		a.err = s.cfg.storeError("accept", err)
		close(a.done)
	}
	s.accepting = nil
}

// session lists the store and follows it until something is odd. lasted tells
// whether it came as far as following.
func (s *source) session(ctx context.Context, l *link) (lasted bool, err error) {
	ctx, cut := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cut(nil)
	defer s.setStream(nil, nil)
	s.setStream(nil, cut)

	w, err := openStream(ctx, cut, l, s.cfg.tune, s.idKey)
	if err != nil {
		return false, err
	}
	w.exact = exactProgress(ctx, l, s.cfg.tune) // before others see the stream
	s.setStream(w, cut)
	snap, err := list(ctx, l, s.cfg.tune, s.prefix, s.idKey)
	if err != nil {
		return false, w.cause(err)
	}
	if err := s.begin(ctx, l, snap); err != nil {
		return false, w.cause(err)
	}
	// The records of authors sort before the intent, with nothing of ours in between: so
	// one watch brings both of a revision at once.
	if err := w.follow(configWatch, s.cfg.prefix()+models.AuthorPrefix, clientv3.GetPrefixRangeEnd(s.prefix), snap.rev+1); err != nil {
		return false, err
	}
	asked := s.cfg.prefix() + record.ForAgent
	if err := w.follow(fleetWatch, asked, clientv3.GetPrefixRangeEnd(asked), snap.rev+1); err != nil {
		return false, err
	}
	s.ring() // what was asked meanwhile
	wg.Go(w.pace)
	wg.Go(func() { s.guard(ctx, l, w) })
	wg.Go(func() { s.audit(ctx, l, w) })
	return true, s.follow(ctx, l, w, snap)
}

func (s *source) setStream(w *stream, cut context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stream, s.cut = w, cut
}

// begin judges a list and says what follows from it.
func (s *source) begin(ctx context.Context, l *link, snap *snapshot) error {
	verdict, reason := judge(s.memory.get(), snap.identity())
	accepts := s.takeAccepting()
	if !verdict.trusted() && len(accepts) == 0 {
		s.sayUnknown(snap, reason)
		return nil
	}
	id, err := s.believe(ctx, l, snap, verdict)
	if err == nil {
		h := s.sayAll(snap, id, len(accepts) > 0)
		for _, a := range accepts {
			a.handle = h
		}
	}
	for _, a := range accepts {
		a.err = err
		close(a.done)
	}
	return err
}

// believe makes sure that the store has an id of its own and remembers it. A
// restored store gets a new one: the old id is also that of the store it was
// copied from.
func (s *source) believe(ctx context.Context, l *link, snap *snapshot, verdict trust) (string, error) {
	id := snap.id
	if id == "" || verdict == restored {
		id = randomID()
		resp, err := withTimeout(ctx, s.cfg.tune, func(ctx context.Context) (*clientv3.TxnResponse, error) {
			return l.kv.Txn(ctx).
				If(clientv3.Compare(clientv3.ModRevision(s.idKey), "=", snap.idRev)).
				Then(clientv3.OpPut(s.idKey, id)).Commit()
		})
		if err != nil {
			return "", fmt.Errorf("the store's id: %w", err)
		}
		if !resp.Succeeded {
			return "", fmt.Errorf("%w: somebody else gave it an id", errOtherStore)
		}
	}
	return id, s.memory.set(identity{ID: id, Revision: snap.rev, Cluster: snap.cluster})
}

// sayAll submits the complete word of a trusted store, unless it is what was
// said already.
func (s *source) sayAll(snap *snapshot, id string, force bool) *scheduler.Handle {
	s.saying.Lock()
	defer s.saying.Unlock()
	var h *scheduler.Handle
	next := viewOf(s.prefix, snap.kvs)
	if force || s.overridden || !s.complete || s.viewOf != id || !maps.Equal(s.view, next) {
		h = s.submit.Submit(scheduler.Txn{
			Source:   Source,
			Note:     fmt.Sprintf("full list at revision %d", snap.rev),
			Want:     s.decode.decodeAll(s.prefix, s.of(snap.kvs)),
			Complete: true,
		})
	}
	s.view, s.viewOf, s.complete, s.overridden = next, id, true, false
	s.begun(snap, id, "")
	s.converged.add(snap.rev, h)
	return h
}

// sayUnknown submits what a store that is not trusted holds. It is intent, but
// what it lacks is not withdrawn.
func (s *source) sayUnknown(snap *snapshot, reason string) {
	s.saying.Lock()
	defer s.saying.Unlock()
	next := viewOf(s.prefix, snap.kvs)
	kvs := s.of(snap.kvs)
	if !s.overridden && !s.complete && snap.id != "" && s.viewOf == snap.id {
		kvs = slices.DeleteFunc(slices.Clone(kvs), func(kv *mvccpb.KeyValue) bool {
			return s.view[string(kv.Key[len(s.prefix):])] == tell(kv)
		})
	}
	var h *scheduler.Handle
	if len(kvs) > 0 {
		h = s.submit.Submit(scheduler.Txn{
			Source: Source,
			Note:   fmt.Sprintf("full list at revision %d of a store that is not known", snap.rev),
			Want:   s.decode.decodeAll(s.prefix, kvs),
		})
	}
	s.view, s.viewOf, s.complete, s.overridden = next, snap.id, false, false
	s.begun(snap, snap.id, reason)
	s.converged.add(snap.rev, h)
	s.log.Warn("the store is not the known one; nothing is deleted for it", "reason", reason)
}

// begun notes that a session stands on a list.
func (s *source) begun(snap *snapshot, id, reason string) {
	s.head.Store(snap.rev)
	s.reached.set(snap.rev)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.facts.reason, s.facts.storeID, s.facts.down = reason, id, nil
	s.facts.listed, s.facts.keys, s.facts.rev = time.Now(), len(s.view), snap.rev
	s.facts.sessions++
	s.lists.set(int64(s.facts.sessions))
}

// follow works through the events after a list.
func (s *source) follow(ctx context.Context, l *link, w *stream, snap *snapshot) error {
	watched := false // the server has told that the watch of the intent is there
	for {
		b, err := w.recv()
		if err != nil {
			return err
		}
		if b.cluster != snap.cluster {
			return fmt.Errorf("%w: the cluster changed from %x to %x", errOtherStore, snap.cluster, b.cluster)
		}
		s.heard(b.rev)
		switch {
		case b.watch == idWatch:
			err = s.idChanged(ctx, l, b.events)
		case b.watch == fleetWatch:
			if len(b.events) > 0 {
				s.ring()
			}
		default:
			watched = watched || b.watch == configWatch && b.created
			err = s.events(b, w.exact && watched)
		}
		if err != nil {
			return err
		}
		if s.complete {
			s.memory.saw(b.rev)
		}
	}
}

// events submits one transaction for every revision in a batch.
func (s *source) events(b batch, exact bool) error {
	seen := s.rev()
	if b.created && b.rev < seen {
		return fmt.Errorf("%w: it is at revision %d, the list was of %d", errOtherStore, b.rev, seen)
	}
	for _, r := range revisions(s.prefix, b.events) {
		if r.rev <= seen {
			continue
		}
		s.say(r)
	}
	// A response without events is a sign of life: everything up to its
	// revision has been sent, if the server is exact about that. That of a
	// watch just made says nothing, nor does one before it: until then the
	// server keeps events back.
	if len(b.events) == 0 && !b.created && exact {
		s.reached.raise(b.rev)
	}
	return nil
}

// say submits what a revision changed, if that is intent.
func (s *source) say(r revision) {
	s.saying.Lock()
	defer s.saying.Unlock()
	if len(r.events) > 0 {
		s.view.apply(s.prefix, r.events)
		r.events = s.ofEvents(r.events)
		s.converged.add(r.rev, s.submit.Submit(s.decode.txn(s.prefix, r)))
	}
	s.noteRevision(r.rev, len(s.view))
	s.reached.raise(r.rev)
}

// idChanged guards the id of the store that is being followed: seen to vanish
// on a live watch, the store is still the same, so the id is put back.
func (s *source) idChanged(ctx context.Context, l *link, events []*mvccpb.Event) error {
	for _, e := range events {
		if e.Type != mvccpb.Event_DELETE {
			if string(e.Kv.Value) != s.viewOf {
				return fmt.Errorf("%w: its id changed", errOtherStore)
			}
			continue
		}
		if !s.complete {
			continue
		}
		_, err := withTimeout(ctx, s.cfg.tune, func(ctx context.Context) (*clientv3.TxnResponse, error) {
			return l.kv.Txn(ctx).
				If(clientv3.Compare(clientv3.CreateRevision(s.idKey), "=", 0)).
				Then(clientv3.OpPut(s.idKey, s.viewOf)).Commit()
		})
		if err != nil {
			return fmt.Errorf("the store's id: %w", err)
		}
	}
	return nil
}

// heard notes that the store has come to a revision.
func (s *source) heard(rev int64) {
	for {
		head := s.head.Load()
		if rev <= head || s.head.CompareAndSwap(head, rev) {
			return
		}
	}
}

func (s *source) rev() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.facts.rev
}

func (s *source) noteRevision(rev int64, keys int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.facts.rev, s.facts.keys = rev, keys
}
