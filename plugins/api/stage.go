package api

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/confirm"
	"github.com/plumb-net/plumb/scheduler"
)

// request is what Apply, Put, Delete and Plan have in common.
type request struct {
	wishes  []wish
	deletes []string
	set     string
	prune   bool
	// Only of plans.
	vanish, unread []string
}

// staged is a request compared with the store: what has to be written.
type staged struct {
	changes []change
	// sets are the changes of apply-sets, under their names in the store.
	sets []change
	// deletes are all keys to withdraw: those asked for and those pruned.
	deletes []string
	notes   []string
	// done is what commit wrote, by transactions.
	done []written
	// trial is what has to be confirmed of it.
	trial *confirm.Trial
}

// written are changes that are in the store since a revision.
type written struct {
	changes  []change
	revision int64
}

// change is a key of the store, before and after.
type change struct {
	key    string        // as in the store
	before models.Stored // Revision 0: absent
	after  []byte        // nil: absent
}

func (c change) op() string {
	switch {
	case c.before.Revision == 0 && c.after == nil, c.before.Revision != 0 && bytes.Equal(c.before.Value, c.after):
		return "none"
	case c.before.Revision == 0:
		return "create"
	case c.after == nil:
		return "delete"
	}
	return "update"
}

// short is the key as operators know it.
func (c change) short() string { return strings.TrimPrefix(c.key, configPrefix) }

// write makes the change, on condition that the key is as it was read.
func (c change) write() models.Write {
	return models.Write{Key: c.key, Value: c.after, If: &c.before.Revision}
}

// stage compares a request with the store.
func (s *Server) stage(ctx context.Context, r request) (*staged, error) {
	named := map[string]bool{}
	for _, w := range r.wishes {
		named[w.key] = true
	}
	for _, k := range r.deletes {
		if err := checkStoreKey(k); err != nil {
			return nil, err
		}
		if named[k] {
			return nil, refuse("%s is to be written and deleted at once", k)
		}
	}
	st := &staged{deletes: slices.Compact(slices.Sorted(slices.Values(r.deletes)))}
	sets, err := s.readSets(ctx, r)
	if err != nil {
		return nil, err
	}
	var gone []string
	if r.prune {
		gone, st.notes = pruned(findSet(sets, r.set), sets, named)
		st.deletes = slices.Compact(slices.Sorted(slices.Values(append(gone, st.deletes...))))
	}
	before, err := s.before(ctx, r.wishes, st.deletes)
	if err != nil {
		return nil, err
	}
	st.changes = make([]change, 0, len(r.wishes)+len(st.deletes))
	for _, w := range r.wishes {
		st.changes = append(st.changes, change{stored(w.key), before[w.key], w.text})
	}
	for _, k := range st.deletes {
		if err := s.stageDelete(ctx, st, k, before[k], slices.Contains(gone, k)); err != nil {
			return nil, err
		}
	}
	st.stageSets(sets, r, named)
	return st, nil
}

// readSets reads the apply-sets if the request can touch any.
func (s *Server) readSets(ctx context.Context, r request) ([]*applySet, error) {
	if r.prune && r.set == "" {
		return nil, refuse("--prune needs the name of the apply-set: --set NAME")
	}
	if r.prune && len(r.wishes) == 0 {
		return nil, refuse("--prune without any intent would delete all that the apply-set %s wrote; name those keys to delete them", r.set)
	}
	if r.set == "" && len(r.deletes) == 0 {
		return nil, nil
	}
	return s.applySets(ctx)
}

// before reads the keys of the request as they stand in the store.
func (s *Server) before(ctx context.Context, ws []wish, deletes []string) (map[string]models.Stored, error) {
	keys := slices.Grow(slices.Clone(deletes), len(ws))
	for _, w := range ws {
		keys = append(keys, w.key)
	}
	out := map[string]models.Stored{}
	if len(keys) > 16 { // one list is cheaper than many reads
		all, err := s.Store.List(ctx, configPrefix)
		if err != nil {
			return nil, fail(err)
		}
		for _, st := range all {
			out[st.Key[len(configPrefix):]] = st
		}
		return out, nil
	}
	for _, k := range keys {
		st, _, err := s.Store.Get(ctx, stored(k))
		if err != nil {
			return nil, fail(err)
		}
		out[k] = st
	}
	return out, nil
}

// stageDelete takes a deletion into the stage. What is in the store may always
// go; what is not there must not belong to somebody else.
func (s *Server) stageDelete(ctx context.Context, st *staged, key string, before models.Stored, prune bool) error {
	if before.Revision == 0 {
		if prune {
			return nil // deleted by other hands meanwhile
		}
		if err := s.checkDelete(ctx, key); err != nil {
			return err
		}
	} else if now, err := s.Scheduler.Get(ctx, scheduler.Key(key)); err == nil {
		for _, other := range now.Shadowed {
			st.notes = append(st.notes, fmt.Sprintf("%s stays wanted: %s takes over", key, s.owner(other, key)))
		}
	}
	st.changes = append(st.changes, change{stored(key), before, nil})
	return nil
}

// stageSets brings the apply-sets up to date: the request's own set holds what
// it wrote, and no set holds what is deleted.
func (st *staged) stageSets(sets []*applySet, r request, named map[string]bool) {
	isGone := map[string]bool{}
	for _, k := range st.deletes {
		isGone[k] = true
	}
	if r.set != "" {
		own := findSet(sets, r.set)
		if own.revision == 0 {
			sets = append(sets, own)
		}
	}
	for _, a := range sets {
		var keys []string
		own := r.set != "" && a.key == findSet(sets, r.set).key
		for _, k := range a.Keys {
			if !isGone[k] && (!own || !r.prune || named[k]) {
				keys = append(keys, k)
			}
		}
		if own {
			for k := range named {
				if !a.has(k) {
					keys = append(keys, k)
				}
			}
		}
		if c := a.change(keys); c.op() != "none" {
			st.sets = append(st.sets, c)
		}
	}
}

// pending are the changes that have to be written, without apply-sets.
func (st *staged) pending() []change {
	same := func(c change) bool { return c.op() == "none" }
	if !slices.ContainsFunc(st.changes, same) {
		return st.changes
	}
	return slices.DeleteFunc(slices.Clone(st.changes), same)
}

// writes are the keys of intent that have to be written.
func (st *staged) writes() map[scheduler.Key]bool {
	out := map[scheduler.Key]bool{}
	for _, c := range st.changes {
		if c.op() != "none" {
			out[scheduler.Key(c.short())] = true
		}
	}
	return out
}

// brought are the keys of intent that were not in the store before.
func (st *staged) brought() (out []scheduler.Key) {
	for _, c := range st.changes {
		if c.op() == "create" {
			out = append(out, scheduler.Key(c.short()))
		}
	}
	return out
}

// touched are all keys that the request names, also those that stay as they are.
func (st *staged) touched() []string {
	out := make([]string, len(st.changes))
	for i, c := range st.changes {
		out[i] = c.short()
	}
	slices.Sort(out)
	return out
}

func (st *staged) report() []*apiv1.Change {
	out := make([]*apiv1.Change, len(st.changes))
	for i, c := range st.changes {
		out[i] = &apiv1.Change{Key: c.short(), Op: c.op()}
	}
	return out
}
