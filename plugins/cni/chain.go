package cni

import (
	"slices"

	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// chained reports whether plugins before this one have made something.
func (c Call) chained() bool {
	return len(c.Network.PrevResult) > 0 && string(c.Network.PrevResult) != "null"
}

// previous is what the plugins before this one have made; nothing if it is the first.
func (c Call) previous() spec.Result {
	if !c.chained() {
		return spec.Result{}
	}
	r, _ := spec.ParseResult(c.Network.PrevResult) // the configuration was checked
	return r
}

// unmade refuses an ADD of an interface that a plugin before this one has made.
func unmade(c Call) *spec.Error {
	for _, i := range c.previous().Interfaces {
		if i.Name == c.IfName && i.Sandbox == c.Netns {
			return spec.Invalid("%s is made by a plugin before this one; mode intent adds to it, bridge and routed make another", c.IfName)
		}
	}
	return nil
}

// merge adds what was made to what the plugins before have told. Theirs stays as it is
// but for what was changed.
func merge(prev, made spec.Result) spec.Result {
	r := prev
	r.CNIVersion = spec.Latest
	at := make([]int, len(made.Interfaces))
	for i, m := range made.Interfaces {
		at[i] = slices.IndexFunc(r.Interfaces, func(p spec.Interface) bool { return p.Name == m.Name && p.Sandbox == m.Sandbox })
		if at[i] < 0 {
			at[i] = len(r.Interfaces)
			r.Interfaces = append(r.Interfaces, m)
			continue
		}
		if p := &r.Interfaces[at[i]]; m.Mac != "" {
			p.Mac = m.Mac
		}
		if p := &r.Interfaces[at[i]]; m.MTU != 0 {
			p.MTU = m.MTU
		}
	}
	for _, ip := range made.IPs {
		index := at[*ip.Interface]
		ip.Interface = &index
		if !slices.ContainsFunc(r.IPs, func(p spec.IP) bool { return p.Address == ip.Address && p.Interface != nil && *p.Interface == index }) {
			r.IPs = append(r.IPs, ip)
		}
	}
	for _, route := range made.Routes {
		if !slices.ContainsFunc(r.Routes, func(p spec.Route) bool {
			return p.Dst == route.Dst && p.GW == route.GW && p.Priority == route.Priority && tableOf(p) == tableOf(route)
		}) {
			r.Routes = append(r.Routes, route)
		}
	}
	if made.DNS != nil {
		r.DNS = made.DNS
	}
	return r
}

// tableOf is the table of a route, 0 if it names none.
func tableOf(r spec.Route) int {
	if r.Table == nil {
		return 0
	}
	return *r.Table
}
