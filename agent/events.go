package agent

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/buildinfo"
	"github.com/plumb-net/plumb/plugins/container"
	"github.com/plumb-net/plumb/plugins/events"
	"github.com/plumb-net/plumb/plugins/metrics"
	"github.com/plumb-net/plumb/plugins/oom"
)

// recorder brings together those who know what happens. The watcher of kills
// tells the tracker, which joins them with deaths; the tracker tells the
// watcher whom to follow; and the log keeps what the tracker makes of it.
//
//	kernel ──► oom ──kills──► tracker ──events──► log
//	            ▲                                 │
//	            └──────── follow, forget ◄────────┘
type recorder struct {
	log   *events.Log
	kills *oom.Watcher        // nil where there are no cgroups
	past  []container.OOMKill // from before the start
	why   string              // why kills is nil
	disk  func() error        // why events are not on disk; nil if they need not be
}

// unwritten asks why something is not on disk.
func unwritten(disk func() error) error {
	if disk == nil {
		return nil
	}
	return disk()
}

// newRecorder makes a recorder that reports kills to a tracker.
func newRecorder(log *events.Log, report func(container.OOMKill), to *slog.Logger) (*recorder, error) {
	r := &recorder{log: log}
	host, err := oom.OpenHost()
	if err != nil {
		r.why = err.Error()
		return r, nil
	}
	messages, quiet := oom.OpenKmsg()
	r.kills, err = oom.New(oom.Options{
		Messages: messages, Quiet: quiet, Host: host, Log: to,
		Tell: func(k oom.Kill) { report(reported(k)) },
	})
	if err != nil {
		return nil, err
	}
	for _, k := range r.kills.Past() {
		r.past = append(r.past, reported(k))
	}
	return r, nil
}

// reported is a kill in the words of the tracker.
func reported(k oom.Kill) container.OOMKill {
	source := "kmsg"
	if k.Pid == 0 {
		source = "cgroup"
	}
	return container.OOMKill{
		At: k.Time, Container: k.Container, Cgroup: k.Cgroup, Owner: k.LimitContainer, OwnerCgroup: k.Limit,
		Pid: k.Pid, Process: k.Name, Constraint: k.Constraint, Source: source, Count: k.Times, Amends: k.Amends, All: k.All,
	}
}

// observe is the observer of the tracker.
func (r *recorder) observe(e container.Event) {
	if r.kills != nil {
		switch e.Type {
		case container.Discovered, container.Started:
			if e.Run.Pid != 0 && !e.FoundLater { // what is found running is discovered as well
				r.kills.Follow(oom.Container{ID: e.ID, Pid: e.Run.Pid, Told: r.told(e)})
			}
		case container.Died: // while its cgroup is still there
			r.kills.Ended(e.ID)
		case container.Removed:
			r.kills.Forget(e.ID)
		}
	}
	r.log.Add(e)
}

// told counts the kills of a run that earlier runs of the agent told of.
func (r *recorder) told(e container.Event) (n uint64) {
	if e.Type != container.Discovered {
		return 0
	}
	kills, _ := r.log.Query(events.Query{Types: []events.Type{container.OOM}, Container: e.ID})
	for _, k := range kills {
		switch {
		case k.ID != e.ID || k.Amends || !k.Run.StartedAt.Equal(e.Run.StartedAt):
		case k.OOM == nil:
			n++
		default:
			n += uint64(max(1, k.OOM.Count))
		}
	}
	return n
}

// run watches kills, and the runtimes, until ctx ends.
func (r *recorder) run(ctx context.Context, runtimes func() []container.RuntimeHealth) error {
	done := make(chan error, 1)
	go func() {
		if r.kills == nil {
			done <- nil
			return
		}
		done <- r.kills.Run(ctx)
	}()
	r.log.FollowRuntimes(ctx, runtimes)
	return <-done
}

// health reports whether kills are watched. That they are not keeps nobody from
// relying on the agent.
func (r *recorder) health(since time.Time) models.Health {
	h := models.Health{Name: "events", State: "ok", Since: since}
	s := r.log.Stats()
	h.Details = map[string]string{
		"kept": strconv.Itoa(s.Count), "bytes": strconv.FormatInt(s.Bytes, 10),
		"last": strconv.FormatUint(s.Next-1, 10), "watchers": strconv.Itoa(s.Watchers),
	}
	if err := unwritten(r.disk); err != nil {
		h.Reason = "events are kept in memory only: " + err.Error()
		return h
	}
	if r.kills == nil {
		h.Reason = "kills for lack of memory are told by runtimes only: " + r.why
		return h
	}
	k := r.kills.Stats()
	for name, n := range map[string]uint64{
		"oom_kills": k.Kills, "oom_unnamed": k.Unnamed, "oom_old": k.Old, "oom_gaps": k.Lost, "oom_followed": uint64(k.Followed),
	} {
		h.Details[name] = fmt.Sprint(n)
	}
	if k.Messages != "" {
		h.Reason = "kills for lack of memory are told without names: " + k.Messages
	}
	return h
}

// figures are what there is to count.
func (r *recorder) figures() metrics.Events {
	return metrics.Events{Log: r.log.Stats, Kills: func() (oom.Stats, bool) {
		if r.kills == nil {
			return oom.Stats{}, false
		}
		return r.kills.Stats(), true
	}}
}

// openEvents reads what earlier runs told of, and begins with the start of
// this one.
func (a *agent) openEvents() error {
	mib, err := strconv.ParseInt(a.config.Events, 10, 64)
	if err != nil {
		return err
	}
	var earlier []*events.Event
	var next uint64
	var disk func() error
	if mib > 0 {
		a.eventFile, earlier, next, err = events.Open(a.config.StateDir, mib<<20, a.log.With("part", "events"))
		if err != nil { // what happens must not go unseen for it
			a.log.Warn("the events of earlier runs cannot be read, and those of this one are kept in memory only", "error", err)
			disk = func() error { return err }
		} else {
			disk = a.eventFile.Err
		}
	}
	a.told = make([]container.Event, len(earlier))
	for i, e := range earlier {
		a.told[i] = e.Event
	}
	l := events.New(events.Limits{}, earlier, next)
	a.eventsFrom = l.Stats().Next - 1
	l.AddDetail(container.Event{Type: events.AgentStarted}, buildinfo.Version())
	a.recorder, err = newRecorder(l, func(k container.OOMKill) { a.tracker.ReportOOM(k) }, a.log.With("part", "oom"))
	if err == nil {
		a.recorder.disk = disk
	}
	return err
}
