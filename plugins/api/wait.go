package api

import (
	"context"
	"errors"
	"maps"
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
	all, met, err := s.await(ctx, r.Keys, want)
	if err != nil {
		return nil, err
	}
	out.Keys = keyStatuses(all, r.NoValues)
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
		all, err := s.Store.List(ctx, configPrefix)
		if err != nil {
			return
		}
		for _, st := range all {
			last = max(last, st.Revision)
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

// await blocks until all keys (none: all there are) pass. Time that is up is
// no error: then the statuses say how far it came.
func (s *Server) await(ctx context.Context, keys []string, want goal) (all []scheduler.Status, met bool, err error) {
	w, err := s.follower(WatchTargets(keys))
	if err != nil {
		return nil, false, err
	}
	defer w.Stop()
	seen := map[scheduler.Key]scheduler.Status{}
	for _, k := range keys {
		seen[scheduler.Key(k)] = scheduler.Status{Key: scheduler.Key(k), Reason: "not in the intent"}
	}
	open := map[scheduler.Key]bool{} // the keys that do not pass
	for k, st := range seen {
		if !want(st) {
			open[k] = true
		}
	}
	for {
		changes, inSync, err := w.Next(ctx)
		if err != nil {
			if errors.Is(context.Cause(ctx), errTimeUp) {
				return told(seen, keys), false, nil
			}
			return nil, false, fail(err)
		}
		for _, c := range changes {
			_, named := seen[c.Key]
			if len(keys) > 0 && !named {
				continue
			}
			seen[c.Key] = c
			if want(c) {
				delete(open, c.Key)
			} else {
				open[c.Key] = true
			}
		}
		if inSync && len(open) == 0 {
			return told(seen, keys), true, nil
		}
	}
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

// told are the statuses that an answer has: of keys that nobody named those with which
// their derived ones come, which are not told a second time.
func told(seen map[scheduler.Key]scheduler.Status, named []string) []scheduler.Status {
	all := sorted(seen)
	if len(named) == 0 {
		all = slices.DeleteFunc(all, func(s scheduler.Status) bool {
			_, there := seen[s.Base]
			return s.Base != "" && there
		})
	}
	return all
}

// sorted sorts the keys, which are small.
func sorted(m map[scheduler.Key]scheduler.Status) []scheduler.Status {
	all := make([]scheduler.Status, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		all = append(all, m[k])
	}
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
