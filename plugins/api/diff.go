package api

import (
	"context"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/scheduler"
)

// Diff implements the service. The actual state is read first; a key differs if it is
// not as wanted, or if something would be done about it.
func (s *Server) Diff(ctx context.Context, r *apiv1.DiffRequest) (*apiv1.DiffResponse, error) {
	all, err := s.inspect(ctx, r.Targets)
	if err != nil {
		return nil, err
	}
	out := &apiv1.DiffResponse{Outcome: "same"}
	for _, st := range all {
		d := difference(st)
		if d == nil {
			continue
		}
		out.Differences = append(out.Differences, d)
		if !d.Excluded {
			out.Outcome = "differs"
		}
	}
	return out, nil
}

// due is what would be done about a key that is not as wanted, "" for nothing.
func due(st scheduler.Status) string {
	switch {
	case st.State == scheduler.Leftover && st.Grade != scheduler.GradeAlert:
		return scheduler.OpDelete.String()
	case st.State != scheduler.Drifted, st.Drift == scheduler.DriftAlert, st.Drift == scheduler.DriftIgnore:
		return ""
	case st.Actual == nil:
		return scheduler.OpCreate.String()
	}
	return scheduler.OpUpdate.String()
}

// flat puts derived keys beside their base, each key once.
func flat(all []scheduler.Status) []scheduler.Status {
	var out []scheduler.Status
	seen := map[scheduler.Key]bool{}
	var add func([]scheduler.Status)
	add = func(some []scheduler.Status) {
		for _, st := range some {
			if !seen[st.Key] {
				seen[st.Key] = true
				out = append(out, st)
			}
			add(st.Derived)
		}
	}
	add(all)
	return out
}

// difference is nil if the key is as wanted. What a route makes reachable is nothing beside the route.
func difference(st scheduler.Status) *apiv1.Difference {
	if st.Kind == models.KindOnLink {
		return nil
	}
	switch st.State {
	case scheduler.Absent, scheduler.Removed, scheduler.Observed:
		return nil
	case scheduler.Configured:
		if st.Reason == "" { // else it differs, and its policy ignores that
			return nil
		}
	}
	left := st.Drift == scheduler.DriftAlert || st.Drift == scheduler.DriftIgnore
	d := &apiv1.Difference{
		Key: string(st.Key), State: st.State.String(), Reason: st.Reason, Op: due(st),
		Excluded: st.State == scheduler.Paused || st.State == scheduler.InvalidState || left,
		Grade:    st.Grade.String(), Owner: st.Owner,
	}
	if st.Desired != nil && st.Actual != nil {
		compare("", value(st.Desired), value(st.Actual), d)
	}
	return d
}

// compare names the fields that are wanted and different. What is there and
// not asked for (a hardware address that the kernel chose) is no difference.
func compare(path string, desired, actual *structpb.Value, d *apiv1.Difference) {
	want, ok := desired.GetKind().(*structpb.Value_StructValue)
	have, both := actual.GetKind().(*structpb.Value_StructValue)
	if !ok || !both {
		if !proto.Equal(desired, actual) {
			d.Fields = append(d.Fields, &apiv1.FieldDifference{Field: path, Desired: desired, Actual: actual})
		}
		return
	}
	for _, name := range slices.Sorted(maps.Keys(want.StructValue.GetFields())) {
		at := name
		if path != "" {
			at = path + "." + name
		}
		compare(at, want.StructValue.Fields[name], have.StructValue.GetFields()[name], d)
	}
}
