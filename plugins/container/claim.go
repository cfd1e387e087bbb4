package container

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plumb-net/plumb/models"
)

// LabelRules say who carries which service label. The zero value lets every
// container carry every label, and the one that started last have it.
type LabelRules struct {
	// Incumbent: of several containers the one that started first has the label, for
	// as long as it runs.
	Incumbent bool
	// Carriers bind labels. One that some of them name goes only to containers that
	// fit one of those; one that none names, to all.
	Carriers []LabelCarrier
}

// LabelCarrier names containers that may carry labels. All fields are patterns in
// which * stands for any text; an empty one fits all.
type LabelCarrier struct {
	Label                           string
	Runtime, Namespace, Name, Image string
}

// String is the rule as operators write it.
func (c LabelCarrier) String() string {
	var b strings.Builder
	b.WriteString(c.Label)
	for _, f := range []struct{ name, pattern string }{
		{"runtime", c.Runtime}, {"namespace", c.Namespace}, {"name", c.Name}, {"image", c.Image}} {
		if f.pattern != "" {
			fmt.Fprintf(&b, " %s=%s", f.name, f.pattern)
		}
	}
	return b.String()
}

// fits reports whether the rule lets a container carry a label that it names.
func (c LabelCarrier) fits(m *member) bool {
	runtime, namespace, _ := strings.Cut(m.runtime, ":")
	return matches(c.Runtime, runtime) && matches(c.Namespace, namespace) && matches(c.Name, m.Name) && matches(c.Image, m.Image)
}

// matches reports whether a text fits a pattern; the empty one fits all.
func matches(pattern, text string) bool {
	if pattern == "" {
		return true
	}
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	rest, found := strings.CutPrefix(text, parts[0])
	for _, p := range parts[1 : len(parts)-1] {
		_, after, ok := strings.Cut(rest, p)
		if !ok {
			return false
		}
		rest = after
	}
	return found && strings.HasSuffix(rest, parts[len(parts)-1])
}

// bar says why a container may not carry the label that it bears, "" if it may.
func (r LabelRules) bar(m *member) string {
	var named []string
	for _, c := range r.Carriers {
		if !matches(c.Label, m.label) {
			continue
		}
		if c.fits(m) {
			return ""
		}
		named = append(named, fmt.Sprintf("%q", c))
	}
	if len(named) == 0 {
		return ""
	}
	return fmt.Sprintf("it may not carry the service label %s: label-carrier allows %s", m.label, strings.Join(named, ", "))
}

// claims are who has the service labels and who wanted them, in a snapshot.
type claims struct {
	carrier map[string]string          // by label, the key of the container
	wanted  map[string]map[string]bool // by label, the keys of those that run and could have it
	refused map[string]string          // by key, why a label was not given
}

func newClaims() claims {
	return claims{carrier: map[string]string{}, wanted: map[string]map[string]bool{}, refused: map[string]string{}}
}

// settled notes who got a label: the first of those that bear it. In the words of the
// rules the others are refused; that they wait for a newer one is told by its takeover.
func (c claims) settled(label string, bearers []*member, host map[uint64]bool, rules LabelRules) {
	c.wanted[label] = map[string]bool{}
	for i, m := range bearers {
		switch usable := m.refusal(host) == "" && m.barred == ""; {
		case m.barred != "":
			c.refused[m.key] = m.barred
		case usable && i == 0:
			c.carrier[label], c.wanted[label][m.key] = m.key, true
		case usable:
			c.wanted[label][m.key] = true
			if rules.Incumbent && c.carrier[label] != "" && m.netns != bearers[0].netns {
				c.refused[m.key] = "container " + bearers[0].title() + " has the service label " + label + ", and label-conflict is incumbent"
			}
		}
	}
}

// LabelStats count what happened to service labels.
type LabelStats struct {
	// Takeovers are labels that a container took from one that runs on.
	Takeovers uint64
	// Last says which was the last one, at LastAt.
	Last   string
	LastAt time.Time
	// Refused says of containers, by <runtime>:<id>, why they do not carry the label
	// that they bear.
	Refused map[string]string
}

// tellClaims tells who took a label from one that runs on, and who did not get one.
func (t *Tracker) tellClaims(old, next *snapshot) {
	stats := *t.labels.Load()
	for _, label := range sortedKeys(next.claims.carrier) {
		now, was := next.claims.carrier[label], old.claims.carrier[label]
		if was == "" || was == now || !old.synced || !next.claims.wanted[label][was] ||
			next.containers[now].GetNetns() == next.containers[was].GetNetns() {
			continue
		}
		stats.Takeovers++
		stats.Last, stats.LastAt = fmt.Sprintf("%s took the service label %s from %s, which runs on",
			title(next.containers[now]), label, title(next.containers[was])), time.Now()
		t.tellOf(now, Event{Type: LabelTaken, Detail: "from " + title(next.containers[was]) + ", which runs on"})
		t.opts.Log.Warn("a service label was taken from a container that runs on", "label", label,
			"by", title(next.containers[now]), "from", title(next.containers[was]))
	}
	for _, key := range sortedKeys(next.claims.refused) {
		if why := next.claims.refused[key]; why != old.claims.refused[key] {
			t.tellOf(key, Event{Type: LabelRefused, Detail: why})
			t.opts.Log.Warn("a container does not carry its service label", "container", key, "reason", why)
		}
	}
	stats.Refused = next.claims.refused
	t.labels.Store(&stats)
}

// tellOf has an event of a container told, by its key.
func (t *Tracker) tellOf(key string, e Event) {
	for _, s := range t.sources {
		for _, c := range s.entries {
			if s.key(c) == key {
				e.Run = c.chronicle.runs.Run
				s.tell(c, []Event{e})
				return
			}
		}
	}
}

// LabelStats tell what happened to service labels.
func (t *Tracker) LabelStats() LabelStats { return *t.labels.Load() }

// LabelHealth is a part of the agent's health, once there is something to tell of
// service labels.
func (t *Tracker) LabelHealth() []models.Health {
	s := t.LabelStats()
	var why []string
	if s.Takeovers > 0 {
		why = append(why, fmt.Sprintf("%d taken from containers that run on; the last: %s", s.Takeovers, s.Last))
	}
	if n := len(s.Refused); n > 0 {
		key := sortedKeys(s.Refused)[0]
		why = append(why, fmt.Sprintf("%d containers do not carry their label, one of them %s: %s", n, key, s.Refused[key]))
	}
	if len(why) == 0 {
		return nil
	}
	return []models.Health{{Name: "labels", State: "ok", Reason: strings.Join(why, "; "), Since: s.LastAt, Details: map[string]string{
		"takeovers": fmt.Sprint(s.Takeovers), "refused": fmt.Sprint(len(s.Refused))}}}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
