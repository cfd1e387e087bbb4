package etcd

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// audit compares now and then what the watch brought with what the store
// holds. A server that answers but no longer sends events gives signs of life,
// so nothing else would notice.
func (s *source) audit(ctx context.Context, l *link, w *stream) {
	t := time.NewTicker(s.cfg.tune.auditEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if err := s.auditOnce(ctx, l); err != nil {
			w.cut(err)
			return
		}
	}
}

// auditOnce asks which keys changed after the last revision seen. Then the
// watch has time to bring them, or to bring something later, for what it
// brings is in order.
func (s *source) auditOnce(ctx context.Context, l *link) error {
	seen, keys := s.standing()
	resp, err := withTimeout(ctx, s.cfg.tune, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return l.kv.Get(ctx, s.prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithMinModRev(seen+1))
	})
	if err != nil || len(resp.Kvs) == 0 && int(resp.Count) == keys {
		return nil // a store that cannot be asked shows by other signs
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

// standing is the last revision seen and how many keys there were.
func (s *source) standing() (rev int64, keys int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.facts.rev, s.facts.keys
}
