package member

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/fleet/record"
)

const (
	// summaryEvery is the least time between two summaries, summaryAtLeast the longest, so
	// that one can tell when an agent that has gone was last there.
	summaryEvery, summaryAtLeast = 10 * time.Second, 5 * time.Minute
	// lastSummary bounds the one that tells of the end.
	lastSummary = 300 * time.Millisecond
	// someReasons is how many reasons are told, and someText how much of each.
	someReasons, someText = 3, 200
)

// summarize keeps the summary in the store, until ctx ends; then it tells that.
func (m *Member) summarize(ctx context.Context, me record.Presence) {
	var told record.Summary
	for began := true; ; began = false {
		moved := m.Moved()
		now, err := m.summary(ctx, me)
		if err == nil && (began || differs(told, now) || now.Time.Sub(told.Time) >= summaryAtLeast) {
			if err = m.tellSummary(ctx, now); err == nil {
				told = now
			}
		}
		if err != nil { // the label may not be ours yet
			if !pause(ctx) {
				break
			}
		} else if !m.nextSummary(ctx, told, moved) {
			break
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSummary)
	defer cancel()
	if told.UUID == "" {
		told = record.Summary{Presence: me}
	}
	told.State, told.Reasons, told.Stopped, told.Time = "stopped", nil, true, now()
	_ = m.tellSummary(ctx, told) // else it is taken for dead
}

// nextSummary waits until another summary is worth while; false if ctx has ended.
func (m *Member) nextSummary(ctx context.Context, told record.Summary, moved uint64) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(summaryEvery + rand.N(summaryEvery/10)): // not all agents at once
		}
		// Health may change without any key; a minute late is early enough.
		if m.Moved() != moved || time.Since(told.Time) >= time.Minute {
			return true
		}
	}
}

func (m *Member) tellSummary(ctx context.Context, s record.Summary) error {
	value, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return m.Store.Tell(ctx, record.SummaryKey, value, 0)
}

func now() time.Time { return time.Now().UTC().Truncate(time.Second) }

// summary is how the agent is.
func (m *Member) summary(ctx context.Context, me record.Presence) (record.Summary, error) {
	st, err := m.API.AgentStatus(ctx, &apiv1.AgentStatusRequest{})
	if err != nil {
		return record.Summary{}, err
	}
	out := record.Summary{Presence: me, State: st.State, Keys: map[string]int{}, Time: now()}
	for i, reason := range st.Reasons {
		if i == someReasons {
			out.Reasons = append(out.Reasons, fmt.Sprintf("and %d more", len(st.Reasons)-i))
			break
		}
		out.Reasons = append(out.Reasons, short(reason))
	}
	for _, k := range st.Keys {
		out.Keys[k.State] = int(k.Count)
	}
	if st.Frozen {
		out.Frozen = short(st.Freeze.GetMessage())
	}
	for _, h := range st.Held {
		out.Held += int(h.Count)
	}
	out.Confirm = st.Confirm.GetName()
	return out, nil
}

// differs reports whether two summaries differ in more than their time.
func differs(a, b record.Summary) bool {
	a.Time, b.Time = time.Time{}, time.Time{}
	x, _ := json.Marshal(a) // texts and numbers always encode
	y, _ := json.Marshal(b)
	return string(x) != string(y)
}

// short cuts a text.
func short(text string) string {
	if r := []rune(text); len(r) > someText {
		return string(r[:someText]) + "…"
	}
	return text
}
