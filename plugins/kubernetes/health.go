package kubernetes

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/intent"
)

// count updates the number of keys, and drops the records of pods that no ADD can be waiting for.
func (s *Source) count(older bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys, s.held = 0, older
	for _, p := range s.pods {
		s.keys += len(p.values)
	}
	for _, m := range []map[string]time.Time{s.gone, s.asked} {
		maps.DeleteFunc(m, func(_ string, at time.Time) bool { return time.Since(at) > forget })
	}
}

// forget is the age at which records of deleted pods and of reads are dropped. No ADD waits so long.
const forget = 10 * time.Minute

// Health implements [intent.Source].
func (s *Source) Health() models.Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.health
	h.Details = maps.Clone(h.Details)
	return h
}

// report updates the health.
func (s *Source) report() {
	why, asked := s.follow.Trouble()
	whyIntents, askedIntents := s.followIntents.Trouble()
	why, asked = cmp.Or(why, whyIntents), asked && askedIntents
	pods, intents := s.store.State(), s.intents.State()
	lacking, stay := intents.Lacking(podIntentResource, "podintent.yaml")
	s.mu.Lock()
	defer s.mu.Unlock()
	h := models.Health{Name: Name, State: "ok", Details: map[string]string{
		"node": s.opts.Node, "pods": fmt.Sprint(pods.Objects), "podintents": cmp.Or(lacking, fmt.Sprint(intents.Objects)),
		"keys": fmt.Sprint(s.keys), "version": s.store.Newest(),
	}}
	switch {
	case !asked:
		h.State, h.Reason = "starting", why
	case why != "":
		h.State, h.Reason = "down", why+"; the values of the pods stay"
	case !pods.Listed:
		h.State, h.Reason = "starting", "the pods were not listed yet"
	case !intents.Listed && intents.Refused == nil:
		h.State, h.Reason = "starting", "the PodIntents were not listed yet"
	case pods.Older || intents.Older:
		h.State, h.Reason = "degraded", "the API server is older than before, as after a restore of its etcd; no value is withdrawn; "+
			"run \"agentctl resync --accept\" to accept it"
	case stay:
		h.State, h.Reason = "degraded", lacking
	case len(s.wrong) > 0:
		path := slices.Min(slices.Collect(maps.Keys(s.wrong)))
		h.Reason = fmt.Sprintf("the intent of the pod %s cannot be read: %v", path, s.wrong[path])
		if n := len(s.wrong) - 1; n > 0 {
			h.Reason += fmt.Sprintf("; and of %d more", n)
		}
	}
	if s.writeErr != nil {
		h.Details["statuses"] = "they are not written: " + s.writeErr.Error()
	}
	s.health = intent.NextHealth(s.health, h, s.opts.Log, "pods of the API server")
}
