package route

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/scheduler"
)

// The kernel keeps IPv4 routes of one destination, table and metric in an order, and packets take
// the first of them. Others can put one of theirs before ours (ip route prepend). Of IPv6 the kernel
// makes one route with several ways of such routes instead.

// behind begins the source of a value that was found behind a route of others. Nobody can ask for it.
const behind = "behind a route of "

// behindOf is the source of a route that is found behind another one.
func behindOf(first kernel.Route) string { return behind + kernel.ProtocolName(first.Protocol) }

func isBehind(source string) bool { return strings.HasPrefix(source, behind) }

// inOrder matters of the routes of a destination.
func inOrder(dst netip.Prefix) bool { return dst.Addr().Is4() }

// first is the route that packets take instead of one of ours, if there is any.
func (d *route) first(ctx context.Context, w *wish) (kernel.Route, bool, error) {
	same, err := d.rivals(ctx, w)
	if err != nil || len(same) == 0 || !inOrder(w.route.Dst) {
		return kernel.Route{}, false, err
	}
	e, recorded := d.Owner.Entry(string(w.key))
	ours := same[0].Protocol == d.Owner.Protocol() || recorded && d.Owner.Bears(e, same[0].Protocol)
	return same[0], !ours, nil
}

// overtaken is the conflict with a route that packets take instead of ours.
func overtaken(first kernel.Route) error {
	way := ""
	if first.Gateway.IsValid() {
		way = " via " + first.Gateway.String()
	}
	return scheduler.Conflict(kernel.ProtocolName(first.Protocol), fmt.Errorf(
		"another route%s with the same destination, table and metric comes before it and takes its packets; remove that one, or choose another metric or table", way))
}
