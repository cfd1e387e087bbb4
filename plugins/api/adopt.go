package api

import (
	"context"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/scheduler"
)

// Surveyor looks for what others made and nobody wants.
type Surveyor interface {
	// Survey returns it as values that equal it, and what is left out.
	Survey(ctx context.Context) (map[scheduler.Key]Made, []LeftOut, error)
}

// Made is what others made, as a value. Elsewhere is not the namespace of the agent.
type Made struct {
	Value     proto.Message
	Elsewhere bool
}

// LeftOut is what exists and is not to be adopted, and why.
type LeftOut struct{ What, Why string }

// Adopt implements the service.
func (s *Server) Adopt(ctx context.Context, r *apiv1.AdoptRequest) (*apiv1.AdoptResponse, error) {
	prefixes, err := s.prefixes(ctx, r.Targets)
	if err != nil {
		return nil, err
	}
	if s.Surveyor == nil {
		return nil, notNow("this agent cannot look for what others made")
	}
	all, left, err := s.Surveyor.Survey(ctx)
	if err != nil {
		return nil, fail(err)
	}
	out := new(apiv1.AdoptResponse)
	chosen := choose(all, prefixes, r.AllNamespaces)
	for _, k := range slices.Sorted(maps.Keys(chosen)) {
		out.Items = append(out.Items, &apiv1.Item{Key: string(k), Value: value(chosen[k])})
	}
	for _, l := range left {
		out.LeftOut = append(out.LeftOut, &apiv1.LeftOut{What: l.What, Reason: l.Why})
	}
	return out, nil
}

// choose picks what the prefixes select, and what that names. The prefix of a whole kind selects what is
// elsewhere only if that is asked for.
func choose(all map[scheduler.Key]Made, prefixes []scheduler.Key, elsewhere bool) map[scheduler.Key]proto.Message {
	chosen := map[scheduler.Key]proto.Message{}
	var take func(k scheduler.Key)
	take = func(k scheduler.Key) {
		made, there := all[k]
		if _, twice := chosen[k]; !there || twice {
			return
		}
		chosen[k] = made.Value
		for _, name := range interfacesOf(made.Value) {
			take(scheduler.Key(models.InterfaceKey(name)))
		}
	}
	for k := range all {
		selected := func(p scheduler.Key) bool {
			if wholeKind := strings.Count(string(p), "/") == 1 && strings.HasSuffix(string(p), "/"); wholeKind && all[k].Elsewhere && !elsewhere {
				return false
			}
			return k == p || strings.HasSuffix(string(p), "/") && strings.HasPrefix(string(k), string(p))
		}
		if len(prefixes) == 0 || slices.ContainsFunc(prefixes, selected) {
			take(k)
		}
	}
	return chosen
}

// interfacesOf are the interfaces that a value names.
func interfacesOf(v proto.Message) (names []string) {
	switch v := v.(type) {
	case *models.Interface:
		return []string{v.GetMaster(), v.Parent(), v.GetVeth().GetPeer()}
	case *models.Route:
		for _, h := range v.GetNexthops() {
			names = append(names, h.GetInterface())
		}
		return append(names, v.GetInterface())
	case *models.Rule:
		return v.Interfaces()
	case interface{ GetInterface() string }:
		return []string{v.GetInterface()}
	}
	return nil
}
