package container

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/models"
)

// Containers returns the containers that are known, by <runtime>:<id>. An
// error wraps ErrUnknown and says why others may exist as well; what is in the
// map is sure nevertheless, and a nil in it is a container that is surely
// gone. Without an error the map is all there is.
func (t *Tracker) Containers() (map[string]*models.Container, error) {
	p := t.snapshot.Load()
	return clones(p.containers), p.unknown
}

// Microservices returns, by service label, the containers that serve one, in
// the same way as Containers. Values with Refused set cannot be used.
func (t *Tracker) Microservices() (map[string]*models.Microservice, error) {
	p := t.snapshot.Load()
	return clones(p.microservices), p.unknown
}

// Synced reports whether every runtime was known once, or was not there. Before
// that, containers that ran already may not have been seen yet.
func (t *Tracker) Synced() bool { return t.snapshot.Load().synced }

func clones[V proto.Message](m map[string]V) map[string]V {
	out := make(map[string]V, len(m))
	for k, v := range m {
		if v.ProtoReflect().IsValid() {
			v = proto.CloneOf(v)
		}
		out[k] = v
	}
	return out
}

// publish makes the snapshot anew if anything moved, and tells the watchers
// what changed in it.
func (t *Tracker) publish() {
	defer t.tellEvents()
	defer t.updateAges()
	t.publishHealth()
	old := t.snapshot.Load()
	if old != nil && !t.changed {
		return
	}
	t.changed = false
	next := t.build()
	if old != nil {
		t.tellClaims(old, next)
	}
	t.snapshot.Store(next)
	t.moved.give()
	if old == nil {
		return
	}
	keys := differing(containerKey, old.containers, next.containers)
	keys = append(keys, differing(microserviceKey, old.microservices, next.microservices)...)
	all := (old.unknown == nil) != (next.unknown == nil)
	if len(keys) > 0 || all {
		t.watchers.tell(keys, all)
	}
}

// tellEvents hands the observer what happened. The snapshot has it already.
func (t *Tracker) tellEvents() {
	events := t.events
	t.events = nil
	if t.opts.Observer == nil {
		return
	}
	for _, e := range events {
		t.opts.Observer(e)
	}
}

// build makes a snapshot of what the sources know.
func (t *Tracker) build() *snapshot {
	p := &snapshot{synced: true}
	var members, ended []*member
	var unknown []string
	for _, s := range t.sources {
		running, over := s.members()
		members = append(members, running...)
		ended = append(ended, over...)
		p.synced = p.synced && s.synced
		if why := s.unknown(); why != "" {
			unknown = append(unknown, s.rt.Name()+": "+why)
		}
	}
	p.containers, p.microservices, p.claims = resolve(members, append([]uint64{t.opts.Processes.OwnNetns()}, t.opts.Host...), t.opts.Labels)
	for _, s := range t.sources {
		for _, e := range s.entries {
			e.shown = p.containers[s.key(e)]
		}
	}
	for _, m := range ended {
		if _, served := p.microservices[m.label]; m.label != "" && !served {
			p.microservices[m.label] = nil
		}
	}
	p.order = slices.Sorted(maps.Keys(p.containers))
	if len(unknown) > 0 {
		p.unknown = fmt.Errorf("%w: %s", ErrUnknown, strings.Join(unknown, "; "))
	}
	return p
}

// differing returns the sorted keys of the values that are not equal. Gone and
// never there are the same.
func differing[V interface {
	comparable
	proto.Message
}](key func(name string) string, a, b map[string]V) []string {
	var keys []string
	for name, v := range a {
		if v != b[name] && !proto.Equal(v, b[name]) {
			keys = append(keys, key(name))
		}
	}
	for name, v := range b {
		if _, both := a[name]; !both && !proto.Equal(a[name], v) {
			keys = append(keys, key(name))
		}
	}
	slices.Sort(keys)
	return keys
}
