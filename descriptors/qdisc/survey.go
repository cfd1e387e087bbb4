package qdisc

import (
	"fmt"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/models"
)

// Survey finds the disciplines that others set.
func Survey(s *kind.Survey) error {
	claimed := kind.Claimed(s, claims)
	for _, p := range s.Places {
		all, err := s.Kernel.Qdiscs(p.NS)
		if kernel.IsGone(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read the queueing disciplines of %s: %w", p.In.Text(), err)
		}
		for _, q := range all {
			if q.Hook() || q.Handle == s.Owner.Handle() {
				continue
			}
			link, named := s.Link(p.NS, q.Index)
			v := value(q, nil)
			v.Interface, v.Adopt = link, true
			what := fmt.Sprintf("qdisc %s %s of %s", q.Kind, text(q.Handle), linkText(s.Kernel, p.NS, q.Index))
			switch {
			case named && claimed(v):
			case !named:
				s.Leave(p, what, "its link is left out")
			case v.Type() == "":
				s.Leave(p, what, "a value has no words for all that it says")
			default:
				s.Add(p, what, models.QdiscKey(s.Name(models.KindQdisc, kind.Place{}, link)), v)
			}
		}
	}
	return nil
}
