package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plumb-net/plumb/plugins/fleet/record"
)

// The states of an agent.
const (
	Alive     = "alive"     // it holds its label
	Dead      = "dead"      // it was there, and did not say that it ends
	Stopped   = "stopped"   // it has ended in good order
	Duplicate = "duplicate" // two agents want the label, or have the same state directory
	None      = "none"      // something is kept for the label, and no agent has told how it is
)

// Agent is what etcd tells of an agent.
type Agent struct {
	Label string `json:"label"`
	// State is alive, dead, stopped, duplicate or none; Reason says more where there is more.
	State   string            `json:"state"`
	Reason  string            `json:"reason,omitempty"`
	Host    string            `json:"host,omitempty"`
	Version string            `json:"version,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	// Health is ready or not ready, as the agent last told, and Reasons are why.
	Health  string   `json:"health,omitempty"`
	Reasons []string `json:"reasons,omitempty"`
	// Converged is up to which revision its intent was carried out.
	Converged int64          `json:"converged,omitempty"`
	Keys      map[string]int `json:"keys,omitempty"`
	Frozen    string         `json:"frozen,omitempty"`
	Held      int            `json:"held,omitempty"`
	Confirm   string         `json:"confirm,omitempty"`
	Started   time.Time      `json:"started,omitzero"`
	// Seen is when it last told anything; of one that is alive, the time of the question.
	Seen time.Time `json:"seen,omitzero"`

	uuid string
}

// Live reports whether the agent can be asked.
func (a Agent) Live() bool { return a.State == Alive || a.State == Duplicate }

// Agents are all agents, sorted by label. It costs two requests for each.
func (f *Fleet) Agents(ctx context.Context) ([]Agent, error) {
	var out []Agent
	for from := record.Root; ; {
		key, err := f.etcd.First(ctx, record.Root, from)
		if err != nil || key == "" {
			markClones(out)
			// In etcd what follows a label counts: web-1/ stands before web/.
			slices.SortFunc(out, func(a, b Agent) int { return cmp.Compare(a.Label, b.Label) })
			return out, err
		}
		label, _, is := strings.Cut(strings.TrimPrefix(key, record.Root), "/")
		if !is || label == "" {
			from = key + "\x00"
			continue
		}
		from = record.Root + label + "0" // which follows the slash
		a, err := f.agent(ctx, label)
		if err != nil {
			return out, err
		}
		out = append(out, a)
	}
}

// agent puts together what is known of one.
func (f *Fleet) agent(ctx context.Context, label string) (Agent, error) {
	names := []string{record.PresenceKey, record.SummaryKey, record.ConvergedKey, record.DuplicateKey}
	keys := make([]string, len(names))
	for i, n := range names {
		keys[i] = below(label, n)
	}
	got, err := f.etcd.Get(ctx, keys...)
	if err != nil {
		return Agent{}, err
	}
	read := func(i int, into any) bool {
		value, there := got[keys[i]]
		return there && json.Unmarshal(value, into) == nil
	}
	var p record.Presence
	var s record.Summary
	var c record.Converged
	var d record.Duplicate
	here, told, carried := read(0, &p), read(1, &s), read(2, &c)
	a := Agent{
		Label: label, State: Dead, Health: s.State, Reasons: s.Reasons, Converged: c.Revision, Keys: s.Keys,
		Frozen: s.Frozen, Held: s.Held, Confirm: s.Confirm, Seen: latest(s.Time, c.Time),
	}
	who := s.Presence
	switch {
	case here:
		a.State, a.Seen, who = Alive, f.Now().UTC().Truncate(time.Second), p
		if told && s.Incarnation != p.Incarnation { // of an earlier run
			a.Health, a.Reasons, a.Frozen, a.Held, a.Confirm = "", nil, "", 0, ""
		}
	case s.Stopped:
		a.State = Stopped
	case !told && !carried:
		a.State = None
	}
	a.Host, a.Version, a.Labels, a.Started, a.uuid = who.Host, who.Version, who.Labels, who.StartedAt, who.UUID
	if read(3, &d) && here && (d.UUID != p.UUID || d.Host != p.Host) {
		a.State, a.Reason = Duplicate, fmt.Sprintf("an agent on %s (process %d) wanted the label at %s", d.Host, d.PID, d.Time.UTC().Format(time.TimeOnly))
	}
	return a, nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// markClones marks live agents that have the same state directory, or a copy.
func markClones(all []Agent) {
	by := map[string][]int{}
	for i, a := range all {
		if a.Live() && a.uuid != "" {
			by[a.uuid] = append(by[a.uuid], i)
		}
	}
	for _, same := range by {
		for _, i := range same {
			if len(same) > 1 && all[i].State == Alive {
				other := all[same[0]].Label
				if same[0] == i {
					other = all[same[1]].Label
				}
				all[i].State, all[i].Reason = Duplicate, "its state directory is a copy of that of "+other
			}
		}
	}
}

// Choose are the agents that a selector and any of the patterns of labels choose; no
// patterns choose all.
func Choose(all []Agent, s Selector, patterns []string) []Agent {
	return slices.DeleteFunc(slices.Clone(all), func(a Agent) bool {
		named := len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool { return matches(p, a.Label) })
		return !named || !s.Matches(a.Labels)
	})
}

// States counts the agents by state, for people: "3 alive, 1 dead".
func States(all []Agent) string {
	count := map[string]int{}
	for _, a := range all {
		count[a.State]++
	}
	var parts []string
	for _, s := range []string{Alive, Duplicate, Dead, Stopped, None} {
		if count[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[s], s))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "no agents")
}
