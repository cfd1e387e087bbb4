package route

import (
	"fmt"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/models"
)

// Survey finds the routes that people made. Those of the kernel itself are not mentioned,
// those of daemons left out.
func Survey(s *kind.Survey) error {
	d := &route{Deps: Deps{Kernel: s.Kernel, Owner: s.Owner, Names: s.Names}}
	claimed := kind.Claimed(s, claims)
	for _, p := range s.Places {
		routes, err := s.Kernel.Routes(p.NS)
		if kernel.IsGone(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read the routes of %s: %w", p.In.Text(), err)
		}
		several := map[identity]int{}
		for _, r := range routes {
			if r.TOS == 0 {
				several[identityOf(r)]++
			}
		}
		for _, r := range routes {
			const ofKernel = 2
			if r.Protocol == ofKernel || r.Protocol == s.Owner.Protocol() {
				continue
			}
			what, v := "route "+identityOf(r).String(), d.survey(p, r)
			if claimed(v) {
				continue
			}
			switch why := unfit(s, p, r); {
			case why != "":
				s.Leave(p, what, "%s", why)
			case several[identityOf(r)] > 1:
				s.Leave(p, what, "there is more than one with its destination, table and metric")
			default:
				s.Add(p, what, nameOf(s, p, r), v)
			}
		}
	}
	return nil
}

// unfit says why a route is left out, "" if it is not.
func unfit(s *kind.Survey, p kind.Place, r kernel.Route) string {
	if !kernel.ByPeople(r.Protocol) || r.Protocol == 0 {
		return "made by " + kernel.ProtocolName(r.Protocol)
	}
	if r.TOS != 0 {
		return fmt.Sprintf("it is for packets of TOS %#x only, which no value says", r.TOS)
	}
	if r.More {
		return "it has settings that no value says, such as a preference, a realm or a lock of its MTU"
	}
	if r.Nexthop != 0 {
		return fmt.Sprintf("it leads to the nexthop %d, which is not adopted", r.Nexthop)
	}
	if r.Type != "unicast" {
		return ""
	}
	hops := r.NextHops
	if len(hops) == 0 {
		hops = []kernel.NextHop{{Index: r.Index, Encap: r.Encap}}
	}
	for _, h := range hops {
		if h.Encap.More {
			return "it puts packets into what no value says"
		}
		if _, named := s.Link(p.NS, h.Index); !named {
			return "the link that it leaves by is left out"
		}
	}
	return ""
}

func nameOf(s *kind.Survey, p kind.Place, r kernel.Route) string {
	text := r.Dst.String()
	if r.Dst.Bits() == 0 {
		text = "default"
		if r.Dst.Addr().Is6() {
			text = "default6"
		}
	}
	if r.Table != models.MainTable {
		text += fmt.Sprintf("-table%d", r.Table)
	}
	if r.Metric != 0 && !(r.Dst.Addr().Is6() && r.Metric == 1024) {
		text += fmt.Sprintf("-metric%d", r.Metric)
	}
	return models.KindRoute + "/" + s.Name(models.KindRoute, p, text)
}

// survey is a route of others as a value. What is as by default is not named.
func (d *route) survey(p kind.Place, r kernel.Route) *models.Route {
	v := d.value(p.NS, r, nil, d.linkName)
	v.Adopt = true
	if r.Dst.Addr().Is6() && v.Metric == 1024 {
		v.Metric = 0
	}
	scope := v.Scope
	if v.Scope = ""; v.EffectiveScope() != scope && r.Dst.Addr().Is4() && r.Type == "unicast" {
		v.Scope = scope
	}
	if r.Type != "unicast" {
		v.Namespace = p.In
	}
	return v
}
