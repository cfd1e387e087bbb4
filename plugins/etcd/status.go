package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/plumb-net/plumb/plugins/etcd/dial"
	"github.com/plumb-net/plumb/scheduler"
)

// StatusWatcher yields statuses: first all, then every change, coalesced per
// key. *scheduler.Watcher is one.
type StatusWatcher interface {
	Next(ctx context.Context) (changes []scheduler.Status, inSync bool, err error)
	Stop()
}

// statusWriter keeps the statuses in the store equal to those of the
// scheduler, by difference.
//
//	watcher ──► pending (the latest per key) ──► every 100 ms: what differs
//	                                             from written, 100 a transaction
//
// Of many only some are pending: the others are not read from the watcher yet, which
// keeps no more than that they changed. While transactions of the intent are being carried
// out those some are all that is written in 500 ms, and a list of many is not begun. So a mass
// of statuses does not take the store and the processor from the changes that it tells of, nor
// from a start, and a key that changes more than once meanwhile is written once.
//
// While the store is away nothing is kept here: the watcher is given up, and
// the next one begins with all statuses.
type statusWriter struct {
	prefix      string // of status keys
	holder      *presence
	incarnation string
	tune        tuning
	log         *slog.Logger
	open        func() StatusWatcher
	// underWay reports whether transactions of the intent are being carried out.
	underWay func() bool
	// intent is how many keys the intent has.
	intent func() int
	// lists counts the lists of the source. After each the store may be
	// another one, so what was written is listed again too.
	lists   *milestone
	digests digester

	mu    sync.Mutex // guards what follows
	facts statusFacts
}

// statusFacts are what health says of the writer.
type statusFacts struct {
	written int   // keys in the store
	down    error // why the last attempt failed, if it did
	// refused are keys whose statuses the store does not take.
	refused map[scheduler.Key]error
}

// maxStatusTxn and maxStatusBytes bound one transaction, so that it passes the
// limits of any cluster.
const (
	maxStatusTxn   = 100
	maxStatusBytes = 512 << 10
)

// manyStatuses is how many are pending before no more are read.
const manyStatuses = 3 * maxStatusTxn

// run writes until ctx ends; then it writes what is there, for a short time.
func (w *statusWriter) run(ctx context.Context, current func() *link) {
	b := backoff{min: w.tune.retryMin, max: w.tune.retryMax}
	for ctx.Err() == nil {
		n, moved := w.lists.next()
		if n == 0 {
			select {
			case <-ctx.Done():
			case <-moved:
			}
			continue
		}
		lasted, err := w.session(ctx, current(), moved)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errRelist) {
			continue
		}
		w.note(func(f *statusFacts) {
			if f.down == nil {
				w.log.Info("statuses cannot be written to the store", "reason", dial.Plain(err))
			}
			f.down = err
		})
		if lasted {
			b.reset()
		}
		b.wait(ctx, nil)
	}
}

// statusSession is the work on one connection.
type statusSession struct {
	*statusWriter
	link  *link
	moved <-chan struct{} // closed at the source's next list
	// written is what the store holds, by the value's digest.
	written map[scheduler.Key]digest
	// refused is what the store does not take. It is tried again when it changes.
	refused map[scheduler.Key]digest
	// seen are the keys told since the session began, until inSync.
	seen map[scheduler.Key]bool

	mu      sync.Mutex // guards what follows
	pending map[scheduler.Key]scheduler.Status
	inSync  bool
	failed  error
	more    chan struct{} // something is pending
	room    chan struct{} // nothing is
}

// session lists what the store holds and then writes what differs. lasted
// reports whether the store answered at all.
func (w *statusWriter) session(ctx context.Context, l *link, moved <-chan struct{}) (lasted bool, err error) {
	if w.holder.held() == 0 {
		return false, errNotHolder
	}
	if err := w.calm(ctx, moved); err != nil {
		return false, err
	}
	snap, err := list(ctx, l, w.tune, w.prefix, "")
	if err != nil {
		return false, err
	}
	s := &statusSession{
		statusWriter: w, link: l, moved: moved,
		written: make(map[scheduler.Key]digest, len(snap.kvs)),
		refused: map[scheduler.Key]digest{},
		seen:    map[scheduler.Key]bool{},
		pending: map[scheduler.Key]scheduler.Status{},
		more:    make(chan struct{}, 1),
		room:    make(chan struct{}, 1),
	}
	for _, kv := range snap.kvs {
		s.written[scheduler.Key(kv.Key[len(w.prefix):])] = w.digests.of(kv.Value)
	}
	w.note(func(f *statusFacts) { f.down, f.written, f.refused = nil, len(s.written), nil })

	watcher := w.open()
	defer watcher.Stop()
	rctx, cancel := context.WithCancel(ctx)
	var reader sync.WaitGroup
	reader.Go(func() { s.read(rctx, watcher) })
	err = s.write(ctx)
	cancel()
	reader.Wait()
	if ctx.Err() != nil {
		s.last(context.WithoutCancel(ctx), watcher)
	}
	return true, err
}

// calm waits until the store and the processor have time for a list of many statuses, which
// are about as many as the keys of the intent. Where changes never end it is begun all the same.
func (w *statusWriter) calm(ctx context.Context, moved <-chan struct{}) error {
	late := time.After(w.tune.statusCalm)
	for w.intent() > manyStatuses && w.underWay() {
		select {
		case <-late:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-moved:
			return errRelist
		case <-time.After(w.tune.statusWindow):
		}
	}
	return nil
}

// read takes what the watcher yields, as long as there is room for it.
func (s *statusSession) read(ctx context.Context, watcher StatusWatcher) {
	for {
		for s.many() {
			select {
			case <-ctx.Done():
				return
			case <-s.room:
			}
		}
		changes, inSync, err := watcher.Next(ctx)
		s.take(changes, inSync, err)
		if err != nil {
			return
		}
	}
}

// many reports whether as much is pending as may be.
func (s *statusSession) many() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pending) >= manyStatuses
}

func (s *statusSession) take(changes []scheduler.Status, inSync bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range changes {
		s.pending[c.Key] = c
	}
	s.inSync = s.inSync || inSync
	if !errors.Is(err, context.Canceled) {
		s.failed = err
	}
	signal(s.more)
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// write flushes what is pending until ctx ends: at most once per window, or, if it is
// much, at once when nothing is under way, and else after a longer pause.
func (s *statusSession) write(ctx context.Context) error {
	pause := func(d time.Duration) {
		select {
		case <-ctx.Done():
		case <-time.After(d):
		}
	}
	for flushed := (time.Time{}); ; flushed = time.Now() {
		select {
		case <-ctx.Done():
			return nil
		case <-s.moved:
			return errRelist
		case <-s.more:
		}
		if !s.many() {
			pause(max(s.tune.statusGather, s.tune.statusWindow-time.Since(flushed)))
		}
		if s.many() && s.underWay() {
			pause(s.tune.statusMass - time.Since(flushed))
		}
		if ctx.Err() != nil {
			return nil
		}
		if err := s.flush(ctx); err != nil {
			return err
		}
	}
}

// last writes what the watcher still holds when the agent stops.
func (s *statusSession) last(ctx context.Context, watcher StatusWatcher) {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	nctx, stop := context.WithTimeout(ctx, 20*time.Millisecond)
	defer stop()
	for err := error(nil); err == nil; {
		var changes []scheduler.Status
		var inSync bool
		if changes, inSync, err = watcher.Next(nctx); err == nil {
			s.take(changes, inSync, nil)
		}
	}
	if err := s.flush(ctx); err != nil {
		s.log.Info("the last statuses were not written to the store", "reason", dial.Plain(err))
	}
}

// flush writes everything pending that differs from what is written. After an
// error the session ends and what was taken is told again by the next watcher.
func (s *statusSession) flush(ctx context.Context) error {
	s.mu.Lock()
	pending, inSync, failed := s.pending, s.inSync, s.failed
	s.pending = map[scheduler.Key]scheduler.Status{}
	s.mu.Unlock()
	signal(s.room)

	puts, dels := s.differences(pending)
	if s.seen != nil && inSync {
		for k := range s.written {
			if !s.seen[k] {
				dels = append(dels, k)
			}
		}
		s.seen = nil
	}
	if err := s.commit(ctx, puts, dels); err != nil {
		return err
	}
	s.note(func(f *statusFacts) { f.written = len(s.written) })
	if failed != nil && ctx.Err() == nil {
		return fmt.Errorf("status watch: %w", failed)
	}
	return nil
}

// statusPut is one status to write.
type statusPut struct {
	key   scheduler.Key
	value []byte
}

func (s *statusSession) differences(pending map[scheduler.Key]scheduler.Status) (puts []statusPut, dels []scheduler.Key) {
	for k, st := range pending {
		if !told(st) {
			if _, there := s.written[k]; there {
				dels = append(dels, k)
			}
			if s.seen != nil {
				delete(s.seen, k)
			}
			s.accept(k)
			continue
		}
		if s.seen != nil {
			s.seen[k] = true
		}
		value := encodeStatus(st, s.incarnation)
		now := s.digests.of(value)
		if d, there := s.refused[k]; there && d == now {
			continue
		}
		if d, there := s.written[k]; !there || d != now {
			puts = append(puts, statusPut{k, value})
		}
	}
	return puts, dels
}

// commit writes in batches, in the order of keys.
func (s *statusSession) commit(ctx context.Context, puts []statusPut, dels []scheduler.Key) error {
	slices.SortFunc(puts, func(a, b statusPut) int { return compareKeys(a.key, b.key) })
	slices.SortFunc(dels, compareKeys)
	for len(puts) > 0 {
		n, bytes := 0, 0
		for n < len(puts) && n < maxStatusTxn && (n == 0 || bytes+len(puts[n].value) <= maxStatusBytes) {
			bytes += len(puts[n].value)
			n++
		}
		if err := s.put(ctx, puts[:n]); err != nil {
			return err
		}
		puts = puts[n:]
	}
	for batch := range slices.Chunk(slices.Compact(dels), maxStatusTxn) {
		ops := make([]clientv3.Op, len(batch))
		for i, k := range batch {
			ops[i] = clientv3.OpDelete(s.prefix + string(k))
		}
		if err := s.txn(ctx, ops); err != nil {
			return err
		}
		for _, k := range batch {
			delete(s.written, k)
		}
	}
	return nil
}

// put writes statuses in one transaction, or, if that is more than the store
// takes, in several. A single one that it does not take is left out: it must
// not keep the others back.
func (s *statusSession) put(ctx context.Context, puts []statusPut) error {
	ops := make([]clientv3.Op, len(puts))
	for i, p := range puts {
		ops[i] = clientv3.OpPut(s.prefix+string(p.key), string(p.value))
	}
	err := s.txn(ctx, ops)
	switch {
	case err == nil:
		for _, p := range puts {
			s.written[p.key] = s.digests.of(p.value)
			s.accept(p.key)
		}
		return nil
	case !isTooLarge(err):
		return err
	case len(puts) == 1:
		s.refuse(puts[0], err)
		return nil
	}
	half := len(puts) / 2
	if err := s.put(ctx, puts[:half]); err != nil {
		return err
	}
	return s.put(ctx, puts[half:])
}

// refuse notes that the store does not take a status. The one before, if
// there is one, stays in the store.
func (s *statusSession) refuse(p statusPut, err error) {
	if _, known := s.refused[p.key]; !known {
		s.log.Warn("the store does not take the status of a key; the others are written", "key", p.key, "bytes", len(p.value), "reason", dial.Plain(err))
	}
	s.refused[p.key] = s.digests.of(p.value)
	s.note(func(f *statusFacts) {
		f.refused = maps.Clone(f.refused)
		if f.refused == nil {
			f.refused = map[scheduler.Key]error{}
		}
		f.refused[p.key] = err
	})
}

// accept notes that the store holds what is to be told of a key.
func (s *statusSession) accept(k scheduler.Key) {
	if _, known := s.refused[k]; !known {
		return
	}
	delete(s.refused, k)
	s.note(func(f *statusFacts) {
		f.refused = maps.Clone(f.refused)
		delete(f.refused, k)
	})
}

func (s *statusSession) txn(ctx context.Context, ops []clientv3.Op) error {
	return s.holder.write(ctx, s.link, ops)
}

func (w *statusWriter) note(change func(*statusFacts)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.facts)
}

func (w *statusWriter) standing() statusFacts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.facts
}

func compareKeys(a, b scheduler.Key) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
