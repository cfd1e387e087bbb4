package route

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// needs: the namespace, or every interface up and every gateway on a network
// of its interface; the source address.
func (d *route) needs(_ scheduler.Key, v *models.Route) []scheduler.Need {
	ways := hops(v)
	var list []scheduler.Need
	if len(ways) == 0 {
		list = selector.Needs(v.GetNamespace())
	}
	seen := map[string]bool{}
	for _, h := range ways {
		if !seen[h.iface] {
			seen[h.iface] = true
			list = append(list, upLink(h.iface))
		}
	}
	for _, h := range ways {
		if n, needed := reachable(h, v.GetOnlink()); needed {
			list = append(list, n)
		}
	}
	if claim := v.DestinationClaim(); claim != "" {
		list = append(list, kind.OnClaim(d.Claims, claim))
	}
	return append(list, d.sourceNeeds(v)...)
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
		return prefixOf(a, at).Addr() == src
	})}
}

// upLink: the kernel takes no route over a link that is down.
func upLink(name string) scheduler.Need {
	n := kind.OnInterface(name, "the interface that packets leave by, up")
	n = scheduler.If(n, func(_ scheduler.Key, v *models.Interface, _ kernel.LinkRef) bool { return v.IsEnabled() })
	return scheduler.Tell(n, func(v *models.Interface, _ kernel.LinkRef) string {
		if v.IsEnabled() {
			return ""
		}
		return "it is disabled (enabled: false)"
	})
}

// reachable: the gateway is in the network of an address of the interface.
// Link-local ones are on every link, and onlink says so of any.
func reachable(h hop, onlink bool) (scheduler.Need, bool) {
	if !h.gateway.IsValid() || onlink || h.gateway.IsLinkLocalUnicast() {
		return scheduler.Need{}, false
	}
	n := scheduler.AnyOf(scheduler.Key(models.AddressPrefix(h.iface)),
		fmt.Sprintf("an address of %s whose network holds the gateway %s (or set onlink)", h.iface, h.gateway))
	return scheduler.If(n, func(_ scheduler.Key, a *models.Address, at kernel.AddressRef) bool {
		return prefixOf(a, at).Masked().Contains(h.gateway)
	}), true
}

func prefixOf(a *models.Address, at kernel.AddressRef) netip.Prefix {
	if at.Prefix.IsValid() {
		return at.Prefix
	}
	p, _ := netip.ParsePrefix(a.GetAddress())
	return p
}

// claims: one route per identity. In which namespace an interface lives is not
// known here, so two interfaces of one namespace are told apart; between
// their routes the kernel decides.
func claims(_ scheduler.Key, v *models.Route) []scheduler.Claim {
	id := fmt.Sprintf("%s table %d metric %d", destination(v), v.EffectiveTable(), v.EffectiveMetric())
	at, where := "in "+selector.Text(v.GetNamespace()), "in "+v.GetNamespace().Text()
	if names := v.Interfaces(); len(names) > 0 {
		at, where = "by "+names[0], "by "+names[0]
	}
	return []scheduler.Claim{{ID: at + "|" + id, What: fmt.Sprintf("route to %s %s", id, where)}}
}
