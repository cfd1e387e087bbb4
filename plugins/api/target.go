package api

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// states are all that a key can be in, in the order of the documentation.
func states() []string {
	var out []string
	for s := scheduler.Absent; s <= scheduler.Paused; s++ {
		out = append(out, s.String())
	}
	return out
}

// prefixes turns targets into what the scheduler understands: a key stays, a
// kind becomes the prefix of its keys.
func (s *Server) prefixes(ctx context.Context, targets []string) ([]scheduler.Key, error) {
	var out []scheduler.Key
	for _, t := range targets {
		p, err := s.prefix(ctx, t)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// prefix also takes a key of an unknown kind if it is there: an invalid one.
func (s *Server) prefix(ctx context.Context, target string) (scheduler.Key, error) {
	kind, _, isKey := strings.Cut(target, "/")
	if !s.knownKind(kind) {
		if _, err := s.Scheduler.Get(ctx, scheduler.Key(target)); isKey && err == nil {
			return scheduler.Key(target), nil
		}
		_, err := models.KindByName(kind)
		return "", connect.NewError(connect.CodeNotFound, fmt.Errorf("%w; see `agentctl kinds`", err))
	}
	if !isKey {
		return scheduler.Key(kind + "/"), nil
	}
	return scheduler.Key(target), nil
}

// knownKind reports whether the models or a registered descriptor know it.
func (s *Server) knownKind(name string) bool {
	if _, err := models.KindByName(name); err == nil {
		return true
	}
	return slices.ContainsFunc(s.Scheduler.Kinds(), func(k scheduler.KindInfo) bool { return k.Name == name })
}

// get returns the status of a key. A key that is only there as a derived one
// is found too.
func (s *Server) get(ctx context.Context, key string) (scheduler.Status, error) {
	if kind, name, _ := strings.Cut(key, "/"); name == "" {
		return scheduler.Status{}, refuse("%q is no key; a key is <kind>/<name>, for example interface/%s", key, orWeb(kind))
	}
	st, err := s.Scheduler.Get(ctx, scheduler.Key(key))
	if err == nil {
		return st, nil
	}
	if e := fail(err); connect.CodeOf(e) != connect.CodeNotFound {
		return st, e
	}
	return st, s.unknownKey(ctx, key)
}

func orWeb(name string) string {
	if name == "" {
		return "web"
	}
	return name
}

// unknownKey says that a key is not there, and which was perhaps meant.
func (s *Server) unknownKey(ctx context.Context, key string) error {
	if _, err := s.prefix(ctx, key); err != nil {
		return err
	}
	text := "unknown key " + key + ": it is neither in the intent nor on the live host"
	all, err := s.Scheduler.List(ctx)
	if err == nil {
		if near := nearest(key, all); near != "" {
			text += "; did you mean " + near + "?"
		}
	}
	return connect.NewError(connect.CodeNotFound, fmt.Errorf("%s", text))
}

// nearest is the key that was probably meant, or "".
func nearest(key string, all []scheduler.Status) string {
	kind, name, _ := strings.Cut(key, "/")
	best, bestDist := "", 1+max(1, len(key)/5)
	for _, s := range all {
		k, n, _ := strings.Cut(string(s.Key), "/")
		d := models.Distance(key, string(s.Key), bestDist)
		if d >= bestDist && n == name && k != kind {
			d = bestDist - 1 // the right name of another kind
		}
		if d < bestDist {
			best, bestDist = string(s.Key), d
		}
	}
	return best
}

// stateFilter checks the names of states and makes a filter of them.
func stateFilter(names []string) (func(scheduler.Status) bool, error) {
	if len(names) == 0 {
		return func(scheduler.Status) bool { return true }, nil
	}
	known := states()
	for _, n := range names {
		if !slices.Contains(known, n) {
			return nil, refuse("unknown state %q; known are %s", n, strings.Join(known, ", "))
		}
	}
	return func(s scheduler.Status) bool { return slices.Contains(names, s.State.String()) }, nil
}
