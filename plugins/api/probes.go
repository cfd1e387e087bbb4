package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/plumb-net/plumb/plugins/safetext"
	"github.com/plumb-net/plumb/scheduler"
)

// probeTime is how long the loop may take to show that it lives. It never does
// I/O, so a second is an age.
const probeTime = time.Second

// livez reports whether the scheduler's loop turns.
func (s *Server) livez(w http.ResponseWriter, r *http.Request) {
	if err := s.Alive(r.Context()); err != nil {
		http.Error(w, "not alive\n"+err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "alive")
}

// Alive is what is wrong with the loop, nil if it turns.
func (s *Server) Alive(ctx context.Context) error {
	_, err := s.probe(ctx)
	return err
}

// probe asks the loop something that takes no time. A loop that hangs keeps
// one goroutine waiting, however many probes come.
func (s *Server) probe(ctx context.Context) ([]scheduler.SourceState, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	type answer struct {
		sources []scheduler.SourceState
		err     error
	}
	answers := make(chan answer, 1)
	select {
	case s.probing <- struct{}{}:
	case <-ctx.Done():
		return nil, errHangs
	}
	go func() {
		defer func() { <-s.probing }()
		sources, err := s.Scheduler.Sources(ctx)
		answers <- answer{sources, err}
	}()
	select {
	case a := <-answers:
		if a.err != nil {
			return nil, fmt.Errorf("scheduler: the loop does not answer: %w", a.err)
		}
		return a.sources, nil
	case <-ctx.Done():
		return nil, errHangs
	}
}

var errHangs = errors.New("scheduler: the loop does not answer in time")

// readyz reports whether what is seen is all there is, and what stands against it.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	reasons := s.unready(r.Context())
	if len(reasons) > 0 {
		http.Error(w, "not ready\n"+strings.Join(reasons, "\n"), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}

// Ready reports whether the agent is ready, as /readyz does.
func (s *Server) Ready(ctx context.Context) bool { return len(s.unready(ctx)) == 0 }

// unready are the reasons why the agent is not ready; none means that it is.
func (s *Server) unready(ctx context.Context) []string {
	sources, err := s.probe(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	var reasons []string
	health := s.Health()
	optional := map[string]bool{}
	for _, h := range health {
		optional[h.Name] = h.Optional
	}
	for _, src := range sources {
		if !src.Synced && !optional[src.Name] {
			reasons = append(reasons, src.Name+": has not said yet what it wants; until then nothing is deleted")
		}
	}
	for _, h := range health {
		if h.State != "ok" && h.State != "off" && !h.Optional {
			reasons = append(reasons, safetext.Line(strings.TrimSuffix(h.Name+": "+h.State+": "+h.Reason, ": ")))
		}
	}
	return reasons
}
