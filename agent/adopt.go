package agent

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/descriptors/iface"
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/neighbor"
	"github.com/plumb-net/plumb/descriptors/qdisc"
	"github.com/plumb-net/plumb/descriptors/route"
	"github.com/plumb-net/plumb/descriptors/rule"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/api"
	"github.com/plumb-net/plumb/scheduler"
)

// Survey implements [api.Surveyor] for the agent's namespace and those that have a name.
func (a *agent) Survey(ctx context.Context) (map[scheduler.Key]api.Made, []api.LeftOut, error) {
	// Handles of its own: nobody needs them afterwards.
	k, end, err := a.host.kernel.again()
	if err != nil {
		return nil, nil, err
	}
	defer end()
	s := &kind.Survey{Kernel: k, Owner: a.host.owner, Names: &kernel.Names{}, Wanted: map[scheduler.Key]proto.Message{}}
	s.Refused = func(key string, v proto.Message) error { return a.reach.of(key).Check(key, v) }
	all, err := a.sched.List(ctx)
	if err != nil {
		return nil, nil, err
	}
	noteWanted(s, all)
	if s.Places, err = places(k, a.config.NetnsDir); err != nil {
		return nil, nil, err
	}
	s.Places = slices.DeleteFunc(s.Places, func(p kind.Place) bool { return leaveToOthers(s, p) })
	for _, survey := range []func(*kind.Survey) error{iface.Survey, route.Survey, rule.Survey, neighbor.Survey, qdisc.Survey} {
		if err := survey(s); err != nil {
			return nil, nil, err
		}
	}
	found, left := map[scheduler.Key]api.Made{}, []api.LeftOut{}
	for _, f := range s.Found {
		found[f.Key] = api.Made{Value: f.Value, Elsewhere: f.Place.NS != k.Own()}
	}
	for _, l := range s.Left {
		left = append(left, api.LeftOut(l))
	}
	return found, left, nil
}

// noteWanted tells a survey what is wanted already.
func noteWanted(s *kind.Survey, all []scheduler.Status) {
	for _, st := range all {
		if st.Desired == nil {
			continue
		}
		s.Wanted[st.Key], _ = st.Desired.(proto.Message)
		if ref, there := kind.LinkOfStatus(st); there && st.Kind == models.KindInterface {
			s.Names.Put(ref, strings.TrimPrefix(string(st.Key), models.KindInterface+"/"))
		}
	}
}

// leaveToOthers reports whether a named namespace has the mark of another agent, and leaves it out. The
// loopback has the mark.
func leaveToOthers(s *kind.Survey, p kind.Place) bool {
	lo, err := s.Kernel.Link(p.NS, "lo")
	_, ours := s.Owner.MarkedKey(lo.Alias)
	if p.Name == "" || err != nil || ours || !kernel.IsMark(lo.Alias) {
		return false
	}
	s.Leave(kind.Place{}, "netns "+p.Name, "it is of another agent (%s)", lo.Alias)
	return true
}

// places are the agent's namespace and those with a name, each once.
func places(k kernel.Kernel, dir string) ([]kind.Place, error) {
	list := []kind.Place{{NS: k.Own()}}
	named, err := k.ListNamed()
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		ns, err := k.Open(filepath.Join(dir, name))
		if kernel.IsGone(err) || slices.ContainsFunc(list, func(p kind.Place) bool { return p.NS == ns }) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("open the namespace %s: %w", name, err)
		}
		list = append(list, kind.Place{NS: ns, Name: name, In: &models.Namespace{In: &models.Namespace_Netns{Netns: name}}})
	}
	return list, nil
}
