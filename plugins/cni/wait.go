package cni

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/plumb-net/plumb/plugins/cni/network"
	"github.com/plumb-net/plumb/scheduler"
)

// wait calls check at once, and again when one of the keys has changed, until check returns an
// error or "". Otherwise check returns what the caller waits for.
func (s *Service) wait(ctx context.Context, keys []scheduler.Key, check func() (waits string, err error)) error {
	news, stop := s.events.follow(keys)
	defer stop()
	for last := ""; ; {
		waits, err := check()
		switch ended := context.Cause(ctx); {
		case err != nil && last != "" && errors.Is(err, ended): // a check at the very end
			return fmt.Errorf("%w, waiting for %s", ended, last)
		case err != nil || waits == "":
			return err
		}
		last = waits
		select {
		case <-news:
		case <-ctx.Done():
			return fmt.Errorf("%w, waiting for %s", context.Cause(ctx), waits)
		}
	}
}

// checkPath is how often an ADD that waits checks the path of its namespace. Without a value no key
// depends on the namespace, and the scheduler does not report its changes.
const checkPath = time.Second

// await waits until all values of an ADD are configured, and returns them. It returns an error if a
// value cannot be configured, or if the container has gone.
func (s *Service) await(ctx context.Context, c Call, a addition) (wants []network.Want, err error) {
	defer s.waitsFor(c.Key(), "")
	if !a.limit.IsZero() {
		defer time.AfterFunc(time.Until(a.limit), func() { s.events.tell(a.keys...) }).Stop()
	}
	again := time.AfterFunc(checkPath, func() { s.events.tell(a.keys...) })
	defer again.Stop()
	seen := false
	err = s.wait(ctx, slices.Concat(a.keys, watched(c)), func() (waits string, err error) {
		again.Reset(checkPath)
		wants, waits, err = a.progress(ctx)
		if err == nil && waits == "" {
			return "", nil
		}
		if gone := s.gone(c, &seen); gone != nil {
			return "", gone // takes precedence over other errors
		}
		if err == nil {
			s.waitsFor(c.Key(), waits)
		}
		return waits, err
	})
	if errors.Is(err, errNoIntent) && c.chained() {
		return nil, nil // an earlier plugin has created the interface
	}
	return wants, err
}

// waits returns the first key that is not configured yet, with the reason, or "". A key that is
// invalid, failed or paused is an error, and so is one that is being retried. The exception is a
// retried key that the attachments of a network share and that exists: it was configured before,
// and is being updated or repaired.
func (s *Service) waits(ctx context.Context, keys []scheduler.Key) (string, error) {
	waits := ""
	for _, k := range keys {
		st, err := s.engine.Get(ctx, k)
		switch {
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case err != nil:
			return "", err
		case st.State == scheduler.InvalidState, st.State == scheduler.Failed, st.State == scheduler.Paused,
			st.State == scheduler.Retrying && (st.Actual == nil || !isShared(k)):
			return "", fmt.Errorf("%s is %s: %s", k, st.State, st.Reason)
		case st.State != scheduler.Configured && waits == "":
			waits = fmt.Sprintf("%s, which is %s: %s", k, st.State, st.Reason) + s.unread(ctx, st)
		}
	}
	return waits, nil
}

// isShared reports whether the attachments of some network share a key.
func isShared(k scheduler.Key) bool {
	_, id, ours := network.AttachmentOf(nameOf(k))
	return ours && id == ""
}

// sharedIn reports whether the attachments of the named network share a key.
func sharedIn(name string, k scheduler.Key) bool {
	return isShared(k) && network.SharedBy(nameOf(k), name)
}
