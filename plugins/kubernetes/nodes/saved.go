package nodes

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumb-net/plumb/plugins/kubernetes/mirror"
)

// copyFormat is the format of a copy.
const copyFormat = "plumb nodeintents 1"

// savedNode is a copy of the NodeIntents and their rollouts, for a start without the API server.
type savedNode struct {
	// Version is the newest version of the NodeIntents, and CRD the UID of their CRD.
	Version  string     `json:"version"`
	CRD      types.UID  `json:"crd,omitempty"`
	Intents  []*Intent  `json:"nodeintents,omitempty"`
	Rollouts []*rollout `json:"rollouts,omitempty"`
}

// save writes the copy.
func (s *Source) save() error {
	if s.opts.File == "" {
		return nil
	}
	saved := savedNode{Version: s.intents.Newest(), CRD: s.intents.CRD(), Intents: s.intents.All()}
	slices.SortFunc(saved.Intents, (*Intent).compare)
	for _, name := range slices.Sorted(maps.Keys(s.rollouts)) {
		saved.Rollouts = append(saved.Rollouts, s.rollouts[name])
	}
	return mirror.WriteCopy(s.opts.File, copyFormat, saved)
}

// load reads the copy of an earlier run.
func (s *Source) load() {
	if s.opts.File == "" {
		return
	}
	var saved savedNode
	if err := mirror.ReadCopy(s.opts.File, copyFormat, &saved); err != nil {
		s.opts.Log.Warn("cannot use NodeIntent copy", "error", err)
		return
	}
	s.intents.Load(saved.Intents, saved.Version, saved.CRD)
	for _, r := range saved.Rollouts {
		s.rollouts[r.Name] = r
	}
}
