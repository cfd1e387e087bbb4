package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// probeTime is how long the loop may take to show that it lives. It never does
// I/O, so a second is an age.
const probeTime = time.Second

// livez tells whether the scheduler's loop turns.
func (s *Server) livez(w http.ResponseWriter, r *http.Request) {
	if err := s.alive(r.Context()); err != nil {
		http.Error(w, "not alive\n"+err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "alive")
}

func (s *Server) alive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	if _, err := s.Scheduler.Sources(ctx); err != nil {
		return fmt.Errorf("scheduler: the loop does not answer: %w", err)
	}
	return nil
}

// readyz tells whether what is seen is all there is, and what stands against it.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	reasons := s.unready(r.Context())
	if len(reasons) > 0 {
		http.Error(w, "not ready\n"+strings.Join(reasons, "\n"), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}

// unready are the reasons why the agent is not ready; none means that it is.
func (s *Server) unready(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	sources, err := s.Scheduler.Sources(ctx)
	if err != nil {
		return []string{"scheduler: the loop does not answer: " + err.Error()}
	}
	var reasons []string
	for _, src := range sources {
		if !src.Spoken {
			reasons = append(reasons, src.Name+": has not said yet what it wants; until then nothing is deleted")
		}
	}
	for _, h := range s.Health() {
		if h.State != "ok" && h.State != "off" {
			reasons = append(reasons, strings.TrimSuffix(h.Name+": "+h.State+": "+h.Reason, ": "))
		}
	}
	return reasons
}
