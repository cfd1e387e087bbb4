package api

import (
	"context"
	"errors"
	"sync/atomic"

	"connectrpc.com/connect"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/scheduler"
)

// maxWatchers is how many calls may follow statuses at a time. The scheduler
// has room for 64, and others of the agent follow them too.
const maxWatchers = 48

// follower is a watcher that counts.
func (s *Server) follower(prefixes []scheduler.Key) (Watcher, error) {
	if s.watchers.Add(1) > maxWatchers {
		s.watchers.Add(-1)
		return nil, connect.NewError(connect.CodeResourceExhausted, errTooMany)
	}
	return counted{s.Scheduler.Watch(prefixes...), &s.watchers}, nil
}

var errTooMany = errors.New("48 calls follow statuses already; end some `get -w` or `wait`")

type counted struct {
	Watcher
	n *atomic.Int32
}

func (c counted) Stop() {
	c.Watcher.Stop()
	c.n.Add(-1)
}

// Watch implements the service. A client that does not read blocks this call
// and nothing else: the scheduler keeps only the last state of each key for it.
func (s *Server) Watch(ctx context.Context, r *apiv1.WatchRequest, out *connect.ServerStream[apiv1.WatchResponse]) error {
	prefixes, err := s.prefixes(ctx, r.Targets)
	if err != nil {
		return err
	}
	keep, err := stateFilter(r.States)
	if err != nil {
		return err
	}
	w, err := s.follower(prefixes)
	if err != nil {
		return err
	}
	defer w.Stop()
	encode := encoder(r.NoValues)
	for told := false; ; {
		changes, inSync, err := w.Next(ctx)
		if err != nil {
			return fail(err)
		}
		msg := &apiv1.WatchResponse{InSync: inSync}
		for _, c := range changes {
			derived := len(prefixes) == 0 && c.Base != "" // comes with its base
			if keep(c) && !derived {
				msg.Changes = append(msg.Changes, encode(c))
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
