package route

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// The kernel keeps the IPv4 routes of a destination, table and metric in a list and uses the first.
// Others can insert a route before ours (ip route prepend). Such IPv6 routes become one route with
// several next hops instead.

// behind is the prefix of the source in actual values of routes that the kernel does not use, because
// a route of others comes first. No desired value can have such a source.
const behind = "behind a route of "

func behindOf(first kernel.Route) string { return behind + kernel.ProtocolName(first.Protocol) }

func isBehind(v *models.Route) bool { return strings.HasPrefix(v.GetSource(), behind) }

// usesFirst reports whether the kernel uses only the first route of a destination.
func usesFirst(dst netip.Prefix) bool { return dst.Addr().Is4() }

// first returns the route that the kernel uses instead of the desired one, if it is not ours.
func (d *route) first(ctx context.Context, w *wish) (kernel.Route, bool, error) {
	same, err := d.rivals(ctx, w)
	if err != nil || len(same) == 0 || !usesFirst(w.route.Dst) {
		return kernel.Route{}, false, err
	}
	e, recorded := d.Owner.Entry(string(w.key))
	ours := same[0].Protocol == d.Owner.Protocol() || recorded && d.Owner.Bears(e, same[0].Protocol)
	return same[0], !ours, nil
}

// overtaken is the conflict with a route that the kernel uses instead of ours.
func overtaken(first kernel.Route) error {
	way := ""
	if first.Gateway.IsValid() {
		way = " via " + first.Gateway.String()
	}
	return scheduler.Conflict(kernel.ProtocolName(first.Protocol), fmt.Errorf(
		"another route%s with the same destination, table and metric comes before it and takes its packets; remove that one, or choose another metric or table", way))
}
