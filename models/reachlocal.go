package models

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
)

// localClass returns the class of an address at which something answers that trusts whoever
// is on the host: "loopback" for the loopback and for unspecified addresses, which lead to
// it, "linklocal" for addresses of a link, where metadata services of clouds are; "" for all
// others.
func localClass(a netip.Addr) string {
	switch a = a.Unmap(); {
	case a.IsLoopback(), a.IsUnspecified(), a.Is4() && a.As4()[0] == 0:
		return "loopback"
	case a.IsLinkLocalUnicast(), a.WithZone("") == awsMetadata:
		return "linklocal"
	}
	return ""
}

// awsMetadata is a metadata service beside those of link-local addresses.
var awsMetadata = netip.MustParseAddr("fd00:ec2::254")

var (
	// rewrites is what in a rule gives packets another destination; what follows is where.
	rewrites = regexp.MustCompile(`\b(?:dnat(?: +ip6?)? +to|tproxy(?: +ip6?)? +to|dup +to|fwd(?: +ip6?)? +to|daddr +set)\b(.*)`)
	// target may be an address in there.
	target = regexp.MustCompile(`[0-9a-fA-F:.xX]*[0-9a-fA-F:]`)
)

// targets checks where nat rules of the agent's own namespace lead, as proxyEnd checks proxies.
func (c *reachCheck) targets(v *Nftables) {
	for i, chain := range v.Chains {
		for j, r := range chain.Rules {
			if m := rewrites.FindStringSubmatch(r); m != nil {
				c.target(fmt.Sprintf("chains[%d].rules[%d]", i, j), m[1])
			}
		}
	}
	for i, m := range v.Maps {
		if !strings.Contains(m.Data, "_addr") {
			continue
		}
		for j, e := range m.Elements {
			_, to, _ := strings.Cut(e, " : ")
			c.target(fmt.Sprintf("maps[%d].elements[%d]", i, j), to)
		}
	}
}

func (c *reachCheck) target(field, text string) {
	allowed := orList(c.Proxies, defaultProxies)
	for _, word := range target.FindAllString(text, -1) {
		a, isAddress := address(word)
		switch class := localClass(a); {
		case !isAddress && strings.ContainsAny(word, ".xX"):
			c.found.add(field, "%s is no address as it is commonly written; write four numbers with dots between", word)
		case isAddress && class != "" && !InReach(allowed, "forward:"+class+":"+a.String()):
			c.refuse(field, "no rule may lead packets to "+word+" of the agent's own namespace", "proxy", allowed, "forward:"+class+":"+a.String())
		}
	}
}

// address reads an address, which a port may follow.
func address(word string) (netip.Addr, bool) {
	if a, err := netip.ParseAddr(word); err == nil {
		return a.Unmap(), true
	}
	host, _, _ := strings.Cut(word, ":")
	a, err := netip.ParseAddr(host)
	return a, err == nil
}
