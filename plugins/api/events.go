package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/events"
)

// fewEvents is how many events are told of unless it is said.
const fewEvents = 1000

// Events implements the service.
func (s *Server) Events(_ context.Context, r *apiv1.EventsRequest) (*apiv1.EventsResponse, error) {
	q, err := s.eventQuery(r)
	if err != nil {
		return nil, err
	}
	found, upTo := s.Config.Events.Query(q)
	return &apiv1.EventsResponse{Events: containerEvents(found), UpTo: upTo}, nil
}

// WatchEvents implements the service. A client that does not read blocks this
// call and nothing else: what it has is a place in the log.
func (s *Server) WatchEvents(ctx context.Context, r *apiv1.EventsRequest, out *connect.ServerStream[apiv1.EventsResponse]) error {
	q, err := s.eventQuery(r)
	switch {
	case err != nil:
		return err
	case r.Until != nil:
		return refuse("what comes has no end: until is not for watching")
	case r.After != nil && r.Limit > 0:
		return refuse("after means all that came since: limit is not for it")
	}
	first := new(apiv1.EventsResponse)
	if r.After != nil {
		first.UpTo = *r.After
	} else {
		var found []*events.Event
		found, first.UpTo = s.Config.Events.Query(q)
		if r.Since != nil || r.Limit > 0 {
			first.Events = containerEvents(found)
		}
	}
	w, err := s.Config.Events.Watch(q, first.UpTo)
	if err != nil {
		return connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("%w; end some `events -w`", err))
	}
	defer w.Stop()
	if err := out.Send(first); err != nil {
		return err
	}
	for {
		found, gap, err := w.Next(ctx)
		if err != nil {
			return fail(err)
		}
		msg := &apiv1.EventsResponse{Events: containerEvents(found), UpTo: w.At()}
		if gap != nil {
			msg.Gap = &apiv1.EventGap{From: gap.From, To: gap.To, Foreign: gap.Foreign}
		}
		if err := out.Send(msg); err != nil {
			return err
		}
	}
}

var errNoEvents = errors.New("no events are kept")

// eventQuery checks what is asked for.
func (s *Server) eventQuery(r *apiv1.EventsRequest) (q events.Query, err error) {
	if s.Config.Events == nil {
		return q, connect.NewError(connect.CodeUnavailable, errNoEvents)
	}
	for _, t := range r.Types {
		if !slices.Contains(events.Types(), events.Type(t)) {
			return q, refuse("there is no type %q of events; there are %s", t, join(events.Types()))
		}
		q.Types = append(q.Types, events.Type(t))
	}
	q.Container, q.Labels = strings.TrimPrefix(r.Container, "container/"), r.Labels
	q.After, q.Limit = r.GetAfter(), int(r.Limit)
	if q.Limit == 0 {
		q.Limit = fewEvents
	}
	if r.Since != nil {
		q.Since = r.Since.AsTime()
	}
	if r.Until != nil {
		if q.Until = r.Until.AsTime(); q.Until.Before(q.Since) {
			return q, refuse("since is after until")
		}
	}
	return q, nil
}

func join[T ~string](all []T) string {
	texts := make([]string, len(all))
	for i, t := range all {
		texts[i] = string(t)
	}
	return strings.Join(texts, ", ")
}

func containerEvents(all []*events.Event) []*apiv1.ContainerEvent {
	out := make([]*apiv1.ContainerEvent, len(all))
	for i, e := range all {
		out[i] = containerEvent(e)
	}
	return out
}

func containerEvent(e *events.Event) *apiv1.ContainerEvent {
	out := &apiv1.ContainerEvent{
		Seq: e.Seq, Time: timestamp(e.At), Seen: timestamp(e.Seen), Type: string(e.Type), Earlier: e.Earlier,
		Runtime: e.Runtime, ContainerId: e.ID, Name: e.Name, Image: e.Image, Labels: e.Labels, Microservice: e.Microservice,
		State: e.State, Pid: uint32(e.Run.Pid), Netns: e.Run.Netns, StartedAt: timestamp(e.Run.StartedAt),
		OldName: e.OldName, OldImage: e.OldImage, Amends: e.Amends, FoundLater: e.FoundLater, Detail: e.Detail,
	}
	if x := e.Exit; x != nil {
		code := int32(x.Code)
		out.ExitCode, out.Signal, out.Reason = &code, uint32(x.Signal), x.Reason
		out.StartedAt, out.FinishedAt = timestamp(x.StartedAt), timestamp(x.FinishedAt)
	}
	if k := e.OOM; k != nil {
		out.Oom = &apiv1.OOMKill{
			Pid: uint32(k.Pid), Process: strings.ToValidUTF8(k.Process, "\uFFFD"), Cgroup: k.Cgroup,
			Owner: k.Owner, OwnerCgroup: k.OwnerCgroup,
			Constraint: k.Constraint, Source: k.Source, Count: uint32(max(1, k.Count)),
			Time: timestamp(k.At), All: k.All,
		}
	}
	return out
}
