package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/plumb-net/plumb/models"
)

// verify compares what the scheduler was told with what the store held at the same
// revision, values included: a watch that loses, doubles or reorders changes cannot be told
// from its events. Each key is read once, page by page.
func (s *source) verify(ctx context.Context, l *link) (models.StoreCheck, error) {
	s.saying.Lock()
	rev, left := s.reached.get(), maps.Clone(s.view)
	s.saying.Unlock()
	if rev == 0 {
		return models.StoreCheck{}, errors.New("the store was not listed yet")
	}
	check := models.StoreCheck{Revision: rev, Keys: len(left)}
	err := scan(ctx, l, s.cfg.tune, s.prefix, rev, func(kv *mvccpb.KeyValue) {
		name := string(kv.Key[len(s.prefix):])
		if t, there := left[name]; !there || t != tell(kv) {
			check.Differ = append(check.Differ, string(safeKey(name)))
		}
		delete(left, name)
	})
	if err != nil {
		return check, err
	}
	for name := range left { // and not in the store
		check.Differ = append(check.Differ, string(safeKey(name)))
	}
	slices.Sort(check.Differ)
	check.Time = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.facts.checks.Done++
	s.facts.checks.Differed += len(check.Differ)
	s.facts.checks.Last = check
	return check, nil
}

// differs is the reason to list the store anew; nil if nothing does.
func differs(c models.StoreCheck) error {
	if len(c.Differ) == 0 {
		return nil
	}
	const some = 5
	names := strings.Join(c.Differ[:min(some, len(c.Differ))], ", ")
	if len(c.Differ) > some {
		names += " and more"
	}
	return fmt.Errorf("%w: at revision %d what was told differs from the store in %d of %d keys: %s",
		errLostEvents, c.Revision, len(c.Differ), c.Keys, names)
}

// Verify compares what the scheduler was told with what the store holds. If they differ
// the store is listed anew, and it returns when that has been told.
func (p *Plugin) Verify(ctx context.Context) (models.StoreCheck, error) {
	lists, _ := p.source.lists.next()
	check, err := request(ctx, p, func(ctx context.Context, l *link) (models.StoreCheck, error) {
		return p.source.verify(ctx, l)
	})
	if err != nil {
		return check, p.cfg.storeError("compare with the store", err)
	}
	if why := differs(check); why != nil {
		p.source.again(why)
		if err := p.source.lists.wait(ctx, lists+1, func() {}); err != nil {
			return check, err
		}
	}
	return check, nil
}

// Checks tells what comparing with the store has found so far.
func (p *Plugin) Checks() models.StoreChecks { return p.source.standingFacts().checks }
