package agent

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/openfiles"
)

// closeAfter is how long a namespace that nobody uses stays open, at least: who has
// just found one is about to use it.
const closeAfter = time.Second

// closeUnused closes the namespaces that no key uses any more, and no attachment:
// what an attachment has there are keys. It sleeps while all that is open is used.
func (h *host) closeUnused(ctx context.Context) error {
	tick := time.NewTicker(closeAfter)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.kernel.Opened():
		case <-h.owner.Freed():
		}
		for left := 1; left > 0; {
			tick.Reset(closeAfter)
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				left = h.kernel.CloseUnused(h.owner.Uses)
			}
		}
	}
}

// filesHealth tells how many files are open, once they come near the limit: before
// containers are refused for it.
func filesHealth(started time.Time, u openfiles.Usage) []models.Health {
	if !u.Near() {
		return nil
	}
	h := models.Health{Name: "open-files", State: "ok", Since: started, Details: map[string]string{
		"open": strconv.Itoa(u.Open), "limit": strconv.Itoa(u.Limit),
	}}
	if u.Slack() > 0 {
		h.Reason = fmt.Sprintf("%v; with %d more no namespace is opened any more: raise LimitNOFILE of plumb-agent", u, u.Slack())
		return []models.Health{h}
	}
	h.State, h.Reason = "degraded", u.Refuse().Error()
	return []models.Health{h}
}
