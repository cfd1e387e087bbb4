package apitest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/api"
	"github.com/plumb-net/plumb/scheduler"
)

// Engine is a scheduler that does at once what it is asked.
type Engine struct {
	mu       sync.Mutex // guards what follows
	keys     map[scheduler.Key]scheduler.Status
	becomes  map[scheduler.Key]scheduler.Status
	was      map[scheduler.Key]scheduler.Status
	held     map[scheduler.Key]bool
	paused   map[scheduler.Key]bool
	edges    []scheduler.Edge
	kinds    []scheduler.KindInfo
	sources  []scheduler.SourceState
	records  []scheduler.Record
	watchers []*watcher
	moved    *sync.Cond // watchers came or went
	revision uint64
	dead     bool
}

var _ api.Scheduler = (*Engine)(nil)

func newEngine() *Engine {
	e := &Engine{
		keys:    map[scheduler.Key]scheduler.Status{},
		becomes: map[scheduler.Key]scheduler.Status{},
		was:     map[scheduler.Key]scheduler.Status{},
		held:    map[scheduler.Key]bool{},
		paused:  map[scheduler.Key]bool{},
		sources: []scheduler.SourceState{{Name: "etcd", Synced: true}, {Name: "files", Synced: true}},
	}
	e.moved = sync.NewCond(&e.mu)
	for _, k := range models.Kinds() {
		info := scheduler.KindInfo{Name: k.Name, Prefix: scheduler.Key(k.Prefix), Observed: !k.Writable && k.Name != models.KindOnLink}
		if k.Name == models.KindNetNS {
			continue // a kind that this agent cannot do
		}
		if k.Writable {
			info.Capabilities = []string{"retrieve", "update"}
		}
		e.kinds = append(e.kinds, info)
	}
	return e
}

// Set puts a status in place, as if it had changed by itself.
func (e *Engine) Set(st scheduler.Status) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.set(st)
}

func (e *Engine) set(st scheduler.Status) {
	e.revision++
	st.Revision = e.revision
	if st.Since.IsZero() {
		st.Since = Noon().Add(-90 * time.Second)
	}
	if st.State == scheduler.Removed {
		delete(e.keys, st.Key)
	} else {
		e.keys[st.Key] = st
	}
	for _, w := range e.watchers {
		w.tell(st)
	}
}

// Grade says what sort of drift a fresh read finds at a key, and who made what is there.
// What is left by policy is graded by it.
func (e *Engine) Grade(k scheduler.Key, grade, owner string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	st, there := e.keys[k]
	if !there {
		return fmt.Errorf("%s: %w", k, scheduler.ErrUnknownKey)
	}
	for g := scheduler.GradeRepair; g <= scheduler.GradeForeign; g++ {
		if g.String() == grade {
			st.Grade, st.Owner = g, owner
		}
	}
	switch st.Grade {
	case scheduler.NoDrift:
		return fmt.Errorf("unknown grade %q", grade)
	case scheduler.GradeAlert:
		st.Drift = scheduler.DriftAlert
	case scheduler.GradeIgnore:
		st.Drift = scheduler.DriftIgnore
	}
	e.keys[k] = st
	return nil
}

// Becomes says what a key will be once it is wanted, instead of configured.
func (e *Engine) Becomes(st scheduler.Status) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.becomes[st.Key] = st
}

// Hold keeps a key busy from its next change on.
func (e *Engine) Hold(k scheduler.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held[k] = true
}

// Unhold ends a Hold.
func (e *Engine) Unhold(k scheduler.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.held, k)
	st := e.keys[k]
	st.Busy = false
	e.set(st)
}

// Edge adds an edge of the graph.
func (e *Engine) Edge(edge scheduler.Edge) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.edges = append(e.edges, edge)
}

// Record adds a record to the history.
func (e *Engine) Record(r scheduler.Record) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.records = append(e.records, r)
}

// Source tells how a source stands.
func (e *Engine) Source(s scheduler.SourceState) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.sources {
		if e.sources[i].Name == s.Name {
			e.sources[i] = s
		}
	}
}

// Kill makes the loop answer nothing any more.
func (e *Engine) Kill() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dead = true
}

// heard takes what the store says of a key.
func (e *Engine) heard(key string, data []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := scheduler.Key(key)
	if data == nil {
		switch st, there := e.keys[k]; {
		case st.State == scheduler.Paused:
			e.set(scheduler.Status{Key: k, State: scheduler.Leftover, Reason: "not in the intent, but paused: " + st.Reason, Actual: st.Actual})
		case there:
			e.set(scheduler.Status{Key: k, State: scheduler.Removed})
		}
		return
	}
	st, scripted := e.becomes[k]
	msg, err := models.Decode(key, data)
	var invalid *models.InvalidError
	switch {
	case errors.As(err, &invalid):
		st = scheduler.Status{Key: k, State: scheduler.InvalidState, Reason: err.Error()}
		for _, f := range invalid.Fields {
			st.Fields = append(st.Fields, scheduler.FieldError(f))
		}
	case scripted:
		st.Desired = msg
	default:
		st = scheduler.Status{Key: k, State: scheduler.Configured, Desired: msg, Actual: msg}
	}
	st.Origin, st.Since, st.Busy = "etcd", Noon(), e.held[k]
	e.set(st)
}

// Apply implements the port: a transaction that looks finds everything as it is
// believed, and repairs what has drifted.
func (e *Engine) Apply(_ context.Context, t scheduler.Txn) (scheduler.Result, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	rec := scheduler.Record{
		Seq: uint64(len(e.records) + 1), Time: Noon(), Source: t.Source, Note: t.Note,
		Asked: t.Look, AskedTotal: len(t.Look), Settled: Noon().Add(3 * time.Millisecond),
	}
	res := scheduler.Result{Seq: rec.Seq}
	for _, st := range e.selected(t.Look) {
		if st.State == scheduler.Drifted {
			st.State, st.Reason, st.Actual = scheduler.Configured, "", st.Desired
			e.set(st)
			rec.Done = append(rec.Done, scheduler.DoneStep{Op: scheduler.OpUpdate, Key: st.Key, Start: Noon(), Took: 2 * time.Millisecond})
		}
		res.Keys = append(res.Keys, scheduler.Outcome{Key: st.Key, State: st.State, Reason: st.Reason})
	}
	e.records = append(e.records, rec)
	return res, nil
}

// Inspect implements the port: what is there is what the script says.
func (e *Engine) Inspect(ctx context.Context, prefixes ...scheduler.Key) ([]scheduler.Status, error) {
	return e.List(ctx, prefixes...)
}

// WhatIf implements the port. What vanishes only breaks itself.
func (e *Engine) WhatIf(_ context.Context, events ...scheduler.Event) (scheduler.Plan, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var t scheduler.Txn
	var effects []scheduler.Effect
	for _, v := range events {
		t.Want = append(t.Want, v.Txn.Want...)
		for _, k := range v.Vanish {
			effects = append(effects, scheduler.Effect{Key: k, Was: e.keys[k].State, State: scheduler.Pending, Reason: "needs somebody to bring it back"})
		}
	}
	p := scheduler.Plan{Effects: effects, Base: scheduler.SavedBase{Sum: fmt.Sprintf("%016x", e.revision+1)}.Load()}
	step := func(op scheduler.Operation, k scheduler.Key, reason string, d scheduler.Disruption) {
		s := scheduler.Step{N: len(p.Steps) + 1, Op: op, Key: k, Reason: reason, Disruption: d}
		if s.N > 1 {
			s.After = []int{s.N - 1}
		}
		p.Steps = append(p.Steps, s)
	}
	for _, c := range t.Want {
		now, there := e.keys[c.Key]
		will, scripted := e.becomes[c.Key]
		switch {
		case c.Invalid != nil:
		case scripted && will.State == scheduler.Pending:
			p.Pending = append(p.Pending, will)
		case c.Value == nil && there:
			step(scheduler.OpDelete, c.Key, "removed from the intent", scheduler.Disruptive)
		case c.Value == nil:
		case !there || now.Actual == nil:
			step(scheduler.OpCreate, c.Key, "it is wanted and not there", scheduler.NoDisruption)
		case !proto.Equal(c.Value.(proto.Message), now.Actual.(proto.Message)):
			step(scheduler.OpUpdate, c.Key, "the value changed", scheduler.Brief)
		}
	}
	return p, nil
}

// Expect implements the port: nothing is expected, all is done at once.
func (e *Engine) Expect(scheduler.Txn) api.Expected { return expected{} }

type expected struct{}

func (expected) Wait(context.Context) (scheduler.Result, error) { return scheduler.Result{}, nil }
func (expected) Forget() bool                                   { return true }

// Get implements the port.
func (e *Engine) Get(_ context.Context, k scheduler.Key) (scheduler.Status, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if st, ok := e.find(k); ok {
		return st, nil
	}
	return scheduler.Status{}, fmt.Errorf("%s: %w", k, scheduler.ErrUnknownKey)
}

func (e *Engine) find(k scheduler.Key) (scheduler.Status, bool) {
	if st, ok := e.keys[k]; ok {
		return st, true
	}
	for _, st := range e.keys {
		for _, d := range st.Derived {
			if d.Key == k {
				return d, true
			}
		}
	}
	return scheduler.Status{}, false
}

// List implements the port.
func (e *Engine) List(_ context.Context, prefixes ...scheduler.Key) ([]scheduler.Status, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dead {
		return nil, scheduler.ErrStopped
	}
	return e.selected(prefixes), nil
}

// Statuses implements the port.
func (e *Engine) Statuses(ctx context.Context, prefixes ...scheduler.Key) iter.Seq2[scheduler.Status, error] {
	return func(yield func(scheduler.Status, error) bool) {
		all, err := e.List(ctx, prefixes...)
		if err != nil {
			yield(scheduler.Status{}, err)
		}
		for _, st := range all {
			if !yield(st, nil) {
				return
			}
		}
	}
}

func (e *Engine) selected(prefixes []scheduler.Key) []scheduler.Status {
	var out []scheduler.Status
	for _, k := range slices.Sorted(maps.Keys(e.keys)) {
		if matches(prefixes, k) {
			out = append(out, e.keys[k])
			continue
		}
		for _, d := range e.keys[k].Derived {
			if matches(prefixes, d.Key) {
				out = append(out, d)
			}
		}
	}
	return out
}

func matches(prefixes []scheduler.Key, k scheduler.Key) bool {
	return len(prefixes) == 0 || slices.ContainsFunc(prefixes, func(p scheduler.Key) bool {
		return k == p || strings.HasSuffix(string(p), "/") && strings.HasPrefix(string(k), string(p))
	})
}

// Edges implements the port.
func (e *Engine) Edges(context.Context) ([]scheduler.Edge, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.edges), nil
}

// Why implements the port: it follows what is missing.
func (e *Engine) Why(_ context.Context, k scheduler.Key) (scheduler.Cause, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.find(k); !ok {
		return scheduler.Cause{}, fmt.Errorf("%s: %w", k, scheduler.ErrUnknownKey)
	}
	c := e.why(k)
	c.Roots = e.roots(k, "")
	return c, nil
}

// roots are the keys that nothing below explains.
func (e *Engine) roots(k, from scheduler.Key) (all []scheduler.Root) {
	st, known := e.find(k)
	for _, m := range st.Missing {
		all = append(all, e.roots(scheduler.Key(m.Need), k)...)
	}
	if len(all) > 0 || st.State == scheduler.Configured || st.State == scheduler.Observed {
		return all
	}
	r := scheduler.Root{Key: k, Status: st, Text: e.why(k).Text, For: from, Kind: map[scheduler.State]scheduler.RootKind{
		scheduler.InvalidState: scheduler.RootInvalid, scheduler.Failed: scheduler.RootFailed, scheduler.Retrying: scheduler.RootFailed,
		scheduler.Drifted: scheduler.RootDrifted, scheduler.Unknown: scheduler.RootUnread, scheduler.Unimplemented: scheduler.RootNoKind,
	}[st.State]}
	name, _, _ := strings.Cut(string(k), "/")
	kind, err := models.KindByName(name)
	switch {
	case st.State == scheduler.Paused, st.State == scheduler.Leftover:
		r.Kind, r.By = scheduler.RootPaused, k
		for target := range e.paused {
			if strings.HasSuffix(string(target), "/") && strings.HasPrefix(string(k), string(target)) {
				r.By = target
			}
		}
	case !known && err == nil && kind.Writable:
		r.Kind = scheduler.RootNotAsked
	case !known:
		r.Kind = scheduler.RootNotThere
	}
	return []scheduler.Root{r}
}

func (e *Engine) why(k scheduler.Key) scheduler.Cause {
	st, ok := e.find(k)
	if !ok {
		return scheduler.Cause{Status: scheduler.Status{Key: k}, Text: string(k) + " is absent: not in the intent"}
	}
	c := scheduler.Cause{Status: st, Text: strings.TrimSuffix(fmt.Sprintf("%s is %s: %s", k, st.State, st.Reason), ": ")}
	for _, m := range st.Missing {
		c.Because = append(c.Because, e.why(scheduler.Key(m.Need)))
	}
	for i, r := range e.records {
		if r.Seq == st.Cause {
			c.Record = &e.records[i]
			for _, s := range slices.Backward(r.Done) {
				if len(c.Chain) == 0 && s.Key == k || len(c.Chain) > 0 && s.Key == c.Chain[len(c.Chain)-1].Via {
					c.Chain = append(c.Chain, s)
				}
			}
		}
	}
	return c
}

// History implements the port.
func (e *Engine) History(q scheduler.HistoryQuery) []scheduler.Record {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []scheduler.Record
	for _, r := range e.records {
		about := q.Key == "" || slices.Contains(r.Asked, q.Key) ||
			slices.ContainsFunc(r.Done, func(d scheduler.DoneStep) bool { return d.Key == q.Key })
		if about && (q.Seq == 0 || q.Seq == r.Seq) && !r.Time.Before(q.Since) {
			out = append(out, r)
		}
	}
	if q.Limit > 0 && len(out) > q.Limit {
		out = out[len(out)-q.Limit:]
	}
	return out
}

// At implements the port: one minute ago began what is kept, and everything was
// as it is, but for what Was says.
func (e *Engine) At(_ context.Context, t time.Time, prefixes ...scheduler.Key) ([]scheduler.Status, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if begin := Noon().Add(-time.Minute); t.Before(begin) {
		return nil, &scheduler.HistoryError{Earliest: begin}
	}
	var out []scheduler.Status
	for _, st := range e.selected(prefixes) {
		if was, ok := e.was[st.Key]; ok {
			st = was
		}
		if st.State != scheduler.Absent {
			out = append(out, scheduler.Status{Key: st.Key, State: st.State, Origin: st.Origin, Desired: st.Desired, Actual: st.Actual})
		}
	}
	return out, nil
}

// Changes implements the port: from what was to what is.
func (e *Engine) Changes(ctx context.Context, from, _ time.Time, prefixes ...scheduler.Key) ([]scheduler.KeyChange, error) {
	if _, err := e.At(ctx, from); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []scheduler.KeyChange
	for _, st := range e.selected(prefixes) {
		if was, ok := e.was[st.Key]; ok {
			out = append(out, scheduler.KeyChange{Key: st.Key, Before: momentOf(was), After: momentOf(st), Seq: st.Cause, Time: st.Since})
		}
	}
	return out, nil
}

func momentOf(st scheduler.Status) scheduler.Moment {
	return scheduler.Moment{State: st.State, Desired: st.Desired, Actual: st.Actual, Origin: st.Origin}
}

// Was says how a key was before.
func (e *Engine) Was(st scheduler.Status) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.was[st.Key] = st
}

// Blame implements the port: the newest record that names the key.
func (e *Engine) Blame(_ context.Context, k scheduler.Key) (scheduler.Blame, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	b := scheduler.Blame{Key: k, Since: Noon().Add(-time.Minute)}
	for _, r := range e.records {
		d := scheduler.Deed{Seq: r.Seq, Source: r.Source, Note: r.Note, Time: r.Time}
		if slices.Contains(r.Asked, k) {
			b.Asked = &d
		}
		for _, s := range r.Done {
			d := d
			d.Op, d.Via, d.Error = s.Op, s.Via, s.Error
			switch {
			case s.Key == k && s.Error != "":
				b.Failures = append(b.Failures, d)
			case s.Key == k:
				b.Made = &d
			}
		}
	}
	if _, known := e.find(k); !known && b.Asked == nil && b.Made == nil {
		return b, fmt.Errorf("%s: %w", k, scheduler.ErrUnknownKey)
	}
	return b, nil
}

// Kinds implements the port.
func (e *Engine) Kinds() []scheduler.KindInfo { return e.kinds }

// Pause implements the port.
func (e *Engine) Pause(target scheduler.Key, reason string, until time.Time) error {
	e.mu.Lock()
	e.paused[target] = true
	e.mu.Unlock()
	return e.each(target, func(st *scheduler.Status) {
		st.State, st.Reason = scheduler.Paused, reason
		if !until.IsZero() {
			st.Reason += ", until " + until.Format(time.RFC3339)
		}
	})
}

// HeldBack implements the port: nothing ever is.
func (e *Engine) HeldBack() ([]scheduler.HeldBack, error) { return nil, nil }

// TakeBack notes nothing: nothing is held back by itself here.
func (e *Engine) TakeBack(...scheduler.Key) (end func(), err error) { return func() {}, nil }

// Release implements the port.
func (e *Engine) Release(string) error { return scheduler.ErrNotHeldBack }

// Resume implements the port.
func (e *Engine) Resume(target scheduler.Key) error {
	e.mu.Lock()
	paused := e.paused[target]
	delete(e.paused, target)
	e.mu.Unlock()
	if !paused {
		return fmt.Errorf("%w: %s", scheduler.ErrNotPaused, target)
	}
	return e.each(target, func(st *scheduler.Status) { st.State, st.Reason = scheduler.Configured, "" })
}

func (e *Engine) each(target scheduler.Key, change func(*scheduler.Status)) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, st := range e.selected([]scheduler.Key{target}) {
		change(&st)
		e.set(st)
	}
	return nil
}

// Sources implements the port.
func (e *Engine) Sources(ctx context.Context) ([]scheduler.SourceState, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dead {
		return nil, scheduler.ErrStopped
	}
	return slices.Clone(e.sources), nil
}

// Hang makes the loop answer nothing until release is called.
func (e *Engine) Hang() (release func()) {
	e.mu.Lock()
	return e.mu.Unlock
}
