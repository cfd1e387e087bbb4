package neighbor

import (
	"fmt"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/models"
)

// Survey finds the neighbors that people made.
func Survey(s *kind.Survey) error {
	claimed := kind.Claimed(s, claims)
	for _, p := range s.Places {
		all, err := s.Kernel.Neighbors(p.NS)
		if kernel.IsGone(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read the neighbors of %s: %w", p.In.Text(), err)
		}
		for _, n := range all {
			what := "neighbor " + n.Address.String()
			link, named := s.Link(p.NS, n.Index)
			v := &models.Neighbor{Interface: link, Address: n.Address.String(), MacAddress: n.MAC, Adopt: true}
			switch {
			case n.Protocol == s.Owner.Protocol(), claimed(v):
			case !kernel.ByPeople(n.Protocol):
				s.Leave(p, what, "made by %s", kernel.ProtocolName(n.Protocol))
			case !named:
				s.Leave(p, what, "its link is left out")
			default:
				name := s.Name(models.KindNeighbor, kind.Place{}, link+"-"+n.Address.String())
				s.Add(p, what, models.NeighborKey(name), v)
			}
		}
	}
	return nil
}
