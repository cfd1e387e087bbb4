package cni

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/network"
	"github.com/plumb-net/plumb/scheduler"
)

// cut says which packets of a network the host stops, "" if none. link is that of one
// attachment, in mode routed; ported tells that ports of the host lead to one.
func (s *Service) cut(n network.Network, link string, ported bool) string {
	if n.Link.Master != "" { // the operator of the master decides about its firewall
		return ""
	}
	if n.Mode == network.ModeBridge {
		link = n.Bridge
	}
	var why []string
	told := func(what, stopped string) {
		if what += stopped; stopped != "" && !slices.Contains(why, what) {
			why = append(why, what)
		}
	}
	for _, sub := range n.Subnets {
		family := 4
		if sub.Prefix.Addr().Is6() {
			family = 6
		}
		if n.Mode == network.ModeBridge {
			told("containers of this network do not reach each other: ", s.host.Cut(family, link, link))
		}
		if n.Masked || n.Mode == network.ModeRouted {
			told("they do not reach anybody beyond this host: ", s.host.Cut(family, link, ""))
		}
	}
	if len(why) > 0 && !n.Forward {
		why[len(why)-1] += `. With "forward": true in the network's configuration they do`
	}
	if ported && n.Mode == network.ModeBridge && s.bridgesCall(n) {
		why = append(why, "a container does not reach its own published ports: bridges call iptables (net.bridge.bridge-nf-call-iptables), "+
			"and no packet leaves by the port that it came from")
	}
	return strings.Join(why, "; ")
}

func (s *Service) bridgesCall(n network.Network) bool {
	return slices.ContainsFunc(n.Subnets, func(sub network.Subnet) bool {
		return sub.Prefix.Addr().Is4() && s.host.BridgesCall(4) || sub.Prefix.Addr().Is6() && s.host.BridgesCall(6)
	})
}

// warnings are what the caller of an ADD has to know although it succeeded.
func (s *Service) warnings(c Call) []string {
	n, wrong := network.New(c.Network, c.pools, c.IPAM)
	if wrong != nil || n.Forward { // the rules that let it pass have been made
		return nil
	}
	rt, _ := c.runtime() // it was checked
	if why := s.cut(n, network.HostEnd(n.Inside(c.Key().id())), len(rt.Ports) > 0); why != "" {
		return []string{why}
	}
	return nil
}

// Cuts say of the networks with attachments which of their packets the firewall of the host
// stops.
func (s *Service) Cuts() map[string]string {
	s.mu.Lock()
	nets := map[string]network.Network{}
	links, ported := map[string]string{}, map[string]bool{}
	for name, sh := range s.nets {
		nets[name] = sh.Network
		for k, u := range sh.users {
			ported[name] = ported[name] || len(u.ports) > 0
			links[name] = network.HostEnd(sh.Inside(k.id()))
		}
	}
	s.mu.Unlock()
	cuts := map[string]string{}
	for name, n := range nets {
		if why := s.cut(n, links[name], ported[name]); why != "" {
			cuts[name] = why
		}
	}
	return cuts
}

// Trouble says in one line what the firewall of the host stops, "" if nothing.
func (s *Service) Trouble() string {
	cuts := s.Cuts()
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(cuts)) {
		lines = append(lines, fmt.Sprintf("network %s: %s", name, cuts[name]))
	}
	return strings.Join(lines, "; ")
}

// derivedOf are the keys that wants bring with them and that an ADD waits for.
func derivedOf(wants []network.Want) (keys []scheduler.Key) {
	for _, w := range wants {
		if v, ok := w.Value.(*models.Interface); ok && v.GetBridge().GetForward() {
			keys = append(keys, scheduler.Key(models.ForwardKey(nameOf(scheduler.Key(w.Key)))))
		}
	}
	return keys
}
