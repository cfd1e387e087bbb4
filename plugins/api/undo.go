package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/scheduler"
)

// Undo implements the service. What it writes goes the way of every other change: it can be
// planned, waited for and has to be confirmed if that is asked.
func (s *Server) Undo(ctx context.Context, r *apiv1.UndoRequest) (*apiv1.UndoResponse, error) {
	req := r.Apply
	if req == nil {
		req = new(apiv1.ApplyRequest)
	}
	if len(req.Items)+len(req.Delete) > 0 || req.Set != "" || req.Prune || req.Plan != nil {
		return nil, refuse("what an undo writes is in the history; give nothing beside the number but how it is applied")
	}
	rec, err := s.undone(r.Seq)
	if err != nil {
		return nil, err
	}
	inverse, notes, err := s.inverse(ctx, rec, req.Force)
	if err != nil {
		return nil, err
	}
	req = proto.CloneOf(req)
	req.Items, req.Delete, req.Force = inverse.Items, inverse.Delete, false
	if req.Message == "" {
		req.Message = fmt.Sprintf("undo %d", rec.Seq)
	}
	out, err := s.Apply(ctx, req)
	if err != nil {
		return nil, err
	}
	out.Notes = append(notes, out.Notes...)
	return &apiv1.UndoResponse{Seq: rec.Seq, Note: rec.Note, Apply: out}, nil
}

// undone is the record of the transaction to undo.
func (s *Server) undone(seq uint64) (scheduler.Record, error) {
	if seq != 0 {
		found := s.Scheduler.History(scheduler.HistoryQuery{Seq: seq})
		if len(found) == 0 {
			return scheduler.Record{}, notFound("the history has no transaction %d; see `agentctl history`", seq)
		}
		if found[0].Complete {
			return found[0], notNow("transaction %d read all of %s anew, after a start or a cut: it has no inverse", seq, found[0].Source)
		}
		return found[0], nil
	}
	all := s.Scheduler.History(scheduler.HistoryQuery{})
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Source != s.StoreSource || all[i].Complete {
			continue
		}
		for _, rec := range s.Scheduler.History(scheduler.HistoryQuery{Seq: all[i].Seq}) {
			if len(s.intentChanges(rec)) > 0 {
				return rec, nil
			}
		}
	}
	return scheduler.Record{}, notNow("the history has no transaction that changed intent in the store")
}

// intentChanges are the changes of a record to what the store wants.
func (s *Server) intentChanges(r scheduler.Record) (out []scheduler.KeyChange) {
	for _, c := range r.Changed {
		ours := c.Before.Origin == s.StoreSource || c.After.Origin == s.StoreSource
		if ours && (c.Before.Desired != nil || c.After.Desired != nil) {
			out = append(out, c)
		}
	}
	return out
}

// inverse is what brings back what a transaction changed. Keys that somebody has changed
// since are theirs: they are refused, unless that is forced.
func (s *Server) inverse(ctx context.Context, r scheduler.Record, force bool) (out *apiv1.ApplyRequest, notes []string, err error) {
	changes := s.intentChanges(r)
	if len(changes) == 0 {
		return nil, nil, notNow("transaction %d changed nothing that the store wants", r.Seq)
	}
	out = new(apiv1.ApplyRequest)
	var moved []string
	for _, c := range changes {
		for _, v := range []any{c.Before.Desired, c.After.Desired} {
			if _, unread := v.(scheduler.Encoded); unread {
				return nil, nil, notNow("what %s was in transaction %d cannot be read by this release", c.Key, r.Seq)
			}
		}
		was, err := s.valueOf(ctx, c.Key)
		if err != nil {
			return nil, nil, err
		}
		if !bytes.Equal(was, storedText(c.After.Desired)) {
			moved = append(moved, string(c.Key))
		}
		if before := storedText(c.Before.Desired); before != nil {
			out.Items = append(out.Items, &apiv1.Item{Key: string(c.Key), Text: string(before)})
		} else {
			out.Delete = append(out.Delete, string(c.Key))
		}
	}
	if len(moved) > 0 && !force {
		return nil, nil, notNow("%s changed after transaction %d; see `agentctl history --key %s`; --force undoes it all the same",
			strings.Join(moved, ", "), r.Seq, moved[0])
	}
	for _, k := range moved {
		notes = append(notes, k+" was changed since, and is brought back nevertheless")
	}
	return out, notes, nil
}

// valueOf is what the store wants of a key now; nil for nothing.
func (s *Server) valueOf(ctx context.Context, k scheduler.Key) ([]byte, error) {
	st, err := s.Scheduler.Get(ctx, k)
	switch {
	case errors.Is(err, scheduler.ErrUnknownKey), err == nil && st.Origin != s.StoreSource:
		return nil, nil
	case err != nil:
		return nil, fail(err)
	}
	return storedText(st.Desired), nil
}

// storedText is a value as the store has it; nil for none.
func storedText(v any) []byte {
	if m, ok := v.(proto.Message); ok {
		return models.Encode(m)
	}
	return nil
}
