package agent

import (
	"context"

	"github.com/plumb-net/plumb/plugins/systemd"
)

// notify tells the service manager how the agent is. It is ready when operators can
// speak with it, not when all is configured: for that it may need what is started later,
// and `agentctl wait` waits. It lives as long as /livez says so.
func (a *agent) notify(ctx context.Context) error {
	ready := func(ctx context.Context) error {
		select {
		case <-a.serves:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return systemd.Service{Ready: ready, Alive: a.api.Alive, Log: a.log.With("part", "systemd")}.Run(ctx)
}
