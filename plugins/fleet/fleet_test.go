package fleet_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/plumb-net/plumb/plugins/etcd/dial"
	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
	"github.com/plumb-net/plumb/plugins/fleet"
	"github.com/plumb-net/plumb/plugins/fleet/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store is an etcd, and an agents' way to it.
type store struct {
	*dial.Client
	t   *testing.T
	url string
}

func start(t *testing.T) *store {
	t.Helper()
	url := etcdtest.Start(t).URL()
	c, err := dial.Connect(t.Context(), dial.Config{Endpoints: []string{url}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &store{c, t, url}
}

func (s *store) open() *fleet.Fleet {
	s.t.Helper()
	f, err := fleet.Open(s.t.Context(), dial.Config{Endpoints: []string{s.url}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(f.Close)
	return f
}

func (s *store) put(key string, value any) {
	s.t.Helper()
	text, err := json.Marshal(value)
	if err == nil {
		err = s.Put(s.t.Context(), []dial.KV{{Key: record.Root + key, Value: text}}, nil)
	}
	if err != nil && s.t.Context().Err() == nil {
		s.t.Error(err)
	}
}

func TestAgents(t *testing.T) {
	s := start(t)
	f := s.open()
	then := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f.Now = func() time.Time { return then.Add(time.Hour) }
	who := func(uuid, run string) record.Presence {
		return record.Presence{UUID: uuid, Incarnation: run, Host: "h" + uuid, Version: "1.2", Labels: map[string]string{"role": "web"}}
	}
	summary := func(p record.Presence, stopped bool) record.Summary {
		return record.Summary{Presence: p, State: "ready", Keys: map[string]int{"configured": 2}, Stopped: stopped, Time: then}
	}
	s.put("alive/agent", who("1", "a"))
	s.put("alive/summary", summary(who("1", "a"), false))
	s.put("alive/converged", record.Converged{Revision: 42, Time: then})
	s.put("again/agent", who("2", "b")) // started anew, and has not told how it is
	s.put("again/summary", summary(who("2", "a"), false))
	s.put("dead/summary", summary(who("3", "a"), false))
	s.put("dead-young/converged", record.Converged{Revision: 7, Time: then})
	s.put("stopped/summary", summary(who("4", "a"), true))
	s.put("twice/agent", who("5", "a"))
	s.put("twice/duplicate", record.Duplicate{Presence: who("6", "a"), Time: then})
	s.put("clone-1/agent", who("7", "a"))
	s.put("clone-2/agent", who("7", "b"))
	s.put("typo/config/interface/a", 1)
	s.put("no-label", 1)
	agents, err := f.Agents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range agents {
		got = append(got, fmt.Sprintf("%s %s %q health=%s converged=%d keys=%d seen=%s", a.Label, a.State, a.Reason, a.Health, a.Converged, a.Keys["configured"], a.Seen.Format(time.TimeOnly)))
	}
	want := []string{
		`again alive "" health= converged=0 keys=2 seen=04:04:05`,
		`alive alive "" health=ready converged=42 keys=2 seen=04:04:05`,
		`clone-1 duplicate "its state directory is a copy of that of clone-2" health= converged=0 keys=0 seen=04:04:05`,
		`clone-2 duplicate "its state directory is a copy of that of clone-1" health= converged=0 keys=0 seen=04:04:05`,
		`dead dead "" health=ready converged=0 keys=2 seen=03:04:05`,
		`dead-young dead "" health= converged=7 keys=0 seen=03:04:05`,
		`stopped stopped "" health=ready converged=0 keys=2 seen=03:04:05`,
		`twice duplicate "an agent on h6 (process 0) wanted the label at 03:04:05" health= converged=0 keys=0 seen=04:04:05`,
		`typo none "" health= converged=0 keys=0 seen=00:00:00`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// host is an agent that does what a rollout asks; answer says what comes of each phase, "" for
// no answer.
func (s *store) host(ctx context.Context, label string, answer func(record.Request) string) {
	last := ""
	for ctx.Err() == nil {
		got, err := s.Get(ctx, record.Root+label+"/"+record.RequestKey)
		text := string(got[record.Root+label+"/"+record.RequestKey])
		var r record.Request
		if err == nil && text != last && text != "" && json.Unmarshal([]byte(text), &r) == nil {
			if phase := answer(r); phase != "" {
				s.put(label+"/"+record.OutcomeKey, record.Outcome{Rollout: r.Rollout, Attempt: r.Attempt, Phase: phase, Reason: map[string]string{record.Reverted: "it is poisoned"}[phase],
					Changes: []record.Change{{Key: "config/interface/a", After: []byte("1")}}})
			}
		}
		last = text
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// fine is an agent to which everything is right.
func fine(r record.Request) string {
	return map[string]string{record.Try: record.Healthy, record.Keep: record.Kept, record.Abort: record.Reverted, record.Restore: record.Restored}[r.Phase]
}

// TestRollout: a wave is kept when all of it is healthy; else it is taken back, nothing is
// asked of later ones, and it can be carried on and undone by others.
func TestRollout(t *testing.T) {
	s := start(t)
	f := s.open()
	var mu sync.Mutex
	poisoned, asked := true, map[string][]string{}
	bIsAsked := make(chan struct{})
	asksB := sync.OnceFunc(func() { close(bIsAsked) })
	var hosts sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer hosts.Wait()
	defer cancel()
	for _, label := range []string{"a", "b", "c", "d"} {
		hosts.Go(func() {
			s.host(ctx, label, func(r record.Request) string {
				switch label {
				case "b":
					asksB()
				case "c": // else b may be asked to abort before it has seen what to try
					select {
					case <-bIsAsked:
					case <-ctx.Done():
					}
				}
				mu.Lock()
				defer mu.Unlock()
				asked[label] = append(asked[label], r.Phase)
				if label == "c" && poisoned && r.Phase == record.Try {
					return record.Reverted
				}
				return fine(r)
			})
		})
	}
	items := map[string][]record.Item{}
	for _, l := range []string{"a", "b", "c", "d"} {
		items[l] = []record.Item{{Key: "interface/a", Value: []byte(`{"of":"` + l + `"}`)}}
	}
	var told []string
	tell := func(line string) { told = append(told, line) }
	r := &fleet.Rollout{ID: f.NewID(), By: "amy", Seconds: 60, Waves: [][]string{{"a"}, {"b", "c"}, {"d"}}}
	if err := f.Start(ctx, r, items, tell); err != nil {
		t.Fatal(err)
	}
	if r.State != fleet.Halted || r.Next != 1 || r.Reason != "c: it is poisoned" {
		t.Errorf("%+v\n%s", r, strings.Join(told, "\n"))
	}
	states(t, f, r, "a=kept b=reverted c=reverted d=waiting")
	mu.Lock()
	if got := fmt.Sprint(asked); got != "map[a:[try keep] b:[try abort] c:[try]]" {
		t.Error(got)
	}
	poisoned = false
	mu.Unlock()

	other := s.open() // of another machine
	r, err := other.Rollout(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Resume(ctx, r, "bob", tell); err != nil || r.State != fleet.Done {
		t.Errorf("%+v %v\n%s", r, err, strings.Join(told, "\n"))
	}
	states(t, f, r, "a=kept b=kept c=kept d=kept")
	if err := f.Undo(ctx, r, "amy", tell); err != nil || r.State != fleet.Undone {
		t.Errorf("%+v %v\n%s", r, err, strings.Join(told, "\n"))
	}
	states(t, f, r, "a=restored b=restored c=restored d=restored")
	if left, err := s.First(ctx, record.Root+"a/"+record.ForAgent, ""); err != nil || left != "" {
		t.Errorf("%s is left, %v", left, err)
	}
}

func states(t *testing.T, f *fleet.Fleet, r *fleet.Rollout, want string) {
	t.Helper()
	hosts, err := f.Hosts(t.Context(), r)
	var got []string
	for label, h := range hosts {
		got = append(got, label+"="+h.State)
	}
	slices.Sort(got)
	if err != nil || strings.Join(got, " ") != want {
		t.Errorf("%s, want %s; %v", got, want, err)
	}
}

// TestInterrupted: who is interrupted takes the wave back before he goes, and meanwhile nobody
// else carries a rollout out.
func TestInterrupted(t *testing.T) {
	s := start(t)
	f := s.open()
	var hosts sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer hosts.Wait()
	defer cancel()
	began := make(chan struct{})
	var once sync.Once
	hosts.Go(func() {
		s.host(ctx, "a", func(r record.Request) string {
			if r.Phase == record.Try {
				once.Do(func() { close(began) })
				return record.Trying
			}
			return fine(r)
		})
	})
	r := &fleet.Rollout{ID: f.NewID(), By: "amy", Seconds: 600, Waves: [][]string{{"a"}}}
	at, interrupt := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		done <- f.Start(at, r, map[string][]record.Item{"a": {{Key: "interface/a", Value: []byte("{}")}}}, func(string) {})
	}()
	<-began
	err := s.open().Start(ctx, &fleet.Rollout{ID: "other", Waves: [][]string{{"a"}}}, nil, func(string) {})
	if !errors.Is(err, fleet.ErrLocked) || !strings.Contains(err.Error(), "rollout "+r.ID+", by amy") {
		t.Error(err)
	}
	interrupt()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	kept, err := f.Rollout(ctx, r.ID)
	if err != nil || kept.State != fleet.Halted || kept.Reason != "it was interrupted" {
		t.Errorf("%+v %v", kept, err)
	}
	states(t, f, r, "a=reverted")
	if _, err := f.Rollout(ctx, "other"); !errors.Is(err, fleet.ErrNoRollout) {
		t.Error("what was refused is written down:", err)
	}
}

// TestAsk: an answer comes with what was asked, and both go.
func TestAsk(t *testing.T) {
	s := start(t)
	f := s.open()
	ctx := t.Context()
	var agents sync.WaitGroup
	defer agents.Wait()
	for _, label := range []string{"a", "b"} {
		agents.Go(func() {
			for ctx.Err() == nil {
				key, err := s.First(ctx, record.Root+label+"/"+record.AskPrefix, "")
				if err != nil || key == "" {
					time.Sleep(10 * time.Millisecond)
					continue
				}
				got, _ := s.Get(ctx, key)
				var q record.Question
				if json.Unmarshal(got[key], &q) != nil || q.Lease == 0 || q.Call != "why" || q.By != "amy" {
					t.Errorf("%s", got[key])
				}
				a := record.Answer{Response: json.RawMessage(`{"of":"` + label + `"}`)}
				if label == "b" {
					a = record.Answer{Error: "no such key"}
				}
				s.put(label+"/"+record.AnswerPrefix+key[strings.LastIndexByte(key, '/')+1:], a)
				return
			}
		})
	}
	replies, err := f.Ask(ctx, []string{"b", "a"}, "amy", "why", []byte(`{"key":"x"}`))
	if err != nil || len(replies) != 2 || replies[0].Err == nil || replies[0].Err.Error() != "no such key" || string(replies[1].Response) != `{"of":"a"}` {
		t.Error(replies, err)
	}
	if left, err := s.First(ctx, record.Root+"a/"+record.AskPrefix, ""); err != nil || left != "" {
		t.Errorf("%s is left, %v", left, err)
	}
}

func TestNoEtcd(t *testing.T) {
	f, err := fleet.Open(t.Context(), dial.Config{Endpoints: []string{"http://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Agents(t.Context()); err == nil || !strings.Contains(err.Error(), "no etcd answers at http://127.0.0.1:1: nothing listens there") {
		t.Error(err)
	}
	if _, err := fleet.Open(t.Context(), dial.Config{Endpoints: []string{"ftp://x"}}); err == nil {
		t.Error("a scheme that is none is taken")
	}
}
