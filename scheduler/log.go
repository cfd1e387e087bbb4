package scheduler

import (
	"context"
	"log/slog"
)

// logf hands a line to the log without waiting for it; a full queue drops.
func (s *Scheduler) logf(level slog.Level, msg string, args ...any) {
	if s.logs == nil {
		return
	}
	select {
	case s.logs <- func() { s.opts.Log.Log(context.Background(), level, msg, args...) }:
	default:
	}
}

func (s *Scheduler) writeLogs() {
	for {
		select {
		case f := <-s.logs:
			f()
		case <-s.stopped:
			for {
				select {
				case f := <-s.logs:
					f()
				default:
					return
				}
			}
		}
	}
}
