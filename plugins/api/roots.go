package api

import (
	"context"
	"strings"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
	tracker "github.com/plumb-net/plumb/plugins/container"
	"github.com/plumb-net/plumb/plugins/diagnosis"
	"github.com/plumb-net/plumb/plugins/events"
	"github.com/plumb-net/plumb/scheduler"
)

// fewEnds is of how many deaths it is asked whose one was.
const fewEnds = 1000

// roots says of each root what is the matter and what to do. What is known better here
// than in the scheduler is said in the chain too.
func (s *Server) roots(ctx context.Context, roots []scheduler.Root, chain *apiv1.Cause) []*apiv1.Root {
	var out []*apiv1.Root
	for _, r := range roots {
		found := diagnosis.Diagnose(r, s.facts(ctx, r))
		out = append(out, &apiv1.Root{Key: string(r.Key), Kind: r.Kind.String(), Text: found.Text, Advice: found.Advice, For: string(r.For)})
		retell(chain, string(r.Key), r.Text, found.Text)
	}
	return out
}

// retell puts a better text of a key into the chain.
func retell(c *apiv1.Cause, key, from, to string) {
	if c.Status.GetKey() == key && c.Text == from {
		c.Text = to
	}
	for _, b := range c.Because {
		retell(b, key, from, to)
	}
}

// facts are what is known around a root. What cannot be had is left out: an answer that
// says less is better than none.
func (s *Server) facts(ctx context.Context, r scheduler.Root) diagnosis.Facts {
	f := diagnosis.Facts{Label: s.Label}
	kind, _, _ := strings.Cut(string(r.Key), "/")
	around := []scheduler.Key{scheduler.Key(kind + "/"), models.KindInterface + "/", models.KindHostLink + "/", models.KindContainer + "/"}
	for _, k := range []scheduler.Key{r.For, r.By} {
		if k != "" && !strings.HasSuffix(string(k), "/") {
			around = append(around, k)
		}
	}
	if below := diagnosis.Below(r); below != "" {
		f.Keys, _ = s.Scheduler.Inspect(ctx, below)
	}
	known, _ := s.Scheduler.List(ctx, around...)
	f.Keys = append(f.Keys, known...)
	if s.Config.Containers != nil {
		f.Engines = s.Config.Containers.Health()
	}
	if s.Config.Events != nil {
		f.Ends = s.ends()
	}
	if s.Freezer != nil {
		frozen := s.Freezer.Frozen()
		f.Shadow = frozen != nil && frozen.Shadow
	}
	if r.Kind == scheduler.RootNotAsked {
		f.Elsewhere, _ = s.Store.Elsewhere(ctx, configPrefix+string(r.Key))
	}
	return f
}

// ends are the last deaths of containers, the newest first.
func (s *Server) ends() (all []diagnosis.End) {
	found, _ := s.Config.Events.Query(events.Query{Types: []events.Type{tracker.Died}, Limit: fewEnds})
	for i := len(found) - 1; i >= 0; i-- {
		e := found[i]
		if e.Exit == nil {
			continue
		}
		end := diagnosis.End{Label: e.Microservice, Name: e.Name, At: e.Exit.FinishedAt, Code: e.Exit.Code, Signal: e.Exit.Signal, Reason: e.Exit.Reason}
		if end.Reason == tracker.OutOfMemory {
			end.Reason, end.OutOfMemory = "", true
		}
		if end.At.IsZero() {
			end.At = e.At
		}
		all = append(all, end)
	}
	return all
}
