package iface

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// maxEnslavingNotes bounds the notes about one link.
const maxEnslavingNotes = 20

// membership is what happens to the addresses and routes of a link when it joins a master of a
// type. In the texts LINK, MASTER and TABLE stand for the names of both links and the table of a vrf.
type membership struct {
	joins                    string
	address, address6, route fate
}

// fate is the effect on an object, and the remedy for its owner.
type fate struct{ what, remedy string }

const (
	stops   = "stops working"
	removed = "is removed"

	addressOnMaster = "configure it on MASTER instead"
	routeByMaster   = "let it leave by MASTER instead"
)

// memberships has an entry for each type of master. The kernel receives what arrives at a port of a bridge or
// bond as a packet of the master. A bond takes only links that are down, and a vrf sets its
// links down and up again: the kernel then removes their routes and IPv6 addresses.
var memberships = map[string]membership{
	"bridge": {
		joins:   "becomes a port of bridge MASTER",
		address: fate{stops, addressOnMaster}, address6: fate{stops, addressOnMaster}, route: fate{stops, routeByMaster},
	},
	"bond": {
		joins:   "becomes a member of bond MASTER",
		address: fate{stops, addressOnMaster}, address6: fate{removed, addressOnMaster}, route: fate{removed, routeByMaster},
	},
	"vrf": {
		joins:    "joins vrf MASTER",
		address:  fate{"moves with its network to table TABLE", "programs that use it must bind to MASTER"},
		address6: fate{removed, "set net.ipv6.conf.LINK.keep_addr_on_down to 1 before, or add it again"},
		route:    fate{removed, "add it to table TABLE"},
	},
}

// Enslaving returns a function that names the addresses and routes of others that stop working or are
// removed when the links of interfaces join their masters. It reads the kernel and changes nothing. Links
// that do not exist, or belong to their masters already, have no notes.
func Enslaving(deps Deps) func(ctx context.Context, keys []string, value func(key string) *models.Interface) []string {
	return func(ctx context.Context, keys []string, value func(key string) *models.Interface) (notes []string) {
		d := &iface{Deps: deps}
		e := &enslaving{iface: d, routes: owned.Dumps[[]kernel.Route]{Read: d.Kernel.Routes}}
		for _, key := range keys {
			v := value(key)
			if v.GetMaster() == "" {
				continue
			}
			list, err := e.notes(ctx, scheduler.Key(key), v, value)
			if err != nil {
				list = []string{fmt.Sprintf("it is not known what stops working when the link joins %s: %v", v.GetMaster(), err)}
			}
			for _, note := range list {
				notes = append(notes, key+": "+note)
			}
		}
		return notes
	}
}

// enslaving is one reading.
type enslaving struct {
	*iface
	routes owned.Dumps[[]kernel.Route]
	ours   map[object]kernel.Entry // addresses and routes; nil until the ledger was read
}

// object is an address or a route in the ledger; a route has no index.
type object struct {
	at   kernel.LinkRef
	mark string
}

// notes returns the notes about one link.
func (e *enslaving) notes(ctx context.Context, k scheduler.Key, v *models.Interface, value func(string) *models.Interface) ([]string, error) {
	l, was, err := e.linkNow(ctx, k, v)
	if kernel.IsGone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	masterKey := models.InterfaceKey(v.GetMaster())
	master := value(masterKey)
	name, linkType, table := master.EffectiveHostName(masterKey), master.LinkType(), master.GetVrf().GetTable()
	now, err := e.Kernel.Link(l.NS, name)
	switch {
	case err == nil && now.Index == l.Master:
		return nil, nil
	case err == nil && adopts(master):
		linkType = now.Type
		if now.Vrf != nil {
			table = now.Vrf.Table
		}
	case err != nil && !kernel.IsGone(err):
		return nil, fmt.Errorf("read its master: %w", err)
	}
	m, known := memberships[linkType]
	if !known {
		return nil, nil
	}
	names := strings.NewReplacer("LINK", l.Name, "MASTER", name, "TABLE", fmt.Sprint(table))
	note := func(what string, f fate) string {
		return names.Replace(fmt.Sprintf("%s of LINK is not managed by Plumb and %s when LINK %s; %s", what, f.what, m.joins, f.remedy))
	}
	var addresses []kernel.Address
	if !was.RemovesAddresses() && !v.RemovesAddresses() { // else all are ours or are removed anyway
		if addresses, err = e.addresses(l.Ref()); err != nil {
			return nil, fmt.Errorf("read the addresses of %s: %w", l.Name, err)
		}
	}
	routes, err := e.routesBy(l.Ref())
	if err != nil {
		return nil, fmt.Errorf("read the routes by %s: %w", l.Name, err)
	}
	var list []string
	for _, a := range addresses {
		what, f := "address "+a.Prefix.String(), m.address
		if a.Prefix.Addr().Is6() {
			f = m.address6
		}
		if a.Kernel {
			what = "dynamic " + what
		}
		list = append(list, note(what, f))
	}
	for _, r := range routes {
		list = append(list, note("route "+textOf(r), m.route))
	}
	if more := len(list) - maxEnslavingNotes; more > 0 {
		list = append(list[:maxEnslavingNotes], fmt.Sprintf("and %d more addresses and routes of %s", more, l.Name))
	}
	return list, nil
}

// linkNow returns the link of an interface before the plan, and its current value if it is managed.
func (d *iface) linkNow(ctx context.Context, k scheduler.Key, v *models.Interface) (l kernel.Link, was *models.Interface, err error) {
	if was, ref, managed := d.Interfaces.Get(k); managed {
		l, err = d.Kernel.LinkByIndex(ref.NS, ref.Index)
		return l, was, err
	}
	if !adopts(v) { // a link of others by that name is left alone
		return l, nil, kernel.ErrNotExist
	}
	place, err := d.Places.Resolve(ctx, v.GetNamespace())
	if err == nil {
		l, err = d.Kernel.Link(place.NS, v.EffectiveHostName(string(k)))
	}
	return l, nil, err
}

// addresses returns the addresses of a link that Plumb does not manage, without link-local ones, which
// every link has.
func (e *enslaving) addresses(at kernel.LinkRef) ([]kernel.Address, error) {
	all, err := e.Kernel.Addresses(at.NS, at.Index)
	return slices.DeleteFunc(all, func(a kernel.Address) bool {
		_, ours := e.recorded(object{at, a.Prefix.String()})
		return ours || a.Prefix.Addr().Is6() && a.Prefix.Addr().IsLinkLocalUnicast()
	}), err
}

// routesBy returns the routes over a link that Plumb does not manage, without those that the kernel
// created for its addresses.
func (e *enslaving) routesBy(at kernel.LinkRef) (list []kernel.Route, err error) {
	all, err := e.routes.Of(at.NS)
	for _, r := range all {
		by := r.Index == at.Index || slices.ContainsFunc(r.NextHops, func(h kernel.NextHop) bool { return h.Index == at.Index })
		if !by || r.Protocol == kernel.ProtocolKernel {
			continue
		}
		mark := kernel.RouteMark(r.Dst.String(), r.Table, r.Metric)
		if entry, ours := e.recorded(object{kernel.LinkRef{NS: at.NS}, mark}); ours && r.TOS == 0 && e.Owner.Bears(entry, r.Protocol) {
			continue
		}
		list = append(list, r)
	}
	return list, err
}

// recorded returns the ledger entry of an address or a route.
func (e *enslaving) recorded(o object) (kernel.Entry, bool) {
	if e.ours == nil {
		e.ours = map[object]kernel.Entry{}
		for _, entry := range e.Owner.Entries(models.KindAddress + "/") {
			e.ours[object{kernel.LinkRef{NS: entry.NS, Index: entry.Index}, entry.Mark}] = entry
		}
		for _, entry := range e.Owner.Entries(models.KindRoute + "/") {
			e.ours[object{kernel.LinkRef{NS: entry.NS}, entry.Mark}] = entry
		}
	}
	entry, ok := e.ours[o]
	return entry, ok
}

// textOf names a route as ip does.
func textOf(r kernel.Route) string {
	text := r.Dst.String()
	if r.Dst.Bits() == 0 {
		text = "default"
	}
	if r.Gateway.IsValid() {
		text += " via " + r.Gateway.String()
	}
	if r.Table != models.MainTable {
		text += fmt.Sprintf(" table %d", r.Table)
	}
	if r.Metric != 0 {
		text += fmt.Sprintf(" metric %d", r.Metric)
	}
	return text
}
