package route

import (
	"context"
	"strings"

	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// OnLink makes the kind of the networks that routes without a gateway make reachable on links. Gateways
// of other routes can be there, see [kind.OnGateway]. The kernel has nothing of them but the routes.
func OnLink() scheduler.Descriptor[*models.OnLink, none] {
	k := kind.Observed[*models.OnLink, none](models.KindOnLink)
	k.Create = func(context.Context, scheduler.Key, *models.OnLink) (none, error) { return none{}, nil }
	k.Update = func(_ context.Context, _ scheduler.Key, _, _ *models.OnLink, _ none) (none, error) {
		return none{}, nil
	}
	k.Delete = func(context.Context, scheduler.Key, *models.OnLink, none) error { return nil }
	k.DerivedBy = func(k scheduler.Key) scheduler.Key {
		_, name, _ := strings.Cut(strings.TrimPrefix(string(k), models.KindOnLink+"/"), "/")
		return scheduler.Key(models.RouteKey(name))
	}
	k.Needs = func(key scheduler.Key, _ *models.OnLink) []scheduler.Need {
		return []scheduler.Need{scheduler.On(k.DerivedBy(key), "the route that makes it reachable")}
	}
	return k
}

// none is what an operation remembers.
type none = struct{}

// derive returns what the route makes reachable on a link. The kernel accepts an IPv4 gateway only
// if the route to it has the scope link or host.
func derive(k scheduler.Key, v *models.Route) []scheduler.Change {
	dst, err := v.Prefix()
	if err != nil || v.GetInterface() == "" || v.GetGateway() != "" || v.EffectiveType() != "unicast" {
		return nil
	}
	if scope := v.EffectiveScope(); dst.Addr().Is4() && scope != "link" && scope != "host" {
		return nil
	}
	name := strings.TrimPrefix(string(k), models.KindRoute+"/")
	n := &models.OnLink{Interface: v.GetInterface(), Destination: dst.String(), Table: v.EffectiveTable()}
	return []scheduler.Change{scheduler.Set(scheduler.Key(models.OnLinkKey(n.Interface, name)), n)}
}
