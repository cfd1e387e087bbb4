package scheduler

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"time"
)

func randFloat() float64 { return rand.Float64() }

var errTODO = errors.New("not built yet")

// Scheduler: see the package documentation. All methods may be called from any goroutine.
type Scheduler struct{ opts Options }

// New makes a scheduler; it works once Run is called.
func New(o Options) *Scheduler { return &Scheduler{opts: o.withDefaults()} }

// Run works until ctx ends, then waits for operations under way.
func (s *Scheduler) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// Handle is a submitted transaction.
type Handle struct{}

// Wait returns when every touched key, derived ones included, is settled.
func (h *Handle) Wait(ctx context.Context) (Result, error) { return Result{}, errTODO }

// Submit hands a transaction over and does not wait. Transactions are edited in the order of Submit.
func (s *Scheduler) Submit(t Txn) *Handle { return &Handle{} }

// Apply submits a transaction and waits until its keys are settled. When ctx ends first, the transaction goes on and the wait ends with the error.
func (s *Scheduler) Apply(ctx context.Context, t Txn) (Result, error) { return s.Submit(t).Wait(ctx) }

// Preview computes what Apply would do and changes nothing.
func (s *Scheduler) Preview(ctx context.Context, t Txn) (Plan, error) { return Plan{}, errTODO }

// Plan is what would be done: steps with their order and reasons.
type Plan struct {
	// Base digests the state that the plan was computed on.
	Base  string
	Steps []Step
	// Pending are the keys that would be left waiting, with what they miss.
	Pending []Status
}

// Step is one operation of a plan.
type Step struct {
	N          int
	Op         Operation
	Key        Key
	Reason     string
	After      []int
	Disruption Disruption
}

// Get returns the status of one key; ErrUnknownKey when there is none.
func (s *Scheduler) Get(ctx context.Context, k Key) (Status, error) { return Status{}, errTODO }

// List returns the statuses of all keys under any of the prefixes (a prefix that does not end in "/" is one key), sorted by key, derived keys nested under their base and not on their own unless asked by prefix. None means all.
func (s *Scheduler) List(ctx context.Context, prefixes ...Key) ([]Status, error) { return nil, errTODO }

// Edges returns the dependency edges of the graph, for drawing.
func (s *Scheduler) Edges(ctx context.Context) ([]Edge, error) { return nil, errTODO }

// Edge is one need (or derivation) as it stands.
type Edge struct {
	From, To  Key // To ends in "*" for a prefix
	Why       string
	Derived   bool // To is the base that From was derived from
	Satisfied bool
}

// Watch follows statuses: first those of all keys under the prefixes, then every change, coalesced per key. Stop it when done.
func (s *Scheduler) Watch(prefixes ...Key) *Watcher { return &Watcher{} }

// Watcher is a coalescing view of statuses: a slow reader skips states in between, never the last.
type Watcher struct{}

// Next blocks until there are changes and returns them. inSync is set from the batch on that completes the first picture.
func (w *Watcher) Next(ctx context.Context) (changes []Status, inSync bool, err error) {
	return nil, false, errTODO
}

// Stop ends the watcher.
func (w *Watcher) Stop() {}

// Why explains a key: its status, and below each missing need the status of what blocks it, down to the root.
func (s *Scheduler) Why(ctx context.Context, k Key) (Cause, error) { return Cause{}, errTODO }

// Cause is one link of the chain from a key to its root blocker.
type Cause struct {
	Status Status
	// Text says it to people.
	Text string
	// Because are the causes below.
	Because []Cause
	// Record is the transaction that last moved the key, if it is still kept.
	Record *Record
}

// History returns the records kept, oldest first, filtered.
func (s *Scheduler) History(q HistoryQuery) []Record { return nil }

// HistoryQuery selects records; the zero value selects all.
type HistoryQuery struct {
	Seq   uint64
	Key   Key
	Since time.Time
	Limit int
}

// Kinds describes the registered kinds, sorted by name.
func (s *Scheduler) Kinds() []KindInfo { return nil }

// KindInfo describes a registered kind.
type KindInfo struct {
	Name         string
	Prefix       Key
	Observed     bool
	Derived      bool
	Capabilities []string
}

// Retry makes keys that wait for their next try ready at once.
func (s *Scheduler) Retry(keys ...Key) {}

// Pause holds a key, or all under a prefix that ends in "/": nothing is done to it until Resume or until the time, if not zero.
func (s *Scheduler) Pause(target Key, reason string, until time.Time) error { return errTODO }

// Resume ends a Pause.
func (s *Scheduler) Resume(target Key) error { return errTODO }

// SourceState tells how a source stands.
type SourceState struct {
	Name   string
	Spoken bool // has said a complete word
	Keys   int
}

// Sources tells which sources have spoken.
func (s *Scheduler) Sources(ctx context.Context) ([]SourceState, error) { return nil, errTODO }

// Register adds a kind at any time. Values that waited for it wake. The error says how to mend the descriptor.
func Register[V, M any](s *Scheduler, d Descriptor[V, M]) (*Kind[V, M], error) { return nil, errTODO }

// Kind is a registered kind.
type Kind[V, M any] struct{}

// Set is [Set] with the kind's type.
func (k *Kind[V, M]) Set(key Key, v V) Change { return Set(key, v) }

// Get returns what is in place at the key. It may be called anywhere, also inside operations.
func (k *Kind[V, M]) Get(key Key) (v V, m M, ok bool) { return v, m, false }

// All yields everything of the kind that is in place, in no order.
func (k *Kind[V, M]) All() iter.Seq2[Key, V] { return func(func(Key, V) bool) {} }
