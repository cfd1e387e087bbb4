package api

import (
	"context"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

// Plan implements the service.
func (s *Server) Plan(ctx context.Context, r *apiv1.PlanRequest) (*apiv1.PlanResponse, error) {
	ws, err := wishes(r.Items, false, "")
	if err != nil {
		return nil, err
	}
	out, err := s.dryRun(ctx, request{wishes: ws, deletes: r.Delete, set: r.Set, prune: r.Prune})
	if err != nil {
		return nil, err
	}
	return out.Plan, nil
}
