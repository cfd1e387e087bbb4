package member_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/confirm"
	"github.com/plumb-net/plumb/plugins/fleet/member"
	"github.com/plumb-net/plumb/plugins/fleet/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store is the agent's etcd in memory.
type store struct {
	mu       sync.Mutex
	kvs      map[string]models.Stored
	revision int64
	behind   bool
	lost     bool // the label
	told     map[string]int
	asked    chan struct{}
}

var errLost = errors.New("the label is lost")

func (s *store) put(key, value string) {
	s.mu.Lock()
	s.revision++
	s.kvs[key] = models.Stored{Key: key, Value: []byte(value), Revision: s.revision}
	s.mu.Unlock()
	if strings.HasPrefix(key, record.ForAgent) {
		s.ring()
	}
}

func (s *store) drop(key string) {
	s.mu.Lock()
	delete(s.kvs, key)
	s.mu.Unlock()
	s.ring()
}

func (s *store) ring() {
	select {
	case s.asked <- struct{}{}:
	default:
	}
}

func (s *store) lose(lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = lost
}

func (s *store) get(key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.kvs[key].Value)
}

func (s *store) writes(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told[key]
}

func (s *store) Get(_ context.Context, key string) (models.Stored, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kv, ok := s.kvs[key]
	return kv, ok, nil
}

func (s *store) List(_ context.Context, prefix string) (out []models.Stored, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, kv := range s.kvs {
		if strings.HasPrefix(k, prefix) {
			out = append(out, kv)
		}
	}
	slices.SortFunc(out, func(a, b models.Stored) int { return strings.Compare(a.Key, b.Key) })
	return out, nil
}

func (s *store) Write(_ context.Context, writes []models.Write) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range writes {
		if w.If != nil && *w.If != s.kvs[w.Key].Revision {
			return 0, models.ErrStoreConflict
		}
	}
	s.revision++
	for _, w := range writes {
		if delete(s.kvs, w.Key); w.Value != nil {
			s.kvs[w.Key] = models.Stored{Key: w.Key, Value: w.Value, Revision: s.revision}
		}
	}
	return s.revision, nil
}

// Reached blocks while the agent has not seen what the store holds.
func (s *store) Reached(ctx context.Context, _ int64) error {
	for {
		s.mu.Lock()
		behind := s.behind
		s.mu.Unlock()
		if !behind || ctx.Err() != nil {
			return ctx.Err()
		}
		time.Sleep(time.Second / 10)
	}
}

func (s *store) lag(behind bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behind = behind
}

func (*store) Override([]models.Override) {}
func (*store) Me(context.Context) (record.Presence, error) {
	return record.Presence{UUID: "u", Labels: map[string]string{"role": "web"}}, nil
}
func (s *store) Asked() <-chan struct{} { return s.asked }

func (s *store) Tell(_ context.Context, key string, value []byte, _ int64) error {
	s.mu.Lock()
	lost := s.lost
	s.mu.Unlock()
	if lost {
		return errLost
	}
	s.mu.Lock()
	s.told[key]++
	s.mu.Unlock()
	s.put(key, string(value))
	return nil
}

// agent is the API, and what it does to the store.
type agent struct {
	*store
	confirms *confirm.Confirmer

	mu     sync.Mutex
	status *apiv1.AgentStatusResponse
	keys   []*apiv1.KeyStatus // what Wait tells
	asking int
	most   int           // questions at the same time
	hold   chan struct{} // questions wait for it
}

func (a *agent) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

func (a *agent) AgentStatus(context.Context, *apiv1.AgentStatusRequest) (*apiv1.AgentStatusResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status, nil
}

func (a *agent) Apply(ctx context.Context, r *apiv1.ApplyRequest) (*apiv1.ApplyResponse, error) {
	p := confirm.Pending{Name: "apply-1", By: ctx.Value(byKey{}).(string), Message: r.Message, Began: time.Now(), Deadline: time.Now().Add(r.Confirm.AsDuration()), Probes: r.Probes}
	var writes []models.Write
	for _, i := range r.Items {
		was, there, _ := a.Get(ctx, "config/"+i.Key)
		if there && string(was.Value) == i.Text {
			continue
		}
		p.Changes = append(p.Changes, confirm.Change{Key: "config/" + i.Key, Before: was.Value, After: []byte(i.Text)})
		writes = append(writes, models.Write{Key: "config/" + i.Key, Value: []byte(i.Text)})
	}
	had, _ := a.List(ctx, "config/")
	for _, kv := range had { // of the one set that there is
		if r.Prune && !slices.ContainsFunc(r.Items, func(i *apiv1.Item) bool { return "config/"+i.Key == kv.Key }) {
			p.Changes = append(p.Changes, confirm.Change{Key: kv.Key, Before: kv.Value})
			writes = append(writes, models.Write{Key: kv.Key})
		}
	}
	if len(writes) == 0 {
		return &apiv1.ApplyResponse{Outcome: "unchanged"}, nil
	}
	t, err := a.confirms.Begin(p)
	if err != nil {
		return nil, err
	}
	revision, err := a.Write(ctx, writes)
	t.Written(revision)
	return &apiv1.ApplyResponse{Outcome: "written", Revision: revision, Confirm: &apiv1.Confirmation{Name: p.Name}}, err
}

// Wait refuses, like the API, what is no key of intent.
func (a *agent) Wait(_ context.Context, r *apiv1.WaitRequest) (*apiv1.WaitResponse, error) {
	for _, key := range r.Keys {
		kind, _, _ := strings.Cut(key, "/")
		if _, err := models.KindByName(kind); err != nil {
			return nil, err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return &apiv1.WaitResponse{Outcome: "met", Keys: a.keys}, nil
}

func (a *agent) Why(_ context.Context, r *apiv1.WhyRequest) (*apiv1.Cause, error) {
	a.set(func() { a.asking++; a.most = max(a.most, a.asking) })
	<-a.hold
	a.set(func() { a.asking-- })
	return &apiv1.Cause{Text: "because " + r.Key}, nil
}

func (a *agent) Diff(context.Context, *apiv1.DiffRequest) (*apiv1.DiffResponse, error) {
	return &apiv1.DiffResponse{Outcome: strings.Repeat("x", record.MaxAnswer)}, nil
}

func (a *agent) History(_ context.Context, r *apiv1.HistoryRequest) (*apiv1.HistoryResponse, error) {
	return &apiv1.HistoryResponse{Records: []*apiv1.Record{{Seq: uint64(r.Limit)}}}, nil
}

type byKey struct{}

// host is an agent as a member, that runs in synctest's bubble.
type host struct {
	*agent
	t    *testing.T
	dir  string
	stop func()
}

func newHost(t *testing.T) *host {
	s := &store{kvs: map[string]models.Stored{}, told: map[string]int{}, asked: make(chan struct{}, 1)}
	h := &host{t: t, dir: t.TempDir(), agent: &agent{store: s, status: &apiv1.AgentStatusResponse{State: "ready"}, hold: make(chan struct{})}}
	h.put("config/interface/a", "1")
	h.keys = []*apiv1.KeyStatus{{Key: "interface/a", State: "configured"}}
	h.start()
	return h
}

func (h *host) start() {
	h.confirms = confirm.Open(h.dir, confirm.Options{
		Store: h.store, Settled: func(context.Context, []string) error { return nil }, Probe: func(context.Context, string) error { return errors.New("no answer") },
	})
	m := member.New(member.Options{
		Store: h.store, API: h.agent, Confirms: h.confirms, Moved: func() uint64 { return 0 }, Log: slog.New(slog.DiscardHandler),
		As: func(ctx context.Context, by string) context.Context { return context.WithValue(ctx, byKey{}, by) },
	})
	ctx, cancel := context.WithCancel(h.t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = h.confirms.Run(ctx) })
	running.Go(func() { _ = m.Run(ctx) })
	h.stop = func() { cancel(); running.Wait() }
	h.t.Cleanup(func() { h.stop() })
	synctest.Wait()
}

// ask makes a request of the rollout r, on the key a with the value 2.
func (h *host) ask(attempt int, phase string, change func(*record.Request)) {
	h.t.Helper()
	r := record.Request{Rollout: "r", Attempt: attempt, Phase: phase, By: "amy", Seconds: 60}
	switch phase {
	case record.Try:
		r.Items = []record.Item{{Key: "interface/a", Value: []byte("2")}}
	case record.Restore:
		r.Changes = []record.Change{{Key: "config/interface/a", Before: []byte("1"), After: []byte("2")}}
	}
	if change != nil {
		change(&r)
	}
	text, _ := json.Marshal(r)
	h.put(record.RequestKey, string(text))
	synctest.Wait()
}

// is checks the outcome and the value: "1 healthy 2" or "1 reverted 1: why".
func (h *host) is(want string) {
	h.t.Helper()
	synctest.Wait()
	var o record.Outcome
	_ = json.Unmarshal([]byte(h.get(record.OutcomeKey)), &o)
	got := fmt.Sprintf("%d %s %s", o.Attempt, o.Phase, h.get("config/interface/a"))
	for _, text := range append([]string{o.Reason}, o.Notes...) {
		if text != "" {
			got += ": " + text
		}
	}
	if got != want {
		h.t.Errorf("%s, want %s", got, want)
	}
}

// bubble runs a test in which time stands until all wait.
func bubble(t *testing.T, name string, do func(h *host)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			do(newHost(t))
		})
	})
}

func TestRequests(t *testing.T) {
	bubble(t, "kept", func(h *host) {
		h.ask(1, record.Try, nil)
		h.is("1 healthy 2")
		h.ask(1, record.Keep, nil)
		h.is("1 kept 2")
		time.Sleep(time.Hour)
		h.is("1 kept 2")
		h.ask(2, record.Restore, nil)
		h.is("2 restored 1")
		h.ask(3, record.Restore, nil) // once more is no harm
		h.is("3 restored 1")
	})
	bubble(t, "not seen yet", func(h *host) {
		h.lag(true)
		h.ask(1, record.Try, nil)
		time.Sleep(5 * time.Second)
		h.is("1 trying 2")
		h.lag(false)
		time.Sleep(time.Second)
		h.is("1 healthy 2")
		h.ask(1, record.Keep, nil)
		h.lag(true)
		h.ask(2, record.Restore, nil)
		time.Sleep(5 * time.Second)
		h.is("1 kept 1")
		h.lag(false)
		time.Sleep(time.Second)
		h.is("2 restored 1")
	})
	bubble(t, "aborted", func(h *host) {
		h.ask(1, record.Try, nil)
		h.ask(1, record.Abort, nil)
		h.is("1 reverted 1: amy aborted it")
	})
	bubble(t, "nobody says that it stays", func(h *host) {
		h.ask(1, record.Try, nil)
		h.drop(record.RequestKey) // he who asked is gone
		time.Sleep(59 * time.Second)
		h.is("1 healthy 2")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if out := h.get(record.OutcomeKey); !strings.Contains(out, `"phase":"reverted"`) || !strings.Contains(out, "nobody confirmed it") || h.get("config/interface/a") != "1" {
			h.t.Error(out)
		}
	})
	bubble(t, "not healthy", func(h *host) {
		h.set(func() { h.keys = []*apiv1.KeyStatus{{Key: "interface/a", State: "failed", Reason: "taken"}} })
		h.ask(1, record.Try, nil)
		h.is("1 reverted 1: interface/a is failed: taken")
	})
	bubble(t, "pending", func(h *host) {
		h.set(func() { h.keys = []*apiv1.KeyStatus{{Key: "interface/a", State: "pending", Reason: "no container"}} })
		h.ask(1, record.Try, nil)
		h.is("1 reverted 1: interface/a is pending: no container")
		h.ask(2, record.Try, func(r *record.Request) { r.PendingOK = true })
		h.is("2 healthy 2")
	})
	bubble(t, "a probe fails where nothing has to be written", func(h *host) {
		h.put("config/interface/a", "2")
		h.ask(1, record.Try, func(r *record.Request) { r.Probes = []string{"ping:self:10.0.0.1"} })
		time.Sleep(5 * time.Second)
		h.is("1 reverted 2: the probe ping:self:10.0.0.1 failed 3 times: no answer")
	})
	bubble(t, "a probe fails", func(h *host) {
		h.ask(1, record.Try, func(r *record.Request) { r.Probes = []string{"ping:self:10.0.0.1"} })
		h.is("1 trying 2")
		time.Sleep(3 * time.Second)
		h.is("1 reverted 1: the probe ping:self:10.0.0.1 failed 3 times: no answer")
	})
	bubble(t, "nothing to change", func(h *host) {
		h.ask(1, record.Try, func(r *record.Request) { r.Items[0].Value = []byte("1") })
		h.is("1 healthy 1")
		h.ask(1, record.Keep, nil)
		h.is("1 kept 1")
	})
	bubble(t, "what is to go", func(h *host) {
		prune := func(r *record.Request) {
			r.Set, r.Prune, r.Items[0].Key = "site", true, "interface/b"
		}
		h.set(func() {
			h.keys = []*apiv1.KeyStatus{{Key: "interface/b", State: "configured"}, {Key: "interface/a", State: "paused", Reason: "held back"}}
		})
		h.ask(1, record.Try, prune)
		h.is("1 reverted 1: interface/a is paused: held back")
		h.set(func() { h.keys[1].State = "absent" })
		h.ask(2, record.Try, prune)
		h.ask(2, record.Keep, nil)
		h.is("2 kept ")
	})
	bubble(t, "refused", func(h *host) {
		h.ask(1, record.Try, func(r *record.Request) { r.Probes = []string{"exec:reboot"} })
		h.is("1 refused 1: probes that run a command do not come through etcd")
		h.set(func() {
			h.status = &apiv1.AgentStatusResponse{State: "ready", Frozen: true, Freeze: &apiv1.Freeze{Message: "moving racks"}}
		})
		h.ask(2, record.Try, nil)
		h.is("2 refused 1: this host is frozen: moving racks")
		h.ask(7, record.Keep, nil)
		h.is("7 refused 1: this host knows nothing of it")
		h.ask(8, "dance", nil)
		h.is(`8 refused 1: this agent knows no phase "dance"`)
		h.ask(9, record.Restore, func(r *record.Request) { r.Changes[0].Key = "store" })
		h.is(`9 refused 1: "store" is no key of intent`)
	})
	bubble(t, "somebody else's value stays", func(h *host) {
		h.ask(1, record.Try, nil)
		h.ask(1, record.Keep, nil)
		h.put("config/interface/a", "3")
		h.ask(2, record.Restore, nil)
		h.is("2 restored 3: interface/a was changed by somebody else meanwhile and stays")
	})
	bubble(t, "what was written together is brought back as well", func(h *host) {
		h.ask(1, record.Try, nil)
		h.ask(1, record.Keep, nil)
		h.put("applyset/site", "[a]")
		h.ask(2, record.Restore, func(r *record.Request) {
			r.Changes = append(r.Changes, record.Change{Key: "applyset/site", After: []byte("[a]")})
		})
		h.is("2 restored 1")
		if set := h.get("applyset/site"); set != "" {
			h.t.Error(set)
		}
	})
	bubble(t, "what is to go again stays", func(h *host) {
		h.ask(1, record.Try, nil)
		h.ask(1, record.Keep, nil)
		h.set(func() {
			h.keys = []*apiv1.KeyStatus{{Key: "interface/a", State: "retrying", Reason: "delete: device busy"}}
		})
		gone := func(r *record.Request) { r.Changes[0].Before = nil }
		h.ask(2, record.Restore, gone)
		h.is("2 restored : interface/a is retrying: delete: device busy")
		h.put("config/interface/a", "2")
		h.set(func() { h.keys[0].State, h.keys[0].Reason = "removed", "" })
		h.ask(3, record.Restore, gone)
		h.is("3 restored ")
	})
	bubble(t, "another rollout comes", func(h *host) {
		h.ask(1, record.Try, nil)
		h.ask(1, record.Try, func(r *record.Request) { r.Rollout = "other" })
		h.is("1 refused 2: this host is at rollout r")
		h.ask(1, record.Keep, nil) // of the first one
		h.is("1 kept 2")
	})
	bubble(t, "a newer try of the same", func(h *host) {
		h.ask(1, record.Try, nil)
		h.ask(2, record.Try, nil)
		h.is("2 healthy 2")
		h.ask(2, record.Abort, nil)
		h.is("2 reverted 1: amy aborted it")
	})
	bubble(t, "asked while the store was away", func(h *host) {
		h.lose(true)
		h.ask(1, record.Try, nil)
		h.drop(record.RequestKey)
		h.lose(false)
		time.Sleep(2 * time.Second)
		h.is("1 refused 1: nobody asks for it any more")
	})
}

// TestRestart: an agent that starts anew goes on where it was, and knows what came of what
// waited while it was away.
func TestRestart(t *testing.T) {
	bubble(t, "it still waits", func(h *host) {
		h.ask(1, record.Try, nil)
		h.stop()
		h.start()
		h.is("1 healthy 2")
		h.ask(1, record.Keep, nil)
		h.is("1 kept 2")
	})
	bubble(t, "too late", func(h *host) {
		h.ask(1, record.Try, nil)
		h.stop()
		time.Sleep(time.Hour)
		h.start()
		synctest.Wait()
		if out := h.get(record.OutcomeKey); !strings.Contains(out, `"phase":"reverted"`) || h.get("config/interface/a") != "1" {
			h.t.Error(out)
		}
	})
	bubble(t, "confirmed, and not told", func(h *host) {
		h.ask(1, record.Try, nil)
		h.stop()
		trial, err := h.confirms.Find("")
		if err == nil {
			err = trial.Confirm()
		}
		if err != nil {
			h.t.Fatal(err)
		}
		h.start()
		h.is("1 kept 2")
	})
}

// TestQuestions: few at a time, bounded, and none twice.
func TestQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		ask := func(id, call, request string) {
			text, _ := json.Marshal(record.Question{Lease: 7, By: "amy", Call: call, Request: json.RawMessage(request)})
			h.put(record.AskPrefix+id, string(text))
		}
		answer := func(id string) string { synctest.Wait(); return h.get(record.AnswerPrefix + id) }
		for i := range 10 {
			ask(fmt.Sprint(i), "why", `{"key":"interface/a"}`)
		}
		synctest.Wait()
		for range 10 {
			h.hold <- struct{}{}
		}
		for i := range 10 {
			if got := answer(fmt.Sprint(i)); !strings.Contains(got, `"text":"because interface/a"`) {
				t.Errorf("%d: %s", i, got)
			}
		}
		if h.most != 4 {
			t.Errorf("%d questions at the same time", h.most)
		}
		h.ring() // it is looked again, and nothing is answered anew
		synctest.Wait()
		if n := h.writes(record.AnswerPrefix + "3"); n != 1 {
			t.Errorf("answered %d times", n)
		}
		for id, want := range map[string]string{
			"diff {}":             "at most 524288 go through etcd",
			`history {"limit":0}`: `"seq":100`,
			"get {}":              `does not answer \"get\" through etcd`,
			`why {"key":1}`:       "the question cannot be read",
		} {
			call, request, _ := strings.Cut(id, " ")
			ask(call, call, request)
			if got := answer(call); !strings.Contains(got, want) {
				t.Errorf("%s: %.300s, want %s", id, got, want)
			}
		}
	})
}

// TestSummary: it is told when it changes, at most every ten seconds, now and then in any case,
// and at the end.
func TestSummary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		summary := func() (s record.Summary) {
			synctest.Wait()
			_ = json.Unmarshal([]byte(h.get(record.SummaryKey)), &s)
			return s
		}
		if s := summary(); s.State != "ready" || s.UUID != "u" || s.Labels["role"] != "web" {
			t.Errorf("%+v", s)
		}
		time.Sleep(time.Hour)
		if n := h.writes(record.SummaryKey); n < 10 || n > 13 {
			t.Errorf("%d summaries in an hour in which nothing moved", n)
		}
		h.set(func() {
			h.status = &apiv1.AgentStatusResponse{State: "not ready", Reasons: []string{"docker is down", "b", "c", "d"}, Keys: []*apiv1.StateCount{{State: "failed", Count: 2}}}
		})
		time.Sleep(2 * time.Minute)
		if s := summary(); s.State != "not ready" || fmt.Sprint(s.Reasons) != "[docker is down b c and 1 more]" || s.Keys["failed"] != 2 || s.Stopped {
			t.Errorf("%+v", s)
		}
		h.stop()
		if s := summary(); !s.Stopped || s.Keys["failed"] != 2 {
			t.Errorf("%+v", s)
		}
	})
}
