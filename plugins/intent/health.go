package intent

import (
	"context"
	"log/slog"
	"time"

	"github.com/plumb-net/plumb/models"
)

// NextHealth returns the health h of a source, after the health was. It sets Since, and logs a change of the state.
func NextHealth(was, h models.Health, log *slog.Logger, message string) models.Health {
	h.Since = was.Since
	if h.State == was.State {
		return h
	}
	h.Since = time.Now()
	level := slog.LevelInfo
	if h.State == "down" || h.State == "degraded" {
		level = slog.LevelWarn
	}
	log.Log(context.Background(), level, message, "state", h.State, "reason", h.Reason)
	return h
}
