package fleet_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/fleet"
	"github.com/plumb-net/plumb/plugins/fleet/record"
)

// modelHost is a host as package member makes one of an agent, with values in memory.
type modelHost struct {
	s     *store
	label string

	mu      sync.Mutex // guards what follows
	values  map[string]string
	kept    map[string]map[string]string // the values of the rollouts that were kept and not undone
	trial   record.Outcome               // with the changes that go back unless they are kept
	items   map[string]string            // of the trial
	poison  bool                         // the next try fails
	silent  bool                         // no request is answered
	onAsked func(record.Request)
	polls   int
}

func (h *modelHost) run(ctx context.Context) {
	last := ""
	for ctx.Err() == nil {
		key := record.Root + h.label + "/" + record.RequestKey
		got, err := h.s.Get(ctx, key)
		var r record.Request
		text := string(got[key])
		h.mu.Lock()
		if err == nil && text != last && text != "" && !h.silent && json.Unmarshal([]byte(text), &r) == nil {
			if h.onAsked != nil {
				h.onAsked(r)
			}
			h.do(r)
		}
		if err == nil {
			last = text
			h.polls++
		}
		h.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func (h *modelHost) do(r record.Request) {
	known := h.trial.Rollout == r.Rollout && h.trial.Attempt == r.Attempt
	waits := h.trial.Phase == record.Healthy
	switch {
	case r.Phase == record.Try && waits && h.trial.Rollout == r.Rollout:
		h.takeBack()
		h.try(r)
	case (r.Phase == record.Try || r.Phase == record.Restore) && waits, (r.Phase == record.Keep || r.Phase == record.Abort) && !known:
		h.tell(record.Outcome{Rollout: r.Rollout, Attempt: r.Attempt, Phase: record.Refused, Reason: "it is at another rollout"})
	case r.Phase == record.Try:
		h.try(r)
	case r.Phase == record.Keep && waits:
		h.trial.Phase = record.Kept
		h.kept[r.Rollout] = h.items
		h.tell(h.trial)
	case r.Phase == record.Abort && waits:
		h.takeBack()
	case r.Phase == record.Restore:
		for _, c := range r.Changes {
			if k := strings.TrimPrefix(c.Key, "config/"); h.values[k] == string(c.After) {
				h.set(k, string(c.Before))
			}
		}
		delete(h.kept, r.Rollout)
		h.trial = record.Outcome{Rollout: r.Rollout, Attempt: r.Attempt, Phase: record.Restored}
		h.tell(h.trial)
	}
}

func (h *modelHost) try(r record.Request) {
	h.trial, h.items = record.Outcome{Rollout: r.Rollout, Attempt: r.Attempt, Phase: record.Healthy}, map[string]string{}
	for _, i := range r.Items {
		h.items[i.Key] = string(i.Value)
		if was := h.values[i.Key]; was != string(i.Value) {
			h.trial.Changes = append(h.trial.Changes, record.Change{Key: "config/" + i.Key, Before: []byte(was), After: i.Value})
			h.set(i.Key, string(i.Value))
		}
	}
	if h.poison {
		h.poison = false
		h.takeBack()
		return
	}
	h.tell(h.trial)
}

func (h *modelHost) takeBack() {
	for _, c := range h.trial.Changes {
		h.set(strings.TrimPrefix(c.Key, "config/"), string(c.Before))
	}
	h.trial.Phase, h.trial.Reason = record.Reverted, "it is taken back"
	h.tell(h.trial)
}

func (h *modelHost) set(key, value string) {
	if h.values[key] = value; value == "" {
		delete(h.values, key)
	}
}

func (h *modelHost) tell(o record.Outcome) { h.s.put(h.label+"/"+record.OutcomeKey, o) }

// expire ends what nobody confirms any more, once no request is there.
func (h *modelHost) expire(ctx context.Context) {
	h.mu.Lock()
	from := h.polls
	h.mu.Unlock()
	for ctx.Err() == nil {
		h.mu.Lock()
		if h.polls > from+1 {
			break
		}
		h.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
	if h.trial.Phase == record.Healthy {
		h.takeBack()
	}
	h.mu.Unlock()
}

// check compares the values with those of the last rollout that is kept, for each key.
func (h *modelHost) check() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	want := map[string]string{}
	for _, id := range slices.Sorted(maps.Keys(h.kept)) {
		maps.Copy(want, h.kept[id])
	}
	if !maps.Equal(want, h.values) {
		return fmt.Errorf("%s has %v, want %v; kept are %v", h.label, h.values, want, h.kept)
	}
	return nil
}

var (
	overlaps    = flag.Int("overlaps", 12, "steps of TestOverlappingRollouts")
	overlapSeed = flag.Uint64("overlap-seed", 1, "seed of TestOverlappingRollouts")
)

// TestOverlappingRollouts: rollouts with the same keys are started, resumed and undone at
// random; some hosts fail, and some operators are killed. Each host has the values of the last
// rollout that is kept, whatever came in between.
func TestOverlappingRollouts(t *testing.T) {
	s := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	hosts := map[string]*modelHost{}
	for _, l := range []string{"a", "b", "c"} {
		h := &modelHost{s: s, label: l, values: map[string]string{}, kept: map[string]map[string]string{}}
		hosts[l] = h
		running.Go(func() { h.run(ctx) })
	}
	var refused, killed, resumed, undone, done int
	var story []string
	{
		t.Logf("seed %d", *overlapSeed)
		rng := rand.New(rand.NewPCG(*overlapSeed, 15))
		for step := range *overlaps {
			f := fleet.OpenQuick(t, s.url)
			all, err := f.Rollouts(ctx)
			if err != nil {
				t.Fatal(err)
			}
			kill := -1
			if rng.IntN(4) == 0 {
				kill = rng.IntN(4)
			}
			var mu sync.Mutex // guards kill
			for _, h := range hosts {
				h.mu.Lock()
				h.poison = rng.IntN(8) == 0
				h.onAsked = func(record.Request) {
					mu.Lock()
					defer mu.Unlock()
					if kill--; kill == -1 {
						f.Close()
					}
				}
				if kill < 0 {
					h.onAsked = nil
				}
				h.mu.Unlock()
			}
			r, what := (*fleet.Rollout)(nil), "start"
			if len(all) > 0 && rng.IntN(5) > 1 {
				r, what = all[rng.IntN(len(all))], "undo"
				if n := len(all) - 1; rng.IntN(3) == 0 && all[n].State == fleet.Halted {
					r = all[n]
				}
				if r.State != fleet.Done && rng.IntN(3) > 0 {
					what = "resume"
				}
			}
			if r != nil && r.State == fleet.Undone {
				f.Close()
				continue
			}
			switch what {
			case "start":
				r = &fleet.Rollout{ID: f.NewID(), By: "amy", Seconds: 60}
				items := map[string][]record.Item{}
				for _, l := range []string{"a", "b", "c"} {
					for _, k := range []string{"interface/x", "interface/y"} {
						if rng.IntN(2) == 0 {
							items[l] = append(items[l], record.Item{Key: k, Value: fmt.Append(nil, 1+rng.IntN(2))})
						}
					}
					if len(items[l]) > 0 {
						r.Waves = append(r.Waves, []string{l})
					}
				}
				if len(r.Waves) == 3 && rng.IntN(2) == 0 {
					r.Waves = [][]string{r.Waves[0], {r.Waves[1][0], r.Waves[2][0]}}
				}
				err = f.Start(ctx, r, items, func(string) {})
			case "resume":
				err = f.Resume(ctx, r, "bob", func(string) {})
			case "undo":
				err = f.Undo(ctx, r, "bob", func(string) {})
			}
			f.Close()
			story = append(story, fmt.Sprintf("%d/%d %s %s (kill %d): %s %s %v", *overlapSeed, step, what, r.ID, kill, r.State, r.Reason, err))
			switch {
			case errors.Is(err, fleet.ErrLater):
				refused++
				if r.ID == all[len(all)-1].ID {
					t.Errorf("the last rollout is refused: %v", err)
				}
			case err != nil:
				killed++
			case what == "resume" && r.State == fleet.Done:
				resumed++
			case r.State == fleet.Done:
				done++
			case r.State == fleet.Undone:
				undone++
				for _, h := range hosts {
					h.mu.Lock()
					delete(h.kept, r.ID) // also where nothing had to be written
					h.mu.Unlock()
				}
			}
			// What the operator held goes with his lease.
			forget := []string{"/plumb-fleet/lock"}
			for l := range hosts {
				forget = append(forget, record.Root+l+"/"+record.RequestKey)
			}
			if err := s.Delete(ctx, forget...); err != nil {
				t.Fatal(err)
			}
			for _, h := range hosts {
				h.expire(ctx)
				if err := h.check(); err != nil {
					t.Fatalf("%v\n%s", err, strings.Join(story, "\n"))
				}
			}
		}
	}
	t.Logf("done %d, undone %d, resumed %d, refused %d, killed %d", done, undone, resumed, refused, killed)
	if *overlaps >= 30 && (done < 3 || undone < 2 || resumed < 1 || refused < 2 || killed < 1) {
		t.Errorf("done %d, undone %d, resumed %d, refused %d, killed %d: the test shows little", done, undone, resumed, refused, killed)
	}
}

// TestLaterRolloutIsNamed: an undo that would write over what a later rollout has written is
// refused and names that one; when the later one is undone, it is possible.
func TestLaterRolloutIsNamed(t *testing.T) {
	s := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	h := &modelHost{s: s, label: "a", values: map[string]string{}, kept: map[string]map[string]string{}}
	running.Go(func() { h.run(ctx) })
	f := fleet.OpenQuick(t, s.url)
	defer f.Close()
	var all []*fleet.Rollout
	for _, value := range []string{"1", "2"} {
		r := &fleet.Rollout{ID: "20260101-000000.000", By: "amy", Seconds: 60, Waves: [][]string{{"a"}}}
		if err := f.Start(ctx, r, map[string][]record.Item{"a": {{Key: "interface/x", Value: []byte(value)}}}, func(string) {}); err != nil || r.State != fleet.Done {
			t.Fatal(r, err)
		}
		all = append(all, r)
	}
	if all[0].ID >= all[1].ID {
		t.Errorf("the later rollout is called %s, the earlier %s", all[1].ID, all[0].ID)
	}
	err := f.Undo(ctx, all[0], "amy", func(string) {})
	want := "rollout " + all[1].ID + " has changed interface/x on a; undo " + all[1].ID + " first"
	if !errors.Is(err, fleet.ErrLater) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want …%s", err, want)
	}
	for _, r := range []*fleet.Rollout{all[1], all[0]} {
		if err := f.Undo(ctx, r, "amy", func(string) {}); err != nil || r.State != fleet.Undone {
			t.Error(r, err)
		}
	}
	if len(h.values) > 0 {
		t.Error(h.values)
	}
}

// TestSilentHost: a rollout does not wait for a host that gives no answer beyond the time to
// confirm.
func TestSilentHost(t *testing.T) {
	s := start(t)
	f := s.open()
	r := &fleet.Rollout{ID: f.NewID(), By: "amy", Seconds: 1, Waves: [][]string{{"a"}}}
	err := f.Start(t.Context(), r, map[string][]record.Item{"a": {{Key: "interface/x", Value: []byte("1")}}}, func(string) {})
	if err != nil || r.State != fleet.Halted || r.Reason != "1 hosts did not answer within 2s" {
		t.Error(r, err)
	}
	states(t, f, r, "a=silent")
}
