package network

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// Port is one of the host that is to lead to a port of a container.
type Port struct {
	HostPort      int    `json:"hostPort"`
	ContainerPort int    `json:"containerPort"`
	Protocol      string `json:"protocol"`
	HostIP        string `json:"hostIP"`

	// Of HostIP: every address of the host if at is zero, of both families if
	// there is none.
	at     netip.Addr
	family string
}

// check refuses what no port can be. tcp is meant if no protocol is named.
func (p *Port) check(i int) *spec.Error {
	field := fmt.Sprintf("runtimeConfig.portMappings[%d]", i)
	if p.Protocol = strings.ToLower(p.Protocol); p.Protocol == "" {
		p.Protocol = "tcp"
	}
	number := func(name string, n int) *spec.Error {
		if n < 1 || n > 65535 {
			return spec.Invalid("%s.%s: must be from 1 to 65535, not %d", field, name, n)
		}
		return nil
	}
	switch p.Protocol {
	case "tcp", "udp", "sctp":
	default:
		return spec.Invalid("%s.protocol: %q is none of tcp, udp and sctp", field, p.Protocol)
	}
	if wrong := number("hostPort", p.HostPort); wrong != nil {
		return wrong
	}
	if wrong := number("containerPort", p.ContainerPort); wrong != nil {
		return wrong
	}
	if p.HostIP == "" {
		return nil
	}
	a, err := netip.ParseAddr(p.HostIP)
	if err != nil {
		return spec.Invalid("%s.hostIP: %q is no IP address", field, p.HostIP)
	}
	if a = a.Unmap(); !a.IsUnspecified() {
		p.at = a
	}
	p.family = FamilyOf(a)
	return nil
}

func (p Port) String() string {
	text := p.Protocol + " port " + strconv.Itoa(p.HostPort)
	if p.at.IsValid() {
		text += " of " + p.at.String()
	}
	return text
}

// Clashes reports whether packets could be meant for either.
func (p Port) Clashes(o Port) bool {
	return p.HostPort == o.HostPort && p.Protocol == o.Protocol &&
		(p.family == o.family || p.family == "" || o.family == "") && (p.at == o.at || !p.at.IsValid() || !o.at.IsValid())
}

// CheckPorts refuses ports of which some could not be served: one that is mapped twice, and one
// at an address of the host whose family the container does not have.
func (n Network) CheckPorts(ports []Port) *spec.Error {
	if n.Link.Master != "" && len(ports) > 0 {
		return spec.NotSupported("runtimeConfig.portMappings", "in a network with master a container is reached at its own address")
	}
	for i, p := range ports {
		field := fmt.Sprintf("runtimeConfig.portMappings[%d]", i)
		if has := func(s Subnet) bool { return FamilyOf(s.Prefix.Addr()) == p.family }; p.family != "" && !slices.ContainsFunc(n.Subnets, has) {
			return spec.Invalid("%s.hostIP: the container has no address of the family of %s", field, p.HostIP)
		}
		for j, o := range ports[:i] {
			if p.Clashes(o) {
				return spec.Invalid("%s: %s is mapped by portMappings[%d] already", field, p, j)
			}
		}
	}
	return nil
}

// At is the address and port of the host, the unspecified address of the family if it is every
// address, and that of IPv6 if it is every address of both families.
func (p Port) At() netip.AddrPort {
	at := p.at
	switch {
	case at.IsValid():
	case p.family == "ip":
		at = netip.IPv4Unspecified()
	default:
		at = netip.IPv6Unspecified()
	}
	return netip.AddrPortFrom(at, uint16(p.HostPort))
}

// FamilyOf is what nft calls the family of an address.
func FamilyOf(a netip.Addr) string {
	if a.Is4() {
		return "ip"
	}
	return "ip6"
}

// ports lead ports of the host to a container, by a table of the attachment's own: it is
// made and goes as one, and nobody else's connections wait for it.
func (n Network) ports(id, outside string, list []address, ports []Port) []Want {
	var to, back []string
	done := map[string]bool{}
	for _, a := range list {
		family, target := FamilyOf(a.Prefix.Addr()), inRule(a)
		if done[family] {
			continue
		}
		done[family] = true
		near := []string{a.Prefix.String()}
		match, local, bracketed := "meta nfproto ipv4", "fib daddr type local", target
		if family == "ip" {
			near = append(near, "127.0.0.0/8")
		} else { // what comes from ::1 cannot leave the host
			match, local, bracketed = "meta nfproto ipv6", "ip6 daddr != ::1 fib daddr type local", "["+target+"]"
		}
		for _, p := range ports {
			at := local
			if p.at.IsValid() {
				at = family + " daddr " + p.at.String()
			}
			if p.family == "" || p.family == family {
				to = append(to, fmt.Sprintf("%s %s %s dport %d dnat %s to %s:%d", match, at, p.Protocol, p.HostPort, family, bracketed, p.ContainerPort))
			}
		}
		// The answer to a neighbour, to itself and to the host's 127.0.0.1 must come
		// back by the host, which alone knows what was asked for.
		for _, from := range near {
			back = append(back, fmt.Sprintf("%s saddr %s %s daddr %s ct status dnat masquerade", family, from, family, target))
		}
	}
	if len(to) == 0 {
		return nil
	}
	table := &models.Nftables{Family: "inet", Table: "plumb-ports-" + id, Chains: []*models.Chain{
		{Name: "in", Type: "nat", Hook: "prerouting", Priority: "dstnat", Rules: to},
		{Name: "own", Type: "nat", Hook: "output", Priority: "-100", Rules: to},
		{Name: "back", Type: "nat", Hook: "postrouting", Priority: "srcnat", Rules: back},
	}}
	wants := []Want{{models.NftablesKey(n.Name + ":" + id + "-ports"), table}}
	if done["ip"] {
		// What the host sends to its own 127.0.0.1 may go on to the container, which
		// the kernel else would not do. Nobody else may use that way.
		table.Chains = append(table.Chains, &models.Chain{Name: "guard", Type: "filter", Hook: "prerouting", Priority: "raw",
			Rules: []string{`iifname != "lo" ip daddr 127.0.0.0/8 drop`}})
		side := outside
		if n.Mode == ModeBridge {
			side = n.Name
		}
		wants = append(wants, Want{models.SysctlKey(side + ":localnet"), &models.Sysctl{
			Interface: side, Key: "net.ipv4.conf." + models.IfName + ".route_localnet", Value: "1"}})
	}
	return wants
}

// inRule is an address as a rule names it.
func inRule(a address) string {
	if strings.HasPrefix(a.source, models.ClaimPrefix) {
		return "<" + a.source + ">"
	}
	return a.source
}

// dnatRule is a rule that leads a port of the host to a container.
var dnatRule = regexp.MustCompile(`(?:ip6? daddr (\S+) )?(?:fib daddr type local )?(tcp|udp|sctp) dport (\d+) dnat ip6? to \S*:(\d+)`)

// PortsOf are the ports that a table leads to a container.
func PortsOf(v *models.Nftables) (ports []Port) {
	for _, chain := range v.GetChains() {
		for _, rule := range chain.GetRules() {
			m := dnatRule.FindStringSubmatch(rule)
			if m == nil {
				continue
			}
			p := Port{Protocol: m[2]}
			p.HostPort, _ = strconv.Atoi(m[3])
			p.ContainerPort, _ = strconv.Atoi(m[4])
			if _, err := netip.ParseAddr(m[1]); err == nil {
				p.HostIP = m[1]
			}
			if !slices.Contains(ports, p) {
				ports = append(ports, p)
			}
		}
	}
	return ports
}
