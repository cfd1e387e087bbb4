package api

import (
	"context"
	"errors"
	"runtime"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/loglevel"
)

// AgentStatus implements the service.
func (s *Server) AgentStatus(ctx context.Context, _ *apiv1.AgentStatusRequest) (*apiv1.AgentStatusResponse, error) {
	out := &apiv1.AgentStatusResponse{
		State: "ready", Reasons: s.unready(ctx),
		Label: s.Label, Version: s.Config.Version, Started: timestamp(s.Started),
		Parts: health(s.Health()),
	}
	if len(out.Reasons) > 0 {
		out.State = "not ready"
	}
	if s.Freezer != nil {
		out.Freeze = freeze(s.Freezer.Frozen())
		out.Frozen = out.Freeze != nil
	}
	if s.Confirms != nil {
		out.Confirm = confirmation(s.Confirms.Outstanding())
	}
	out.Converged = s.Store.Converged()
	sources, err := s.probe(ctx)
	if err != nil {
		return out, nil // the reasons say it
	}
	for _, src := range sources {
		out.Sources = append(out.Sources, &apiv1.Source{Name: src.Name, Synced: src.Synced, Keys: uint32(src.Keys)})
	}
	if out.Held, err = s.held(""); err != nil {
		return nil, err
	}
	count := map[string]uint32{}
	for st, err := range s.Scheduler.Statuses(ctx) {
		if err != nil {
			return nil, fail(err)
		}
		count[st.State.String()]++
	}
	for _, state := range states() {
		if n := count[state]; n > 0 {
			out.Keys = append(out.Keys, &apiv1.StateCount{State: state, Count: n})
		}
	}
	return out, nil
}

// Version implements the service.
func (s *Server) Version(ctx context.Context, _ *apiv1.VersionRequest) (*apiv1.VersionResponse, error) {
	return &apiv1.VersionResponse{Version: s.Config.Version, Commit: s.Commit, Go: runtime.Version(), Label: s.Label, Role: callerOf(ctx).role.String()}, nil
}

// Logs implements the service.
func (s *Server) Logs(context.Context, *apiv1.LogsRequest) (*apiv1.LogsResponse, error) {
	out := new(apiv1.LogsResponse)
	for _, name := range s.Levels.Names() {
		level, byDefault := s.Levels.Level(name)
		out.Logs = append(out.Logs, &apiv1.Log{Name: name, Level: level, ByDefault: byDefault})
	}
	return out, nil
}

// SetLog implements the service.
func (s *Server) SetLog(ctx context.Context, r *apiv1.SetLogRequest) (*apiv1.LogsResponse, error) {
	switch err := s.Levels.Set(r.Name, r.Level); {
	case errors.Is(err, loglevel.ErrUnknown):
		return nil, notFound("%w", err)
	case err != nil:
		return nil, refuse("%w", err)
	}
	return s.Logs(ctx, nil)
}
