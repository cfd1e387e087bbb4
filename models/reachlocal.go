package models

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// localAddresses are addresses at which something answers that trusts whoever is on the host, by
// class: "loopback" with the unspecified addresses, which lead to it, and "linklocal" for addresses
// of a link, where metadata services of clouds are.
var localAddresses = []struct {
	class string
	in    netip.Prefix
}{
	{"loopback", netip.MustParsePrefix("127.0.0.0/8")},
	{"loopback", netip.MustParsePrefix("0.0.0.0/8")},
	{"loopback", netip.MustParsePrefix("::/127")},
	{"linklocal", netip.MustParsePrefix("169.254.0.0/16")},
	{"linklocal", netip.MustParsePrefix("fe80::/10")},
	{"linklocal", netip.MustParsePrefix("fd00:ec2::254/128")},
}

// localClasses returns the classes of the addresses of a range; none for the zero range.
func localClasses(r addrRange) (classes []string) {
	for _, l := range localAddresses {
		first, last := l.in.Addr(), lastOf(l.in)
		if r.from.BitLen() == first.BitLen() && !r.to.Less(first) && !last.Less(r.from) {
			classes = append(classes, l.class)
		}
	}
	return slices.Compact(classes)
}

// localClass returns the class of one address, "" for all that are not local.
func localClass(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	return strings.Join(localClasses(addrRange{a, a}), "")
}

// targets checks what the rules of the agent's own namespace write into packets, as proxyEnd checks
// the ends of proxies.
func (c *reachCheck) targets(v *Nftables) {
	var addressMaps []string
	for i, m := range v.Maps {
		types := strings.Split(m.Data, " . ")
		if !slices.ContainsFunc(types, isAddressType) {
			continue
		}
		addressMaps = append(addressMaps, m.Name)
		for j, e := range m.Elements {
			tokens := nftTokens(e)
			to, ok := joined(tokens[slices.Index(tokens, ":")+1:], types)
			c.target(fmt.Sprintf("maps[%d].elements[%d]", i, j), rewritten{to: to, computed: !ok})
		}
	}
	for i, chain := range v.Chains {
		for j, r := range chain.Rules {
			for _, w := range rewrites(r, v.EffectiveFamily(), addressMaps) {
				c.target(fmt.Sprintf("chains[%d].rules[%d]", i, j), w)
			}
		}
	}
}

func (c *reachCheck) target(field string, w rewritten) {
	allowed := orList(c.Proxies, defaultProxies)
	if end := "forward:computed"; w.computed && !InReach(allowed, end) {
		c.refuse(field, "a rule of the agent's own namespace may write into packets only an address, a range such as 10.0.0.1-10.0.0.9, or a map { KEY : ADDRESS } with blanks around the colon", "proxy", allowed, end)
	}
	if end := "forward:loopback:" + w.device; w.device == "lo" && !InReach(allowed, end) {
		c.refuse(field, "no rule may send packets through lo of the agent's own namespace", "proxy", allowed, end)
	}
	for _, r := range w.to {
		for _, class := range localClasses(r) {
			end := "forward:" + class + ":" + r.String()
			switch {
			case InReach(allowed, end):
			case !w.source:
				c.refuse(field, "no rule may lead packets to "+r.String()+" of the agent's own namespace", "proxy", allowed, end)
			case class == "loopback":
				c.refuse(field, "no rule may give packets the source "+r.String()+" in the agent's own namespace, where it stands for the host itself", "proxy", allowed, end)
			}
		}
	}
}

// pool checks the addresses that claims of a pool get: a rule can name a claim instead of an address.
func (c *reachCheck) pool(v *IPPool) {
	allowed := orList(c.Proxies, defaultProxies)
	r, ok := addresses(v.Network)
	for _, class := range localClasses(r) {
		if end := "forward:" + class + ":" + r.String(); ok && !InReach(allowed, end) {
			c.refuse("network", "rules may name the claims of a pool, and may not lead packets to "+r.String()+" of the agent's own namespace", "proxy", allowed, end)
		}
	}
}
