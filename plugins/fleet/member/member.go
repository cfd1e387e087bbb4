// Package member is an agent as one of many: it keeps the store told how the agent is, does
// what rollouts ask of it, and answers questions that come through the store.
//
// It has no rights of its own. What it writes goes the way of the API's apply, with the
// policies of the agent; and every change of a rollout has to be confirmed (package confirm),
// so that the agent takes it back by itself if nobody says that it stays.
package member

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/confirm"
	"github.com/plumb-net/plumb/plugins/fleet/record"
)

// Store is the agent's etcd; keys are named without /plumb/<label>/.
type Store interface {
	confirm.Store
	List(ctx context.Context, prefix string) ([]models.Stored, error)
	// Me is who we are; it blocks until that is known.
	Me(ctx context.Context) (record.Presence, error)
	// Asked has a token when something below record.ForAgent may have changed.
	Asked() <-chan struct{}
	// Tell writes a key as long as the label is ours, with a lease if it is not 0.
	Tell(ctx context.Context, key string, value []byte, lease int64) error
}

// API is what the agent can be asked and told, in this process.
type API interface {
	AgentStatus(context.Context, *apiv1.AgentStatusRequest) (*apiv1.AgentStatusResponse, error)
	Apply(context.Context, *apiv1.ApplyRequest) (*apiv1.ApplyResponse, error)
	Wait(context.Context, *apiv1.WaitRequest) (*apiv1.WaitResponse, error)
	Why(context.Context, *apiv1.WhyRequest) (*apiv1.Cause, error)
	Diff(context.Context, *apiv1.DiffRequest) (*apiv1.DiffResponse, error)
	History(context.Context, *apiv1.HistoryRequest) (*apiv1.HistoryResponse, error)
}

// Options are what a Member works with.
type Options struct {
	Store    Store
	API      API
	Confirms *confirm.Confirmer
	// As is a context in which calls of the API are made by somebody.
	As func(ctx context.Context, by string) context.Context
	// Moved is a figure that changes when the state of a key may have.
	Moved func() uint64
	Log   *slog.Logger
}

// Member is the agent as one of many.
type Member struct {
	Options

	// handled is the revision of the last request that was taken up.
	handled int64
	// questions are those taken up, by key and revision, and asking counts those that run.
	questions map[string]int64
	asking    int
	answered  chan struct{}
	// again has a token when the request is to be looked at once more.
	again chan struct{}

	mu sync.Mutex // guards what follows
	// out is the last outcome, and attended whether something goes on about it.
	out      record.Outcome
	attended bool
}

// retryEvery is the pause after a failure of the store.
const retryEvery = time.Second

// New makes a Member.
func New(o Options) *Member {
	return &Member{Options: o, questions: map[string]int64{}, answered: make(chan struct{}, maxAsking), again: make(chan struct{}, 1)}
}

// Run works until ctx ends.
func (m *Member) Run(ctx context.Context) error {
	me, err := m.Store.Me(ctx)
	if err != nil {
		return nil // it ended before it had begun
	}
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(func() { m.summarize(ctx, me) })
	if !m.recall(ctx, &parts) {
		return nil
	}
	for {
		failed := m.look(ctx, &parts)
		var later <-chan time.Time
		if failed {
			later = time.After(retryEvery)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-m.Store.Asked():
		case <-m.answered:
			m.asking--
		case <-m.again:
		case <-later:
		}
	}
}

// recall reads what an earlier run has left behind, and goes on with it.
func (m *Member) recall(ctx context.Context, parts *sync.WaitGroup) bool {
	for {
		kv, found, err := m.Store.Get(ctx, record.OutcomeKey)
		if err == nil && found && json.Unmarshal(kv.Value, &m.out) != nil {
			m.out = record.Outcome{}
		}
		if err == nil {
			break
		}
		if !pause(ctx) {
			return false
		}
	}
	if m.out.Phase == record.Trying || m.out.Phase == record.Healthy {
		m.attended = true
		parts.Go(func() { m.resume(ctx, m.out) })
	}
	return true
}

// look takes up what is asked; it reports whether the store did not tell.
func (m *Member) look(ctx context.Context, parts *sync.WaitGroup) (failed bool) {
	list, err := m.Store.List(ctx, record.ForAgent)
	if err != nil {
		return true
	}
	open := map[string]int64{}
	for _, kv := range list {
		switch {
		case kv.Key == record.RequestKey:
			m.request(ctx, kv, parts)
		default:
			m.question(ctx, kv, open, parts)
		}
	}
	m.questions = open // those that are gone are forgotten
	return false
}

// tell notes an outcome and writes it.
func (m *Member) tell(ctx context.Context, out record.Outcome) error {
	m.mu.Lock()
	m.out = out
	m.mu.Unlock()
	return m.write(ctx, out)
}

// write keeps trying to write an outcome until ctx ends.
func (m *Member) write(ctx context.Context, out record.Outcome) error {
	out.Time = time.Now().UTC().Truncate(time.Millisecond)
	value, err := json.Marshal(out)
	if err != nil {
		return err
	}
	if len(value) > 2*record.MaxBytes {
		return errors.New("what it changes is too large to be written down")
	}
	for said := false; ; said = true {
		err := m.Store.Tell(ctx, record.OutcomeKey, value, 0)
		if err == nil {
			return nil
		}
		if !said && ctx.Err() == nil {
			m.Log.Warn("the outcome of a rollout cannot be told yet", "rollout", out.Rollout, "phase", out.Phase, "error", err)
		}
		if !pause(ctx) {
			return ctx.Err()
		}
	}
}

// lookAgain has the request looked at once more.
func (m *Member) lookAgain() {
	select {
	case m.again <- struct{}{}:
	default:
	}
}

// pause waits a little; it reports false if ctx has ended.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(retryEvery):
		return true
	}
}
