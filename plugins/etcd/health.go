package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/etcd/dial"
)

// The states of health.
const (
	healthOK       = "ok"
	healthDegraded = "degraded"
	healthDown     = "down"
	healthStarting = "starting"
)

// server is what the store says of itself.
type server struct {
	version string
	size    int64
	alarms  []string
}

// healthKeeper remembers since when things are as they are.
type healthKeeper struct {
	mu    sync.Mutex // guards what follows
	since time.Time
	was   string
	srv   server
	open  error // why there is no connection, if there is none
	// strange are keys below the label that mean nothing.
	strange []string
}

// Health tells how the store and our ties to it stand.
func (p *Plugin) Health() models.Health {
	h := models.Health{Name: "etcd", Details: p.details()}
	h.State, h.Reason = p.judge()
	p.health.mu.Lock()
	defer p.health.mu.Unlock()
	if is := h.State + h.Reason; is != p.health.was || p.health.since.IsZero() {
		p.health.was, p.health.since = is, time.Now()
	}
	h.Since = p.health.since
	return h
}

// Failed says why the embedded store does not run, nil if it does, starts, or
// the store is another's.
func (p *Plugin) Failed() error {
	var e *embeddedError
	p.health.mu.Lock()
	defer p.health.mu.Unlock()
	if errors.As(p.health.open, &e) {
		return e
	}
	return nil
}

// Doubt says why the store is not the known one, nil if it is or was not read yet. What
// it holds is intent, but it will say no complete word.
func (p *Plugin) Doubt() error {
	if f := p.source.standingFacts(); f.reason != "" {
		return errors.New(f.doubt())
	}
	return nil
}

func (f *facts) doubt() string {
	return f.reason + `; nothing is deleted for what it lacks; "agentctl resync --accept" believes it`
}

// judge takes the worst that holds.
func (p *Plugin) judge() (state, reason string) {
	f, w := p.source.standingFacts(), p.status.standing()
	label := p.presence.problem()
	p.health.mu.Lock()
	srv, open, others := p.health.srv, p.health.open, p.health.strange
	p.health.mu.Unlock()
	switch {
	case errors.Is(open, errSlowStart):
		return healthStarting, dial.Plain(open)
	case open != nil && isDown(open):
		return healthDown, p.cfg.say(open)
	case open != nil:
		return healthDown, "not connected: " + p.cfg.say(open)
	case f.down != nil:
		return healthDown, "cannot be read: " + p.cfg.say(f.down)
	case f.sessions == 0 && label != nil:
		return healthDown, p.cfg.say(label)
	case f.sessions == 0:
		return healthStarting, "not listed yet"
	case f.reason != "":
		return healthDegraded, f.doubt()
	case len(srv.alarms) > 0:
		return healthDegraded, "the store raises alarms: " + strings.Join(srv.alarms, ", ")
	case label != nil:
		return healthDegraded, "presence: " + p.cfg.say(label)
	case w.down != nil:
		return healthDegraded, "statuses cannot be written: " + p.cfg.say(w.down)
	case len(w.refused) > 0: // which keeps nobody from relying on the agent
		k := slices.Min(slices.Collect(maps.Keys(w.refused)))
		return healthOK, fmt.Sprintf("the store does not take the status of %s (%s), %d in all", k, dial.Plain(w.refused[k]), len(w.refused))
	}
	return healthOK, strange(p.cfg.prefix(), others)
}

// Lag is how many revisions of the store have not come to the scheduler; false as long as
// the store was never listed.
func (p *Plugin) Lag() (revisions int64, listed bool) {
	return p.lag(), p.source.standingFacts().sessions > 0
}

func (p *Plugin) lag() int64 { return max(p.source.head.Load()-p.source.reached.get(), 0) }

func (p *Plugin) details() map[string]string {
	f, w := p.source.standingFacts(), p.status.standing()
	d := map[string]string{
		"endpoints": p.cfg.endpoints(),
		"sessions":  strconv.Itoa(f.sessions),
	}
	if w := p.cfg.warnings(); len(w) > 0 {
		d["warnings"] = strings.Join(w, "; ")
	}
	if f.sessions > 0 {
		d["revision"] = strconv.FormatInt(p.source.reached.get(), 10)
		d["lag"] = fmt.Sprintf("%d revisions", p.lag())
		d["keys"] = strconv.Itoa(f.keys)
		d["converged"] = strconv.FormatInt(p.Converged(), 10)
		if last := f.checks.Last; f.checks.Done > 0 {
			d["verified"] = fmt.Sprintf("%d keys at revision %d, %s", last.Keys, last.Revision, last.Time.UTC().Format(time.RFC3339))
			d["mismatches"] = strconv.Itoa(f.checks.Differed)
		}
		d["last_list"] = f.listed.UTC().Format(time.RFC3339)
		d["statuses"] = strconv.Itoa(w.written)
		d["store"] = f.storeID
		if f.reason != "" {
			d["store"] = "not accepted: " + f.reason
		}
	}
	if f.ended != "" {
		d["last_end"] = f.ended
	}
	if age, ok := p.source.watchAge(); ok {
		d["watch_age"] = age.Round(time.Millisecond).String()
	}
	p.health.mu.Lock()
	defer p.health.mu.Unlock()
	if v := p.health.srv.version; v != "" {
		d["version"], d["size"] = v, fmt.Sprintf("%d bytes", p.health.srv.size)
	}
	return d
}

// watchServer asks the store now and then how it is.
func (p *Plugin) watchServer(ctx context.Context) {
	t := time.NewTicker(p.cfg.tune.healthEvery)
	defer t.Stop()
	for {
		l := p.current()
		resp, err := withTimeout(ctx, p.cfg.tune, func(ctx context.Context) (*etcdserverpb.StatusResponse, error) {
			return l.maint.Status(ctx, &etcdserverpb.StatusRequest{})
		})
		if err == nil { // otherwise the watch says it better
			p.health.mu.Lock()
			p.health.srv = server{resp.Version, resp.DbSize, resp.Errors}
			p.health.mu.Unlock()
		}
		if found, err := p.strangers(ctx, l); err == nil {
			p.noteStrangers(found)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// standingFacts copies the facts.
func (s *source) standingFacts() facts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.facts
}

// watchAge is how long ago the watch last gave a sign of life.
func (s *source) watchAge() (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream == nil {
		return 0, false
	}
	return s.stream.silence(), true
}
