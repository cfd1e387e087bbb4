package etcd

import (
	"bytes"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// Override has values of intent count as others, in place of the overrides of before; nil
// ends them. It is told to the scheduler at once, also while there is no store: so what
// cannot be written back yet is taken back nevertheless. Statuses of keys that are not
// intent are not affected.
func (p *Plugin) Override(list []models.Override) { p.source.override(list) }

func (s *source) override(list []models.Override) {
	s.saying.Lock()
	defer s.saying.Unlock()
	all := map[string]models.Override{}
	var want []scheduler.Change
	seen := map[scheduler.Key]bool{}
	for _, o := range list {
		name, intent := strings.CutPrefix(o.Key, "config/")
		if !intent {
			continue
		}
		all[name] = o
		c := scheduler.Withdraw(safeKey(name))
		if o.Value != nil {
			c = s.decode.change(name, o.Value)
		}
		want = append(want, c)
		for _, k := range s.derived(c) {
			seen[k] = true
		}
		seen[c.Key] = true
	}
	want = append(want, s.withdrawDerived(list, seen)...)
	if len(all) == 0 && len(s.overrides) == 0 {
		return
	}
	s.overrides, s.overridden = all, true
	if len(want) > 0 {
		s.submit.Submit(scheduler.Txn{Source: Source, Note: "taken back, and not yet written", Want: want})
	}
	s.again(errOverride)
}

// derived are the keys that a change derives.
func (s *source) derived(c scheduler.Change) []scheduler.Key {
	if c.Value == nil {
		return nil
	}
	keys, _ := s.submit.Derived(c.Key, c.Value) // it fails only when the scheduler has ended
	return keys
}

// withdrawDerived says of what the stored values derive that it is not wanted, but for
// the keys that are. After a restart nobody remembers that it came with them, and what
// nobody is known to want is not removed before all sources have told all.
func (s *source) withdrawDerived(list []models.Override, wanted map[scheduler.Key]bool) (out []scheduler.Change) {
	for _, o := range list {
		name, intent := strings.CutPrefix(o.Key, "config/")
		if !intent || o.Stored == nil {
			continue
		}
		for _, k := range s.derived(s.decode.change(name, o.Stored)) {
			if !wanted[k] {
				wanted[k] = true
				out = append(out, scheduler.Withdraw(k))
			}
		}
	}
	return out
}

// again has the next session begin at once, for a reason.
func (s *source) again(why error) {
	s.mu.Lock()
	if s.cut != nil {
		s.cut(why)
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// of is a list as it counts.
func (s *source) of(kvs []*mvccpb.KeyValue) []*mvccpb.KeyValue {
	if len(s.overrides) == 0 {
		return kvs
	}
	out, named := make([]*mvccpb.KeyValue, 0, len(kvs)), map[string]bool{}
	for _, kv := range kvs {
		name := string(kv.Key[len(s.prefix):])
		named[name] = true
		if o, ok := s.overrides[name]; !ok || o.Stored == nil || !bytes.Equal(o.Stored, kv.Value) {
			out = append(out, kv)
		} else if o.Value != nil {
			out = append(out, &mvccpb.KeyValue{Key: kv.Key, Value: o.Value, ModRevision: kv.ModRevision})
		}
	}
	for name, o := range s.overrides {
		if !named[name] && o.Stored == nil && o.Value != nil {
			out = append(out, &mvccpb.KeyValue{Key: []byte(s.prefix + name), Value: o.Value})
		}
	}
	slices.SortFunc(out, func(a, b *mvccpb.KeyValue) int { return bytes.Compare(a.Key, b.Key) })
	return out
}

// ofEvents are events as they count.
func (s *source) ofEvents(events []*mvccpb.Event) []*mvccpb.Event {
	if len(s.overrides) == 0 {
		return events
	}
	out := slices.Clone(events)
	for i, e := range out {
		o, ok := s.overrides[string(e.Kv.Key[len(s.prefix):])]
		gone := e.Type == mvccpb.Event_DELETE
		if !ok || gone != (o.Stored == nil) || !gone && !bytes.Equal(o.Stored, e.Kv.Value) {
			continue
		}
		kv := &mvccpb.KeyValue{Key: e.Kv.Key, Value: o.Value, ModRevision: e.Kv.ModRevision}
		out[i] = &mvccpb.Event{Type: mvccpb.Event_PUT, Kv: kv}
		if o.Value == nil {
			out[i].Type = mvccpb.Event_DELETE
		}
	}
	return out
}
