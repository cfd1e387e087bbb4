package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/plumb-net/plumb/scheduler"
)

// ErrNotConfigured is returned by Once when something is not as wanted.
var ErrNotConfigured = errors.New("not everything is configured")

// Once reconciles once: it starts everything, waits until every key that is
// wanted has settled, tells on out what is not configured, and stops.
func Once(ctx context.Context, c Config, log *slog.Logger, level *slog.LevelVar, out io.Writer) error {
	a, err := wire(c, log, level)
	if err != nil {
		return err
	}
	defer a.host.close()
	return a.run(ctx, func(ctx context.Context) error { return a.once(ctx, out) })
}

// runtimesTime is how long Once waits for container runtimes to answer.
const runtimesTime = 30 * time.Second

func (a *agent) once(ctx context.Context, out io.Writer) error {
	if err := a.spoken(ctx, a.store.Failed); err != nil {
		return err
	}
	known, cancel := context.WithTimeout(ctx, runtimesTime)
	defer cancel()
	for tick := time.NewTicker(10 * time.Millisecond); !a.tracker.Synced() && known.Err() == nil; <-tick.C {
	}
	all, err := a.sched.List(ctx)
	if err != nil {
		return err
	}
	var wanted []scheduler.Key
	for _, s := range all {
		if s.Origin != "" && s.Base == "" || s.State == scheduler.Leftover {
			wanted = append(wanted, s.Key)
		}
	}
	r, err := a.sched.Apply(ctx, scheduler.Txn{Source: "once", Note: "reconcile once", Look: wanted})
	if err != nil {
		return err
	}
	for _, o := range r.Keys {
		if o.State != scheduler.Configured && o.State != scheduler.Removed {
			if s, err := a.sched.Get(ctx, o.Key); err == nil {
				o.Reason = s.Reason // it says more
			}
			fmt.Fprintf(out, "%s %s: %s\n", o.Key, o.State, o.Reason)
			err = ErrNotConfigured
		}
	}
	return err
}
