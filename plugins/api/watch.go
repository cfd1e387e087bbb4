package api

import (
	"context"

	"connectrpc.com/connect"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

// Watch implements the service. A client that does not read blocks this call
// and nothing else: the scheduler keeps only the last state of each key for it.
func (s *Server) Watch(ctx context.Context, r *apiv1.WatchRequest, out *connect.ServerStream[apiv1.WatchResponse]) error {
	prefixes, err := s.prefixes(r.Targets)
	if err != nil {
		return err
	}
	keep, err := stateFilter(r.States)
	if err != nil {
		return err
	}
	w := s.Scheduler.Watch(prefixes...)
	defer w.Stop()
	for told := false; ; {
		changes, inSync, err := w.Next(ctx)
		if err != nil {
			return fail(err)
		}
		msg := &apiv1.WatchResponse{InSync: inSync}
		for _, c := range changes {
			if keep(c) {
				msg.Changes = append(msg.Changes, keyStatus(c))
			}
		}
		if len(msg.Changes) == 0 && (told || !inSync) {
			continue
		}
		told = told || inSync
		if err := out.Send(msg); err != nil {
			return err
		}
	}
}
