package agent

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/openfiles"
	"github.com/plumb-net/plumb/plugins/safetext"
)

// health tells how every part is. The agent is ready when all are ok or off.
func (a *agent) health() []models.Health {
	files, _ := openfiles.Read() // what cannot be read is not near its limit
	out := append([]models.Health{machineHealth(a.started)}, filesHealth(a.started, files)...)
	out = append(out, a.schedulerHealth(), a.stateHealth())
	for _, s := range a.sources {
		h := s.Health()
		h.Optional = isOptional(s.Name())
		out = append(out, h)
	}
	out = append(out, a.cni.health(a.started), a.recorder.health(a.started))
	if err := a.historyUnwritten(); err != nil { // which keeps nobody from relying on the agent
		out = append(out, models.Health{Name: "history", State: "ok", Since: a.started, Reason: "it is kept in memory only: " + err.Error()})
	}
	if damage := a.confirms.Damage(); damage != "" {
		out = append(out, models.Health{Name: "confirm", State: "ok", Since: a.started, Reason: damage})
	}
	out = append(out, a.surroundings.health(a.started)...)
	out = append(out, a.remoteHealth()...)
	out = append(out, a.tracker.LabelHealth()...)
	out = append(out, a.tracker.Health()...)
	for i := range out {
		out[i].Reason = safetext.URLs(out[i].Reason)
		for k, v := range out[i].Details {
			out[i].Details[k] = safetext.URLs(v)
		}
	}
	return out
}

// historyUnwritten is why the history is not on disk, nil if it is or need not be.
func (a *agent) historyUnwritten() error {
	if a.history == nil {
		return a.historyLost
	}
	return a.history.Err()
}

// schedulerHealth: the loop answers, every source has synced, and every kind can be read.
func (a *agent) schedulerHealth() models.Health {
	h := models.Health{Name: "scheduler", State: "ok", Since: a.started, Details: map[string]string{
		"kernel_writes": fmt.Sprint(a.host.kernel.Writes()),
		"namespaces":    fmt.Sprint(len(a.host.kernel.InUse())),
		"uptime":        time.Since(a.started).Round(time.Second).String(),
	}}
	var silent, unread []string
	sources, err := a.sched.Sources(context.Background())
	if err != nil {
		h.State, h.Reason = "down", err.Error()
		return h
	}
	for _, s := range withoutLedger(sources) { // the part state tells of that one
		h.Details["keys_"+s.Name] = fmt.Sprint(s.Keys)
		if !s.Synced && !isOptional(s.Name) {
			silent = append(silent, s.Name)
		}
	}
	for _, k := range a.sched.Kinds() {
		if k.Unread != "" {
			unread = append(unread, k.Name+": "+k.Unread)
		}
	}
	switch {
	case len(silent) > 0:
		h.State = "starting"
		h.Reason = strings.Join(silent, ", ") + " has not told all that it wants; nothing is deleted until then"
	case len(unread) > 0:
		h.State, h.Reason = "degraded", "the live host cannot be read: "+strings.Join(unread, "; ")
	}
	return h
}
