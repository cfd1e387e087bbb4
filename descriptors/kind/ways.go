package kind

import (
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// OnUpInterface needs an interface that packets leave by: the kernel takes nothing over a
// link that is down.
func OnUpInterface(name string) scheduler.Need { return upInterface.of(name, onUpInterface) }

var upInterface last[string]

func onUpInterface(name string) scheduler.Need {
	n := OnInterface(name, "the interface that packets leave by, up")
	n = scheduler.If(n, func(_ scheduler.Key, v *models.Interface, _ kernel.LinkRef) bool { return v.IsEnabled() })
	return scheduler.Tell(n, func(v *models.Interface, _ kernel.LinkRef) string {
		if v.IsEnabled() {
			return ""
		}
		return "it is disabled (enabled: false)"
	})
}

// OnGateway needs that a gateway is in the network of an address of the interface, or that a
// route without a gateway leads to it; false if nothing is needed. Link-local gateways are on every
// link, and onlink says so of any. table is that of the route, 0 of a nexthop: the kernel looks for
// the gateway there, and in the main table.
func OnGateway(iface string, gateway netip.Addr, table uint32, onlink bool) (scheduler.Need, bool) {
	if !gateway.IsValid() || onlink || gateway.IsLinkLocalUnicast() {
		return scheduler.Need{}, false
	}
	return gatewayWay.of(way{iface, gateway, table}, onGateway), true
}

// way is a gateway by an interface.
type way struct {
	iface   string
	gateway netip.Addr
	table   uint32
}

var gatewayWay last[way]

func onGateway(w way) scheduler.Need {
	n := scheduler.AnyOf(scheduler.Key(models.AddressPrefix(w.iface)),
		fmt.Sprintf("an address of %s whose network holds the gateway %s, or a route to it (or set onlink)", w.iface, w.gateway))
	n = scheduler.Also(n, models.KindAddress+"/", scheduler.Key(models.OnLinkPrefix(w.iface))) // addresses with names of their own, and routes
	n.Pass = func(k scheduler.Key, value, meta any) bool {
		switch v := value.(type) {
		case *models.Address:
			at, _ := meta.(kernel.AddressRef)
			on := v.GetInterface() == w.iface || strings.HasPrefix(string(k), models.AddressPrefix(w.iface))
			return on && networkOf(v, at).Contains(w.gateway)
		case *models.OnLink:
			dst, err := netip.ParsePrefix(v.GetDestination())
			return err == nil && dst.Contains(w.gateway) && (v.GetTable() == w.table || v.GetTable() == models.MainTable)
		}
		return false
	}
	return n
}

// last is the need that was made last: thousands of routes that go one way share the texts and
// functions of one, where each had its own.
type last[T comparable] struct{ made atomic.Pointer[made[T]] }

type made[T comparable] struct {
	of   T
	need scheduler.Need
}

func (l *last[T]) of(t T, need func(T) scheduler.Need) scheduler.Need {
	m := l.made.Load()
	if m == nil || m.of != t {
		m = &made[T]{t, need(t)}
		l.made.Store(m)
	}
	return m.need
}

// networkOf is what is on the link by an address: the network of its peer, if it has one; invalid
// if there is no route to it.
func networkOf(a *models.Address, at kernel.AddressRef) netip.Prefix {
	p := PrefixOf(a, at)
	if a.EffectivePrefixRoute() == "none" {
		return netip.Prefix{}
	}
	if peer, err := netip.ParseAddr(a.GetPeer()); err == nil {
		return netip.PrefixFrom(peer, p.Bits()).Masked()
	}
	return p.Masked()
}

// PrefixOf is an address that is in place.
func PrefixOf(a *models.Address, at kernel.AddressRef) netip.Prefix {
	if at.Prefix.IsValid() {
		return at.Prefix
	}
	p, _ := netip.ParsePrefix(a.GetAddress())
	return p
}
