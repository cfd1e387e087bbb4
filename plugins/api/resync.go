package api

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/plumb-net/plumb/plugins/access"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/scheduler"
)

// Resync implements the service.
func (s *Server) Resync(ctx context.Context, r *apiv1.ResyncRequest) (*apiv1.ResyncResponse, error) {
	if r.Accept {
		if err := need(ctx, access.Admin, "resync --accept"); err != nil {
			return nil, err
		}
		if s.Accept == nil {
			return nil, notNow("this agent has no store that could be accepted")
		}
		if err := s.Accept(ctx); err != nil {
			return nil, fail(err)
		}
	}
	out := &apiv1.ResyncResponse{Outcome: "done"}
	if len(r.Targets) == 0 {
		if c, err := s.Store.Verify(ctx); err == nil { // else the status says it
			out.Store = &apiv1.StoreCheck{Revision: c.Revision, Keys: uint32(c.Keys), Differed: c.Differ}
		}
	}
	txn, err := s.resyncTxn(ctx, r.Targets)
	if err != nil {
		return nil, err
	}
	res, err := s.Scheduler.Apply(ctx, txn)
	if err != nil {
		return nil, fail(err)
	}
	out.Looked = uint32(len(res.Keys))
	for _, rec := range s.Scheduler.History(scheduler.HistoryQuery{Seq: res.Seq}) {
		out.Record = record(rec)
	}
	var odd []scheduler.Key
	for _, st := range res.Keys {
		switch st.State {
		case scheduler.Configured, scheduler.Observed, scheduler.Removed, scheduler.Absent:
			continue
		case scheduler.Failed, scheduler.Retrying, scheduler.Unknown, scheduler.Drifted:
			out.Outcome = "not configured"
		}
		odd = append(odd, st.Key)
	}
	if len(odd) == 0 {
		return out, nil
	}
	all, err := s.Scheduler.List(ctx, odd...)
	if err != nil {
		return nil, fail(err)
	}
	out.Keys = keyStatuses(all, false)
	return out, nil
}

// resyncTxn looks at what the targets select. Known keys are named beside
// their kinds: a transaction waits for the keys that it names, not for a look
// at a whole kind.
func (s *Server) resyncTxn(ctx context.Context, targets []string) (scheduler.Txn, error) {
	txn, err := s.lookTxn(ctx, "resync", targets)
	if err != nil {
		return txn, err
	}
	known, err := s.Scheduler.List(ctx, txn.Look...)
	if err != nil {
		return txn, fail(err)
	}
	for _, st := range known {
		txn.Look = append(txn.Look, st.Key)
	}
	slices.Sort(txn.Look)
	txn.Look = slices.Compact(txn.Look)
	return txn, nil
}

// Pause implements the service.
func (s *Server) Pause(ctx context.Context, r *apiv1.PauseRequest) (*apiv1.PauseResponse, error) {
	target, err := s.pauseTarget(ctx, r.Target)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(r.Reason) == "" {
		return nil, refuse("a pause needs a reason, for whoever finds it: --reason TEXT")
	}
	var until time.Time
	if d := r.For.AsDuration(); d < 0 {
		return nil, refuse("a pause of %s is over before it begins", d)
	} else if d > 0 {
		until = s.Now().Add(d)
	}
	if err := s.Scheduler.Pause(target, r.Reason, until); err != nil {
		return nil, fail(err)
	}
	return &apiv1.PauseResponse{Target: string(target), Until: timestamp(until)}, nil
}

// Resume implements the service.
func (s *Server) Resume(ctx context.Context, r *apiv1.ResumeRequest) (*apiv1.ResumeResponse, error) {
	target, err := s.pauseTarget(ctx, r.Target)
	if err != nil {
		return nil, err
	}
	if err := s.Scheduler.Resume(target); err != nil {
		return nil, fail(err)
	}
	return &apiv1.ResumeResponse{Target: string(target)}, nil
}

func (s *Server) pauseTarget(ctx context.Context, target string) (scheduler.Key, error) {
	if target == "" {
		return "", refuse("name a key, a kind or a prefix")
	}
	return s.prefix(ctx, target)
}
