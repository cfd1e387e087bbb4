package container

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/plumb-net/plumb/models"
)

// RuntimeHealth is how a runtime stands, in figures. Times are zero for what
// never was.
type RuntimeHealth struct {
	Runtime string
	// Version is what answered last.
	Version string
	// State is starting, reading, known, unknown, absent or stopped; Reason
	// says why, Since when it came to that.
	State  string
	Reason string
	Since  time.Time

	// ConnectedSince is when the present stream of events began; zero: there is
	// none. Connects counts streams.
	ConnectedSince time.Time
	Connects       int
	// Hints counts what came by the stream, Coalesced those for a container
	// that waited for its inspect already. LastHint is when the last one came.
	Hints, Coalesced uint64
	LastHint         time.Time
	// Missed counts changes that a list showed and no hint told: events that
	// were lost.
	Missed uint64

	// LastList is when the last list began that succeeded, ListTook how long it
	// took. Relists counts lists by why they were made: connected, period,
	// failed (the one before), asked.
	LastList  time.Time
	ListTook  time.Duration
	Lists     int
	SlowLists int
	ListFails int
	Relists   map[string]int

	// Inspects counts those begun, InspectFails those that failed, Spared those
	// that a list made needless.
	Inspects, InspectFails, Spared uint64
	// Containers are those known, Running those with a living process, InError
	// those whose last inspect failed. Errors names some of these.
	Containers, Running, InError int
	Errors                       []InspectError

	synced bool
}

// InspectError is a container whose inspect fails.
type InspectError struct {
	ID, Name string
	Error    string
	// Attempts is how many failed in a row; the next one is at NextTry.
	Attempts int
	NextTry  time.Time
}

// mostErrors bounds what is named of many errors.
const mostErrors = 10

func (p phase) String() string {
	return [...]string{"starting", "reading", "known", "unknown", "absent", "stopped"}[p]
}

// publishHealth lets readers see how the runtimes stand.
func (t *Tracker) publishHealth() {
	all := make([]RuntimeHealth, len(t.sources))
	for i, s := range t.sources {
		all[i] = s.health()
	}
	t.health.Store(&all)
}

// health gathers the figures of a runtime.
func (s *source) health() RuntimeHealth {
	h := s.stats
	h.Relists = maps.Clone(h.Relists)
	h.Runtime, h.Version = s.rt.Name(), s.version
	h.State, h.Reason, h.Since, h.synced = s.phase.String(), s.reason, s.since, s.synced
	h.LastList = s.listedAt
	h.Containers = len(s.entries)
	for _, e := range s.entries {
		if e.process != nil {
			h.Running++
		}
		if e.err != nil {
			h.InError++
			h.Errors = append(h.Errors, InspectError{
				ID: e.id, Name: e.last.Name, Error: e.err.Error(), Attempts: e.fails, NextTry: e.retryAt})
		}
	}
	slices.SortFunc(h.Errors, func(a, b InspectError) int { return cmp.Compare(a.ID, b.ID) })
	if len(h.Errors) > mostErrors {
		h.Errors = h.Errors[:mostErrors]
	}
	s.hints.mu.Lock()
	h.Hints, h.Coalesced, h.LastHint = s.hints.hints, s.hints.joined, s.hints.last
	s.hints.mu.Unlock()
	return h
}

// Runtimes tells how each runtime stands, in figures.
func (t *Tracker) Runtimes() []RuntimeHealth {
	all := slices.Clone(*t.health.Load())
	for i := range all {
		all[i].Relists = maps.Clone(all[i].Relists)
		all[i].Errors = slices.Clone(all[i].Errors)
	}
	return all
}

// Unready says what stands against relying on what is known of the runtime's
// containers, each reason by itself; none means nothing does. A list is too old
// if it began longer ago than limit.
func (h RuntimeHealth) Unready(now time.Time, limit time.Duration) []string {
	if h.State == "absent" || h.State == "stopped" {
		return nil
	}
	var why []string
	if !h.synced {
		why = append(why, "was never read: "+h.Reason)
	} else if h.State != "known" {
		why = append(why, cmp.Or(h.Reason, h.State))
	}
	if age := now.Sub(h.LastList); !h.LastList.IsZero() && age > limit {
		why = append(why, fmt.Sprintf("the last list is %s old", age.Round(time.Second)))
	}
	if h.ConnectedSince.IsZero() && h.synced {
		why = append(why, "there is no stream of events")
	}
	if h.InError > 0 {
		one := h.Errors[0]
		why = append(why, fmt.Sprintf("%d containers cannot be inspected, one of them %s: %s", h.InError, one.ID, one.Error))
	}
	return why
}

// Health tells how each runtime stands, in the words of the agent's parts.
func (t *Tracker) Health() []models.Health {
	all := *t.health.Load()
	out := make([]models.Health, len(all))
	for i, h := range all {
		out[i] = h.part(time.Now(), t.opts.ListLimit)
	}
	return out
}

func (h RuntimeHealth) part(now time.Time, limit time.Duration) models.Health {
	p := models.Health{Name: h.Runtime, Reason: h.Reason, Since: h.Since, Details: h.details(now)}
	switch h.State {
	case "starting", "reading":
		p.State = "starting"
	case "absent", "stopped":
		p.State = "off"
	case "unknown":
		p.State = "down"
	case "known":
		p.State, p.Reason = "ok", h.Version
		if why := h.Unready(now, limit); len(why) > 0 {
			p.State, p.Reason = "degraded", why[0]
			for _, w := range why[1:] {
				p.Reason += "; " + w
			}
		}
	}
	return p
}

func (h RuntimeHealth) details(now time.Time) map[string]string {
	d := map[string]string{
		"containers": strconv.Itoa(h.Containers),
		"running":    strconv.Itoa(h.Running),
		"in_error":   strconv.Itoa(h.InError),
		"hints":      strconv.FormatUint(h.Hints, 10),
		"coalesced":  strconv.FormatUint(h.Coalesced, 10),
		"missed":     strconv.FormatUint(h.Missed, 10),
		"lists":      strconv.Itoa(h.Lists),
		"connects":   strconv.Itoa(h.Connects),
		"streaming":  strconv.FormatBool(!h.ConnectedSince.IsZero()),
	}
	for cause, n := range h.Relists {
		d["relists_"+cause] = strconv.Itoa(n)
	}
	if h.Version != "" {
		d["version"] = h.Version
	}
	if !h.LastList.IsZero() {
		d["last_list"] = h.LastList.UTC().Format(time.RFC3339)
		d["list_age"] = now.Sub(h.LastList).Round(time.Second).String()
		d["list_took"] = h.ListTook.Round(time.Microsecond).String()
	}
	if !h.ConnectedSince.IsZero() {
		d["connected_since"] = h.ConnectedSince.UTC().Format(time.RFC3339)
	}
	return d
}
