package nodes

import (
	"fmt"
	"maps"
	"slices"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/intent"
)

// Health implements [intent.Source].
func (s *Source) Health() models.Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.health
	h.Details = maps.Clone(h.Details)
	return h
}

// note remembers whether the values of a NodeIntent can be read.
func (s *Source) note(name string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.wrong, name); err != nil {
		s.wrong[name] = err
	}
}

// noteWrite remembers whether statuses can be written.
func (s *Source) noteWrite(err error) {
	s.mu.Lock()
	was := s.writeErr
	s.writeErr = err
	s.mu.Unlock()
	if err != nil && (was == nil || was.Error() != err.Error()) {
		s.opts.Log.Warn("NodeIntent status write failed; retrying", "error", err)
	}
}

// report updates the health.
func (s *Source) report() {
	whyIntents, askedIntents := s.followIntents.Trouble()
	whyNodes, _ := s.followNodes.Trouble()
	intents, states, nodes := s.intents.State(), s.states.State(), s.nodes.State()
	lacking, stay := intents.Lacking(intentResource, "nodeintent.yaml")
	s.mu.Lock()
	defer s.mu.Unlock()
	h := models.Health{Name: Name, State: "ok", Details: map[string]string{
		"node": s.opts.Node, "nodeintents": lacking, "keys": fmt.Sprint(s.applied), "version": s.intents.Newest(),
	}}
	if lacking == "" {
		h.Details["nodeintents"] = fmt.Sprint(intents.Objects)
	}
	switch {
	case !askedIntents:
		h.State, h.Reason = "starting", whyIntents
	case whyIntents != "":
		h.State, h.Reason = "down", whyIntents+"; the values of the NodeIntents stay"
	case !intents.Listed && intents.Refused == nil:
		h.State, h.Reason = "starting", "the NodeIntents were not listed yet"
	case intents.Older:
		h.State, h.Reason = "degraded", "the API server returned an older state, as after a restore of its etcd; no values are withdrawn; "+
			"run \"agentctl resync --accept\" to accept it"
	case stay:
		h.State, h.Reason = "degraded", lacking
	case intents.Objects > 0 && whyNodes != "":
		h.State, h.Reason = "down", fmt.Sprintf("the node %s cannot be read: %s; the values of its NodeIntents are kept", s.opts.Node, whyNodes)
	case intents.Objects > 0 && nodes.Listed && nodes.Objects == 0:
		h.State, h.Reason = "degraded", fmt.Sprintf("the API server has no node %s; the values of its NodeIntents are kept", s.opts.Node)
	case intents.Objects > 0 && states.Refused != nil:
		h.State, h.Reason = "degraded", fmt.Sprintf("the API server refuses nodeintentstates.plumb.net, which NodeIntents need: %v", states.Refused)
	case len(s.wrong) > 0:
		name := slices.Min(slices.Collect(maps.Keys(s.wrong)))
		h.Reason = fmt.Sprintf("the NodeIntent %s cannot be read: %v", name, s.wrong[name])
		if n := len(s.wrong) - 1; n > 0 {
			h.Reason += fmt.Sprintf("; and %d more", n)
		}
	}
	if s.writeErr != nil {
		if h.State == "ok" {
			h.State, h.Reason = "degraded", "a status cannot be written, so NodeIntents may not be applied: "+s.writeErr.Error()
		}
		h.Details["statuses"] = "they are not written: " + s.writeErr.Error()
	}
	s.health = intent.NextHealth(s.health, h, s.opts.Log, "NodeIntents of the API server")
}
