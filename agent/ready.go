package agent

import (
	"context"
	"time"
)

// readyEvery is how often the agent looks whether it is ready, until it is.
const readyEvery = 250 * time.Millisecond

// tellReady says once in the log that the agent is ready, as /readyz does. The service
// manager hears earlier, see notify.
func (a *agent) tellReady(ctx context.Context) error {
	tick := time.NewTicker(readyEvery)
	defer tick.Stop()
	defer time.AfterFunc(startTime, spareFromNow).Stop()
	for !a.api.Ready(ctx) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
	spareFromNow()
	a.log.Info("ready", "took", time.Since(a.started).Round(time.Millisecond))
	return nil
}
