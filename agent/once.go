package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/etcd"
	"github.com/plumb-net/plumb/scheduler"
)

// ErrNotConfigured is returned by Once when something is not as wanted.
var ErrNotConfigured = errors.New("not everything is configured")

// Once reconciles once: it starts everything, waits until every key that is
// wanted has settled, tells on out what is not configured, and stops.
func Once(ctx context.Context, c Config, log slog.Handler, out io.Writer) error {
	a, err := wire(c, thisHost, log)
	if err != nil {
		return err
	}
	defer a.host.close()
	return a.run(ctx, func(ctx context.Context) error { return a.once(ctx, out) })
}

// runtimesTime is how long Once waits for container runtimes to answer.
const runtimesTime = 30 * time.Second

// errDoubted: what the store holds is done, but what it lacks is not deleted.
var errDoubted = fmt.Errorf("%w: the store is not the known one", ErrNotConfigured)

func (a *agent) doubted() error {
	if err := a.store.Doubt(); err != nil {
		return fmt.Errorf("%w: %w", errDoubted, err)
	}
	return nil
}

// storeTime is how long Once waits for a store that is down.
const storeTime = 10 * time.Second

// downFor fails once the part has been down for so long, as seen by who asks again and
// again.
func downFor(limit time.Duration, health func() models.Health) func() error {
	var since time.Time
	return func() error {
		h := health()
		switch {
		case h.State != "down":
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= limit:
			return fmt.Errorf("%w: %s is down: %s", ErrNotConfigured, h.Name, h.Reason)
		}
		return nil
	}
}

func (a *agent) once(ctx context.Context, out io.Writer) error {
	err := a.waitSourcesSynced(ctx, a.store.Failed, a.doubted, downFor(storeTime, a.store.Health))
	doubted := errors.Is(err, errDoubted)
	if errors.Is(err, ErrNotConfigured) {
		fmt.Fprintln(out, err)
	}
	if err != nil && !doubted {
		return err
	}
	if err := a.syncedBut(ctx, etcd.Source); err != nil {
		return err
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
	if doubted && err == nil {
		err = ErrNotConfigured
	}
	return err
}
