package api

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/plumb-net/plumb/models"
)

// setPrefix holds the apply-sets in the store: for each the keys that it wrote.
const setPrefix = "applyset/"

// applySet is what apply remembers of its earlier runs, so that --prune deletes
// what it wrote itself and nothing else.
type applySet struct {
	Keys []string `json:"keys"`

	key      string // in the store
	revision int64  // 0: new
	before   []byte // as stored
}

// name is what people call the set.
func (a *applySet) name() string {
	name := strings.TrimPrefix(a.key, setPrefix)
	if text, err := models.Unescape(name); err == nil {
		return text
	}
	return name
}

// setKey is where the set with the name is kept: under its name as it is, so that it
// can be read, unless it holds what cannot be.
func setKey(name string) string {
	if strings.Contains(name, "%") || !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return setPrefix + models.Escape(name)
	}
	return setPrefix + name
}

func (a *applySet) has(key string) bool {
	_, found := slices.BinarySearch(a.Keys, key)
	return found
}

// change leaves the set with these keys.
func (a *applySet) change(keys []string) change {
	slices.Sort(keys)
	c := change{key: a.key, before: models.Stored{Key: a.key, Value: a.before, Revision: a.revision}}
	switch {
	case a.revision != 0 && slices.Equal(keys, a.Keys):
		c.after = a.before
	case len(keys) > 0:
		c.after, _ = json.Marshal(applySet{Keys: keys}) // strings always encode
	}
	return c
}

// applySets reads all sets.
func (s *Server) applySets(ctx context.Context) ([]*applySet, error) {
	list, err := s.Store.List(ctx, setPrefix)
	if err != nil {
		return nil, fail(err)
	}
	var out []*applySet
	for _, st := range list {
		a := &applySet{key: st.Key, revision: st.Revision, before: st.Value}
		if err := json.Unmarshal(st.Value, a); err != nil {
			return nil, notNow("%s in the store is damaged: %w; look at it with `agentctl kv get %s`", st.Key, err, st.Key)
		}
		slices.Sort(a.Keys)
		out = append(out, a)
	}
	return out, nil
}

// findSet returns the set with the name, a new one if there is none.
func findSet(all []*applySet, name string) *applySet {
	for _, a := range all {
		if a.name() == name {
			return a
		}
	}
	return &applySet{key: setKey(name)}
}

// pruned are the keys that the set wrote before and that are no longer named.
// What another set wrote too is left to it, and said.
func pruned(set *applySet, all []*applySet, named map[string]bool) (keys, notes []string) {
	for _, k := range set.Keys {
		if named[k] {
			continue
		}
		other := slices.IndexFunc(all, func(a *applySet) bool { return a.key != set.key && a.has(k) })
		if other >= 0 {
			notes = append(notes, fmt.Sprintf("%s is left: the apply-set %s wrote it too", k, all[other].name()))
			continue
		}
		keys = append(keys, k)
	}
	return keys, notes
}
