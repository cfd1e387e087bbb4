package route

import (
	"fmt"
	"strings"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// needs: the nexthop; or the namespace, or every interface up and every gateway on a
// network of its interface. And the source address.
func (d *route) needs(_ scheduler.Key, v *models.Route) []scheduler.Need {
	ways := hops(v)
	var list []scheduler.Need
	switch {
	case v.GetNexthop() != "":
		list = []scheduler.Need{onNexthop(v.GetNexthop())}
	case len(ways) == 0:
		list = selector.Needs(v.GetNamespace())
	}
	seen := map[string]bool{}
	for _, h := range ways {
		if !seen[h.iface] {
			seen[h.iface] = true
			list = append(list, kind.OnUpInterface(h.iface))
		}
	}
	for _, h := range ways {
		if n, needed := kind.OnGateway(h.iface, h.gateway, v.EffectiveTable(), v.GetOnlink()); needed {
			list = append(list, n)
		}
	}
	if claim := v.DestinationClaim(); claim != "" {
		list = append(list, kind.OnClaim(d.Claims, claim))
	}
	return append(list, d.sourceNeeds(v)...)
}

// onNexthop: the route is made with its number, and stays when what that stands for changes.
func onNexthop(name string) scheduler.Need {
	n := scheduler.On(scheduler.Key(models.NexthopKey(name)), "the nexthop that packets go to")
	return scheduler.Project(n, func(v *models.Nexthop, ref kernel.LinkRef) string {
		return fmt.Sprintf("%d in net:[%d]", v.GetId(), ref.NS)
	})
}

// sourceNeeds: some interface has the source address.
func (d *route) sourceNeeds(v *models.Route) []scheduler.Need {
	if claim, claimed := strings.CutPrefix(v.GetSource(), models.ClaimPrefix); claimed {
		held := kind.OnClaim(d.Claims, claim)
		n := scheduler.AnyOf(models.KindAddress+"/", "an interface with the source address, that of "+models.IPClaimKey(claim))
		return []scheduler.Need{held, scheduler.If(n, func(_ scheduler.Key, a *models.Address, _ kernel.AddressRef) bool {
			return a.GetClaim() == claim
		})}
	}
	src := addr(v.GetSource())
	if !src.IsValid() {
		return nil
	}
	n := scheduler.AnyOf(models.KindAddress+"/", "an interface with the source address "+src.String())
	return []scheduler.Need{scheduler.If(n, func(_ scheduler.Key, a *models.Address, at kernel.AddressRef) bool {
		return kind.PrefixOf(a, at).Addr() == src
	})}
}

// claims: one route per identity. In which namespace an interface lives is not
// known here, so two interfaces of one namespace are told apart; between
// their routes the kernel decides.
func claims(_ scheduler.Key, v *models.Route) []scheduler.Claim {
	id := kernel.RouteMark(destination(v), v.EffectiveTable(), v.EffectiveMetric())
	where, at := "in "+v.GetNamespace().Text(), "in "+selector.Text(v.GetNamespace())
	if names := v.Interfaces(); len(names) > 0 {
		where, at = "by "+names[0], ""
	} else if name := v.GetNexthop(); name != "" {
		where, at = "by nexthop "+name, ""
	}
	c := scheduler.Claim{What: "route to " + id + " " + where}
	if c.ID = c.What; at != "" { // a namespace has more than one name
		c.ID = "route to " + id + " " + at
	}
	return []scheduler.Claim{c}
}
