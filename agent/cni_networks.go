package agent

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/cni"
)

// Networks reads the addresses and routes of the host that overlap a prefix. Whose the
// links are is asked only of those.
func (h cniHost) Networks(of netip.Prefix) ([]cni.HostNetwork, error) {
	own := h.host.kernel.Own()
	addresses, err := h.host.kernel.Addresses(own, 0)
	if err != nil {
		return nil, err
	}
	routes, err := h.host.kernel.Routes(own)
	if err != nil {
		return nil, err
	}
	links := linkNames{host: h.host, ns: own, known: map[int]kernel.Link{}}
	var list []cni.HostNetwork
	for _, a := range addresses {
		if a.Prefix.Masked().Overlaps(of) {
			list = links.add(list, cni.HostNetwork{Prefix: a.Prefix}, a.Index)
		}
	}
	for _, r := range routes {
		index := r.Index
		if len(r.NextHops) > 0 {
			index = r.NextHops[0].Index
		}
		if r.Type != "unicast" {
			index = 0 // IPv6 shows a way even where there is none
		}
		if r.Dst.Masked().Overlaps(of) {
			list = links.add(list, cni.HostNetwork{Prefix: r.Dst, Route: true}, index)
		}
	}
	return list, links.err
}

// linkNames says of links what they are called, and which interface of ours they are.
type linkNames struct {
	host  *host
	ns    kernel.NS
	known map[int]kernel.Link
	err   error
}

// add completes a network by the link that it is on. What is on a link that has gone
// meanwhile has gone with it.
func (l *linkNames) add(list []cni.HostNetwork, n cni.HostNetwork, index int) []cni.HostNetwork {
	if index == 0 {
		return append(list, n)
	}
	link, known := l.known[index]
	if !known {
		var err error
		link, err = l.host.kernel.LinkByIndex(l.ns, index)
		if errors.Is(err, kernel.ErrNotExist) {
			return list
		}
		if err != nil && l.err == nil {
			l.err = err
		}
		l.known[index] = link
	}
	n.Link = link.Name
	n.Key, _ = l.host.owner.LinkKey(link)
	return append(list, n)
}

// Routes reads the routes of a container.
func (h cniHost) Routes(path, but string) ([]kernel.Route, error) {
	ns, err := h.host.kernel.Open(path)
	if err != nil {
		return nil, err
	}
	l, err := h.host.kernel.Link(ns, but)
	if err != nil && !errors.Is(err, kernel.ErrNotExist) {
		return nil, err
	}
	routes, err := h.host.kernel.Routes(ns)
	return slices.DeleteFunc(routes, func(r kernel.Route) bool { return l.Index != 0 && r.Index == l.Index }), err
}

// Link reads a link of the host or of a container.
func (h cniHost) Link(path, name string) (kernel.Link, error) {
	ns := h.host.kernel.Own()
	if path != "" {
		var err error
		if ns, err = h.host.kernel.Open(path); err != nil {
			return kernel.Link{}, err
		}
	}
	return h.host.kernel.Link(ns, name)
}
