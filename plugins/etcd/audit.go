package etcd

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/plumb-net/plumb/plugins/etcd/dial"
)

// A server may answer and yet no longer send events, or be silent only because
// of a fault in how it gives signs of life (etcd#17507). Neither can be told
// from the watch itself. So what the watch brought is compared with what the
// store holds: now and then, and whenever the watch is silent for long.

// audit compares now and then.
func (s *source) audit(ctx context.Context, l *link, w *stream) {
	t := time.NewTicker(s.cfg.tune.auditEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if err := s.compareAll(ctx, l); err != nil && !isDown(err) && !isCompacted(err) {
			w.cut(err)
			return
		}
		if err := s.pruneAuthors(ctx, l); err != nil && !isDown(err) {
			s.log.Warn("records of who wrote intent cannot be removed", "reason", s.cfg.say(err))
		}
	}
}

// compareAll looks for what the watch has not brought yet, and then at all that it has.
func (s *source) compareAll(ctx context.Context, l *link) error {
	if err := s.compare(ctx, l); err != nil {
		return err
	}
	check, err := s.verify(ctx, l)
	if err != nil {
		return err
	}
	return differs(check)
}

// guard compares when the watch is silent, and ends it if it lacks something
// or the store cannot be asked either.
func (s *source) guard(ctx context.Context, l *link, w *stream) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(s.cfg.tune.stallAfter-w.silence(), s.cfg.tune.stallAfter/4)):
		}
		if w.busy.Load() || w.silence() < s.cfg.tune.stallAfter {
			continue
		}
		if err := s.compare(ctx, l); err != nil {
			w.cut(fmt.Errorf("%w for %s: %s", errStalled, s.cfg.tune.stallAfter, dial.Plain(err)))
			return
		}
		w.alive()
	}
}

// compare asks which keys changed after the last revision seen. If there are
// any, the watch has time to bring them, or to bring something later, for what
// it brings is in order.
func (s *source) compare(ctx context.Context, l *link) error {
	seen, keys := s.standing()
	resp, err := s.changed(ctx, l, seen)
	if err != nil {
		return err
	}
	if len(resp.Kvs) == 0 && int(resp.Count) == keys {
		return nil
	}
	newest := int64(0)
	for _, kv := range resp.Kvs {
		newest = max(newest, kv.ModRevision)
	}
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(s.cfg.tune.stallAfter):
	}
	now, keys := s.standing()
	if now > resp.Header.Revision || now >= newest && keys == int(resp.Count) {
		return nil
	}
	return fmt.Errorf("%w: it stands at revision %d with %d keys, the store has %d keys at revision %d",
		errLostEvents, now, keys, resp.Count, resp.Header.Revision)
}

// changed asks for the keys of intent that changed after a revision, and for
// the count of all. It costs the store a walk over all intent.
func (s *source) changed(ctx context.Context, l *link, after int64) (*clientv3.GetResponse, error) {
	return withTimeout(ctx, s.cfg.tune, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return l.kv.Get(ctx, s.prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithMinModRev(after+1))
	})
}

// keys is how many keys the intent has.
func (s *source) keys() int { _, keys := s.standing(); return keys }

// standing is the last revision seen and how many keys there were.
func (s *source) standing() (rev int64, keys int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.facts.rev, s.facts.keys
}
