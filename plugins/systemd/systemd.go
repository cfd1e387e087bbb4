// Package systemd tells the service manager that started this program how it is, as
// sd_notify(3) says: ready, alive, stopping. Without a service manager that wants to
// know it says nothing.
package systemd

import (
	"context"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// beats is how often within the time of the watchdog it is told that the service lives: one
// question that a busy machine answers too late does not end it.
const beats = 3

// Service is what the service manager is told about.
type Service struct {
	// Ready blocks until others can speak with the service.
	Ready func(context.Context) error
	// Alive is what is wrong with it, nil if it works on.
	Alive func(context.Context) error
	Log   *slog.Logger
}

// Run tells how the service is, until ctx ends, with which the service begins to stop.
func (s Service) Run(ctx context.Context) error {
	defer s.tell(daemon.SdNotifyStopping)
	if err := s.Ready(ctx); err != nil {
		return err
	}
	s.tell(daemon.SdNotifyReady)
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		s.Log.Warn("what the service manager says of its watchdog cannot be read", "error", err)
	}
	if limit == 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	beat := time.NewTicker(limit / beats)
	defer beat.Stop()
	for {
		if err := s.Alive(ctx); err == nil {
			s.tell(daemon.SdNotifyWatchdog)
		} else if ctx.Err() == nil {
			s.Log.Error("the service manager is not told that this program lives, and will end it unless that changes", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-beat.C:
		}
	}
}

func (s Service) tell(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		s.Log.Warn("the service manager cannot be told", "state", state, "error", err)
	}
}
