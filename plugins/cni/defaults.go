package cni

import (
	"github.com/plumb-net/plumb/plugins/cni/network"
	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// defaultsIn are the default routes that the kernel shows in the namespace of a call. One
// by the interface that is asked for is what an earlier try has left.
func (s *Service) defaultsIn(c Call) (list []network.DefaultRoute, wrong *spec.Error) {
	routes, err := s.host.Routes(c.Netns, c.IfName)
	if err != nil {
		return nil, &spec.Error{Code: spec.TryLater, Msg: "the routes of the container cannot be read", Details: err.Error()}
	}
	for _, r := range routes {
		if r.Dst.Bits() == 0 && r.Type == "unicast" {
			by := "a link"
			if r.Gateway.IsValid() {
				by = r.Gateway.String()
			}
			list = append(list, network.DefaultRoute{Family: network.FamilyOf(r.Dst.Addr()), Table: r.Table, Metric: r.Metric, By: by})
		}
	}
	return list, nil
}

// defaultsFor are the default routes that other attachments of the container have or are
// about to have. The lock is held.
func (s *Service) defaultsFor(c Call) (list []network.DefaultRoute) {
	for _, sh := range s.nets {
		for k, u := range sh.users {
			if k != c.Key() && k.ContainerID == c.ContainerID && u.inode == c.Inode {
				list = append(list, u.defaults...)
			}
		}
	}
	return list
}
