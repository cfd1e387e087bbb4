package agent

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/api"
	"github.com/plumb-net/plumb/plugins/confirm"
	"github.com/plumb-net/plumb/plugins/probe"
	"github.com/plumb-net/plumb/scheduler"
)

// wireConfirms reads what is to be confirmed or taken back. It comes after the kinds: what
// is taken back counts at once.
func (a *agent) wireConfirms() {
	a.confirms = confirm.Open(a.config.StateDir, confirm.Options{
		Store: a.store, Settled: a.settled, TakeBack: a.takeBack, Probe: a.probe, Log: a.log.With("part", "confirm"),
	})
}

// takeBack has the scheduler hold back none of the keys, until the end is told.
func (a *agent) takeBack(keys []string) (end func()) {
	all := make([]scheduler.Key, len(keys))
	for i, k := range keys {
		all[i] = scheduler.Key(k)
	}
	end, err := a.sched.TakeBack(all...)
	if err != nil {
		a.log.Warn("what is taken back may be held back", "error", err) // it ends
	}
	return end
}

// unconfirmed is until when a change has to be confirmed; false if none has to be.
func (a *agent) unconfirmed() (deadline time.Time, waits bool) {
	if t := a.confirms.Outstanding(); t != nil {
		return t.Pending().Deadline, true
	}
	return time.Time{}, false
}

// settled waits until the keys have settled.
func (a *agent) settled(ctx context.Context, keys []string) error {
	w := a.sched.Watch(api.WatchTargets(keys)...)
	defer w.Stop()
	busy := map[scheduler.Key]bool{}
	for _, k := range keys {
		busy[scheduler.Key(k)] = false
	}
	for {
		changes, inSync, err := w.Next(ctx)
		if err != nil {
			return err
		}
		for _, c := range changes {
			if _, ours := busy[c.Key]; ours {
				busy[c.Key] = c.Busy
			}
		}
		if inSync && !anyOf(busy) {
			return nil
		}
	}
}

func anyOf(m map[scheduler.Key]bool) bool {
	for _, is := range m {
		if is {
			return true
		}
	}
	return false
}

// probe asks once whether something works.
func (a *agent) probe(ctx context.Context, text string) error {
	p, err := probe.Parse(text)
	if err != nil {
		return err
	}
	switch {
	case p.Key != "":
		return a.probeKey(ctx, scheduler.Key(p.Key))
	case p.NS == "" || p.NS == "self":
		return p.Run(ctx)
	}
	ns, err := a.probeFrom(ctx, p.NS)
	if err != nil {
		return err
	}
	return a.host.kernel.within(ns, func() error { return p.Run(ctx) })
}

func (a *agent) probeKey(ctx context.Context, k scheduler.Key) error {
	s, err := a.sched.Get(ctx, k)
	switch {
	case err != nil:
		return err
	case s.State != scheduler.Configured && s.State != scheduler.Observed:
		return fmt.Errorf("it is %s: %s", s.State, s.Reason)
	}
	return nil
}

// probeFrom is the namespace of a probe: the name of a netns, or microservice:LABEL.
func (a *agent) probeFrom(ctx context.Context, where string) (kernel.NS, error) {
	if label, service := strings.CutPrefix(where, "microservice:"); service {
		at, err := a.host.places.Resolve(ctx, &models.Namespace{In: &models.Namespace_Microservice{Microservice: label}})
		return at.NS, err
	}
	return a.host.kernel.Open(filepath.Join(a.config.NetnsDir, where))
}
