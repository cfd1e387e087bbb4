package etcd

import (
	"context"
	"fmt"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
)

// reach blocks until everything up to a revision was submitted. What was
// written to intent keys comes by itself; for other revisions the server is
// asked, once there was time for the former.
func (s *source) reach(ctx context.Context, l func() *link, rev int64) error {
	asked := 0
	err := s.reached.wait(ctx, rev, func() {
		s.mu.Lock()
		w := s.stream
		s.mu.Unlock()
		if w == nil {
			return
		}
		if asked++; w.exact && asked < 4 {
			w.nudge()
			return
		}
		s.prove(ctx, l(), rev)
	})
	if err != nil {
		return fmt.Errorf("revision %d of the store has not come yet (at %d): %w", rev, s.reached.get(), err)
	}
	return nil
}

// prove asks whether intent changed between what was seen and a revision, for
// servers whose signs of life say nothing about it.
func (s *source) prove(ctx context.Context, l *link, rev int64) {
	seen, keys := s.standing()
	resp, err := s.changed(ctx, l, seen)
	if err != nil || len(resp.Kvs) > 0 || int(resp.Count) != keys || resp.Header.Revision < rev {
		return // it is to come
	}
	s.reached.raise(resp.Header.Revision)
}

// exactProgress reports whether the server's signs of life are in order with its
// events. Before 3.5.8 they overtake them (etcd#15220); releases of 3.4 are
// not told apart here.
func exactProgress(ctx context.Context, l *link, t tuning) bool {
	resp, err := withTimeout(ctx, t, func(ctx context.Context) (*etcdserverpb.StatusResponse, error) {
		return l.maint.Status(ctx, &etcdserverpb.StatusRequest{})
	})
	return err == nil && atLeast358(resp.Version)
}

func atLeast358(version string) bool {
	var major, minor, patch int
	if n, _ := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch); n < 3 {
		return false
	}
	return major > 3 || major == 3 && (minor > 5 || minor == 5 && patch >= 8)
}
