package api

import (
	"context"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/scheduler"
)

// Get implements the service.
func (s *Server) Get(ctx context.Context, r *apiv1.GetRequest) (*apiv1.KeyStatus, error) {
	st, err := s.get(ctx, r.Key)
	if err != nil {
		return nil, err
	}
	return keyStatus(st), nil
}

// List implements the service.
func (s *Server) List(ctx context.Context, r *apiv1.ListRequest) (*apiv1.ListResponse, error) {
	keep, err := stateFilter(r.States)
	if err != nil {
		return nil, err
	}
	var read func(ctx context.Context, targets []string) ([]scheduler.Status, error)
	switch {
	case r.Fresh && r.At != nil:
		return nil, refuse("what is read now is not as it was at another time; ask for one of them")
	case r.Fresh:
		read = s.inspect
	case r.At != nil:
		read = func(ctx context.Context, targets []string) ([]scheduler.Status, error) {
			return s.at(ctx, r.At.AsTime(), targets)
		}
	default:
		keys, err := s.now(ctx, r.Targets, keep, encoder(r.NoValues))
		return &apiv1.ListResponse{Keys: keys}, err
	}
	all, err := read(ctx, r.Targets)
	if err != nil {
		return nil, err
	}
	return &apiv1.ListResponse{Keys: keyStatuses(slices.DeleteFunc(all, func(st scheduler.Status) bool { return !keep(st) }), r.NoValues)}, nil
}

// now tells what the targets select, sorted. A target that is a key must be known. Without
// targets derived keys are told with their bases only.
func (s *Server) now(ctx context.Context, targets []string, keep func(scheduler.Status) bool, tell func(scheduler.Status) *apiv1.KeyStatus) ([]*apiv1.KeyStatus, error) {
	prefixes, err := s.prefixes(ctx, targets)
	if err != nil {
		return nil, err
	}
	var keys, below []scheduler.Key
	for _, p := range prefixes {
		if strings.HasSuffix(string(p), "/") {
			below = append(below, p)
		} else {
			keys = append(keys, p)
		}
	}
	var all []*apiv1.KeyStatus
	for _, k := range keys {
		st, err := s.get(ctx, string(k))
		if err != nil {
			return nil, err
		}
		if keep(st) {
			all = append(all, tell(st))
		}
	}
	bases := map[string]bool{}
	if len(below) > 0 || len(keys) == 0 {
		for st, err := range s.Scheduler.Statuses(ctx, below...) {
			if err != nil {
				return nil, fail(err)
			}
			if len(st.Derived) > 0 {
				bases[string(st.Key)] = true
			}
			if keep(st) {
				all = append(all, tell(st))
			}
		}
	}
	if len(targets) == 0 {
		all = slices.DeleteFunc(all, func(k *apiv1.KeyStatus) bool { return bases[k.Base] })
	}
	slices.SortStableFunc(all, func(a, b *apiv1.KeyStatus) int { return strings.Compare(a.Key, b.Key) })
	return slices.CompactFunc(all, func(a, b *apiv1.KeyStatus) bool { return a.Key == b.Key }), nil
}

// list is all there is, derived keys with their bases only.
func (s *Server) list(ctx context.Context) ([]scheduler.Status, error) {
	all, err := s.Scheduler.List(ctx)
	if err != nil {
		return nil, fail(err)
	}
	there := make(map[scheduler.Key]bool, len(all))
	for _, st := range all {
		there[st.Key] = true
	}
	return slices.DeleteFunc(all, func(st scheduler.Status) bool { return st.Base != "" && there[st.Base] }), nil
}

// inspect reads the actual state without repairing it, and returns what the targets
// select as it is now, derived keys on their own.
func (s *Server) inspect(ctx context.Context, targets []string) ([]scheduler.Status, error) {
	prefixes, err := s.prefixes(ctx, targets)
	if err != nil {
		return nil, err
	}
	for _, p := range prefixes {
		if !strings.HasSuffix(string(p), "/") {
			if _, err := s.get(ctx, string(p)); err != nil {
				return nil, err
			}
		}
	}
	all, err := s.Scheduler.Inspect(ctx, prefixes...)
	return flat(all), fail(err)
}

func (s *Server) lookTxn(ctx context.Context, note string, targets []string) (scheduler.Txn, error) {
	prefixes, err := s.prefixes(ctx, targets)
	if err != nil {
		return scheduler.Txn{}, err
	}
	if len(targets) > 0 {
		note += " " + strings.Join(targets, " ")
	}
	return scheduler.Txn{Note: note, Look: prefixes, LookAll: len(prefixes) == 0}, nil
}

// Kinds implements the service: the kinds of the models and those that are
// only registered.
func (s *Server) Kinds(context.Context, *apiv1.KindsRequest) (*apiv1.KindsResponse, error) {
	registered := map[string]scheduler.KindInfo{}
	for _, k := range s.Scheduler.Kinds() {
		registered[k.Name] = k
	}
	out := new(apiv1.KindsResponse)
	for _, k := range models.Kinds() {
		info, ok := registered[k.Name]
		delete(registered, k.Name)
		out.Kinds = append(out.Kinds, &apiv1.Kind{
			Name: k.Name, Prefix: k.Prefix, Writable: k.Writable,
			Observed: !k.Writable && (!ok || info.Observed), Unread: info.Unread,
			Unimplemented: !ok, Capabilities: info.Capabilities,
		})
	}
	for _, k := range s.Scheduler.Kinds() {
		if _, left := registered[k.Name]; left {
			out.Kinds = append(out.Kinds, &apiv1.Kind{
				Name: k.Name, Prefix: string(k.Prefix), Observed: k.Observed, Unread: k.Unread, Capabilities: k.Capabilities,
			})
		}
	}
	return out, nil
}

// Why implements the service.
func (s *Server) Why(ctx context.Context, r *apiv1.WhyRequest) (*apiv1.Cause, error) {
	c, err := s.Scheduler.Why(ctx, scheduler.Key(r.Key))
	if err != nil {
		if e := fail(err); connect.CodeOf(e) != connect.CodeNotFound {
			return nil, e
		}
		return nil, s.unknownKey(ctx, r.Key)
	}
	out := cause(c)
	out.Roots = s.roots(ctx, c.Roots, out)
	return out, nil
}

func cause(c scheduler.Cause) *apiv1.Cause {
	out := &apiv1.Cause{Status: keyStatus(c.Status), Text: c.Text}
	for _, b := range c.Because {
		out.Because = append(out.Because, cause(b))
	}
	if c.Record != nil {
		out.Record = record(*c.Record)
	}
	out.Chain, out.Again = doneSteps(c.Chain), c.Again
	return out
}

// History implements the service.
func (s *Server) History(ctx context.Context, r *apiv1.HistoryRequest) (*apiv1.HistoryResponse, error) {
	q := scheduler.HistoryQuery{Seq: r.Seq, Key: scheduler.Key(r.Key), Limit: int(r.Limit)}
	if r.Since != nil {
		q.Since = r.Since.AsTime()
	}
	out := new(apiv1.HistoryResponse)
	for _, rec := range s.Scheduler.History(q) {
		out.Records = append(out.Records, record(rec))
	}
	if r.Seq != 0 && len(out.Records) == 0 {
		return nil, notFound("transaction %d is not kept; see `agentctl history` for those that are", r.Seq)
	}
	return out, nil
}
