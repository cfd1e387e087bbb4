package api

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/scheduler"
)

// goal reports whether a key is as somebody waits for it to be. A key that is not
// there comes with state Absent.
type goal func(scheduler.Status) bool

// gone: neither asked for nor there.
func gone(s scheduler.Status) bool {
	return s.State == scheduler.Absent || s.State == scheduler.Removed
}

// configured: as wanted, with all that it derives.
func configured(s scheduler.Status) bool {
	if s.Busy || s.State != scheduler.Configured && s.State != scheduler.Observed {
		return false
	}
	return !slices.ContainsFunc(s.Derived, func(d scheduler.Status) bool { return !configured(d) })
}

// settled: it stands so until something new comes in.
func settled(s scheduler.Status) bool { return !s.Busy }

func configuredOrGone(s scheduler.Status) bool { return configured(s) || gone(s) }

// Wait implements the service.
func (s *Server) Wait(ctx context.Context, r *apiv1.WaitRequest) (*apiv1.WaitResponse, error) {
	goals := map[string]goal{"": configured, "configured": configured, "settled": settled, "gone": gone}
	want, ok := goals[r.For]
	switch {
	case !ok:
		return nil, refuse("cannot wait for %q; it is configured, settled or gone", r.For)
	case r.All == (len(r.Keys) > 0):
		return nil, refuse("name the keys to wait for, or --all")
	case r.All && r.For == "gone":
		return nil, refuse("--all with --for gone would wait for the end of everything; name keys")
	case r.All && r.For != "settled":
		want = func(s scheduler.Status) bool { return configuredOrGone(s) || s.State == scheduler.Paused }
	}
	for _, k := range r.Keys {
		if p, err := s.prefix(ctx, k); err != nil {
			return nil, err
		} else if strings.HasSuffix(string(p), "/") {
			return nil, refuse("%q is no key; wait needs whole keys, or --all", k)
		}
	}
	ctx, cancel := limit(ctx, r.Timeout)
	defer cancel()
	out := &apiv1.WaitResponse{Outcome: "met"}
	if r.All {
		switch err := s.Synced(ctx); {
		case err == nil:
		case errors.Is(context.Cause(ctx), errTimeUp):
			out.Notes = append(out.Notes, err.Error())
		default:
			return nil, fail(err)
		}
	}
	s.catchUp(ctx, r.Keys)
	all, met, err := s.await(ctx, r.Keys, want, encoder(r.NoValues))
	if err != nil {
		return nil, err
	}
	out.Keys = all
	if !met || len(out.Notes) > 0 {
		out.Outcome = "timed out"
	}
	return out, nil
}

// limit bounds a wait by the time that the operator gave.
func limit(ctx context.Context, d *durationpb.Duration) (context.Context, context.CancelFunc) {
	if d.AsDuration() <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, d.AsDuration(), errTimeUp)
}

// errTimeUp tells the operator's limit from a client that went away.
var errTimeUp = errors.New("timed out")

// catchUp waits until what stands in the store for the keys (none: all) has
// come to the scheduler, so that `etcdctl put` and then `agentctl wait` do not
// see the time before. With the store down nobody can tell, and the statuses
// are all there is.
func (s *Server) catchUp(ctx context.Context, keys []string) {
	var last int64
	if len(keys) == 0 {
		var err error
		if last, err = s.Store.Revision(ctx); err != nil {
			return
		}
	}
	for _, k := range keys {
		st, _, err := s.Store.Get(ctx, stored(k))
		if err != nil {
			return
		}
		last = max(last, st.Revision)
	}
	if last > 0 {
		_ = s.Store.Reached(ctx, last) // it fails only with ctx, which await sees too
	}
}

// await blocks until all keys (none: all there are) pass, and tells how they stand, sorted.
// Time that is up is no error: then the statuses say how far it came. Of a key that
// passes only what is told of it is kept, as there may be many.
func (s *Server) await(ctx context.Context, keys []string, want goal, tell func(scheduler.Status) *apiv1.KeyStatus) (all []*apiv1.KeyStatus, met bool, err error) {
	w, err := s.follower(WatchTargets(keys))
	if err != nil {
		return nil, false, err
	}
	defer w.Stop()
	seen := make(map[scheduler.Key]*apiv1.KeyStatus, len(keys)) // nil: it does not pass
	open := 0
	see := func(st scheduler.Status) {
		if had, known := seen[st.Key]; !known || had != nil {
			open++
		}
		seen[st.Key] = nil
		if want(st) {
			seen[st.Key] = tell(st)
			open--
		}
	}
	for _, k := range keys {
		see(unwanted(scheduler.Key(k)))
	}
	for {
		changes, inSync, err := w.Next(ctx)
		if err != nil {
			if !errors.Is(context.Cause(ctx), errTimeUp) {
				return nil, false, fail(err)
			}
			if err := s.tellOpen(ctx, seen, tell); err != nil {
				return nil, false, fail(err)
			}
			return told(seen, len(keys) > 0), false, nil
		}
		for _, c := range changes {
			if _, named := seen[c.Key]; len(keys) == 0 || named {
				see(c)
			}
		}
		if inSync && open == 0 {
			return told(seen, len(keys) > 0), true, nil
		}
	}
}

// unwanted is the status of a key of which the scheduler says nothing.
func unwanted(k scheduler.Key) scheduler.Status {
	return scheduler.Status{Key: k, Reason: "not in the intent"}
}

// tellOpen fills in how the keys stand that do not pass.
func (s *Server) tellOpen(ctx context.Context, seen map[scheduler.Key]*apiv1.KeyStatus, tell func(scheduler.Status) *apiv1.KeyStatus) error {
	var open []scheduler.Key
	for k, st := range seen {
		if st == nil {
			open = append(open, k)
			seen[k] = tell(unwanted(k))
		}
	}
	if len(open) == 0 {
		return nil // to list none would be to list all
	}
	all, err := s.Scheduler.List(context.WithoutCancel(ctx), open...)
	for _, st := range all {
		seen[st.Key] = tell(st)
	}
	return err
}

// WatchTargets are the keys, or if they are many their kinds: the scheduler
// compares every change with every target.
func WatchTargets(keys []string) []scheduler.Key {
	var out []scheduler.Key
	for _, k := range keys {
		if len(keys) > 16 {
			k = k[:strings.IndexByte(k+"/", '/')] + "/"
		}
		out = append(out, scheduler.Key(k))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// told are statuses, sorted. Without names given, a key that is derived is told with its
// base.
func told(seen map[scheduler.Key]*apiv1.KeyStatus, named bool) []*apiv1.KeyStatus {
	all := make([]*apiv1.KeyStatus, 0, len(seen))
	for _, st := range seen {
		if _, there := seen[scheduler.Key(st.Base)]; named || st.Base == "" || !there {
			all = append(all, st)
		}
	}
	slices.SortFunc(all, func(a, b *apiv1.KeyStatus) int { return strings.Compare(a.Key, b.Key) })
	return all
}

// detached is for work that must be done although the client went away.
func detached(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), d)
}

// stored names the key of the store for a key of intent.
func stored(key string) string { return configPrefix + key }

// configPrefix holds intent in the store.
const configPrefix = "config/"
