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

// delete removes the route if the ledger says that it is ours.
func (d *route) delete(_ context.Context, k scheduler.Key, v *models.Route, at kernel.LinkRef) error {
	return d.objects.DeleteRecorded(k, func(e kernel.Entry) error {
		if e.NS != at.NS {
			return nil
		}
		return d.remove(k, v, e)
	})
}

// remove takes the route from the kernel, if it is the recorded one.
func (d *route) remove(k scheduler.Key, v *models.Route, e kernel.Entry) error {
	r, err := d.doomed(v, e.Mark)
	if err != nil || e.Mark != identityOf(r).String() {
		return err
	}
	if other := d.keyAt(e.NS, r); other != "" && other != k {
		return nil // another key has taken it over
	}
	if _, taken := e.TakenOver(); taken { // it stays: it goes back to those who made it
		d.forget(e.NS, r)
		return nil
	}
	d.forget(e.NS, r) // first, or we take the event for news
	if err := d.Kernel.DeleteRoute(e.NS, r); err != nil && !kernel.IsGone(err) {
		d.note(e.NS, k, unseen(r))
		return fmt.Errorf("delete the route to %s: %w", identityOf(r), err)
	}
	return nil
}

// doomed is the route as the kernel is asked to remove it. With its ways, so
// that of several equal ones only ours goes; but for ways whose link is gone.
// What a claim held when the route was made is known by its mark.
func (d *route) doomed(v *models.Route, mark string) (kernel.Route, error) {
	if v.DestinationClaim() != "" {
		made, _, _ := strings.Cut(mark, " ")
		if dst, err := netip.ParsePrefix(made); err == nil {
			v = v.To(dst)
		}
	}
	dst, err := v.Prefix()
	if err != nil {
		return kernel.Route{}, err
	}
	w := &wish{value: v, route: kernel.Route{
		Dst: dst, Table: v.EffectiveTable(), Metric: v.EffectiveMetric(), Protocol: d.Owner.Protocol(), Type: v.EffectiveType(),
	}}
	bare := w.route
	if d.addWays(w, hops(v)) != nil {
		return bare, nil
	}
	return w.route, nil
}
