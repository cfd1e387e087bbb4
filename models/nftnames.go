package models

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// nft resolves some names when a rule is loaded: those of links that iif and oif compare, of
// users, groups, cgroups and hosts. What the kernel then compares is a number, which does
// not follow the name.

var (
	// simpleIndex is a comparison of a link with one name, or with names in braces.
	simpleIndex = regexp.MustCompile(`\b(?:meta +)?([io]if) +(?:(?:==|!=|eq|ne) +)?(` + linkWord + `|\{ *` + linkWord + `(?: *, *` + linkWord + `)* *\})`)
	// loopback is a comparison with the loopback, whose index is 1 in every namespace.
	loopback = regexp.MustCompile(`\b[io]if +(?:(?:==|!=|eq|ne) +)?(?:lo\b|"lo")`)
	// indexes mention links by index, accounts users and groups, cgroups cgroups.
	indexes  = regexp.MustCompile(`\b(?:[io]if|sdif|iface_index|fwd +to|device)\b`)
	accounts = regexp.MustCompile(`\b(?:skuid|skgid|uid|gid)\b`)
	cgroups  = regexp.MustCompile(`\b(?:cgroupv2|cgroupsv2)\b`)

	nftWord = regexp.MustCompile(`[^\s"{},]+`)
	// named are places of an address of which nft asks the resolver if a name stands there.
	hostPlace = regexp.MustCompile(`\b(?:(?:ip|ip6|arp +ip|ct +(?:original|reply) +ip6?|ct +(?:original|reply)) +[sd]addr(?: +(?:==|!=|eq|ne))?|[sd]nat +(?:ip6? +)?to) +("?)([a-zA-Z][a-zA-Z0-9._-]*)(:?)`)
	hostName  = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9._-]*$`)
)

const linkWord = `(?:"[a-zA-Z_][a-zA-Z0-9_.-]*"|[a-zA-Z_][a-zA-Z0-9_.-]*)`

// nftKeywords can stand where a name could.
var nftKeywords = []string{"map", "vmap", "and", "or", "xor", "eq", "ne", "lt", "gt", "le", "ge", "lshift", "rshift", "set", "in",
	"numgen", "jhash", "symhash", "fib", "meta", "ct", "ip", "ip6", "tcp", "udp", "th", "ether", "socket", "missing", "exists", "accept", "drop",
	"limit", "counter", "quota", "last", "timeout", "expires", "comment"} // the last are of elements that packets add

// ByName returns a rule with iifname and oifname in place of simple comparisons of iif and oif
// with names. It then applies to the link that has the name, whichever index that has: a link
// that is created anew has another. The loopback always has the same.
func ByName(rule string) string {
	out, done := "", 0
	for _, m := range simpleIndex.FindAllStringSubmatchIndex(rule, -1) {
		before, word, after := rule[:m[0]], strings.Trim(rule[m[4]:m[5]], `"`), strings.TrimSpace(rule[m[1]:])
		switch {
		case strings.Count(before, `"`)%2 == 1: // in a quoted text
		case word == "lo", slices.Contains(nftKeywords, word):
		case strings.HasPrefix(after, "."), strings.HasSuffix(strings.TrimSpace(before), "."): // of a concatenation
		case m[1] < len(rule) && rule[m[1]] != ' ': // the word goes on: a wildcard, a range
		case isFib(before):
		default:
			out, done = out+rule[done:m[3]]+"name", m[3]
		}
	}
	return out + rule[done:]
}

// isFib reports whether the next word is a part of a fib expression.
func isFib(before string) bool {
	words := strings.Fields(before)
	i := len(words) - 1
	for i > 0 && slices.Contains([]string{"saddr", "daddr", "mark", "iif", "oif", "."}, words[i]) {
		i--
	}
	return i >= 0 && words[i] == "fib" && i < len(words)-1
}

// ResolvedNames are the words of a table that may be names which nft resolves when it loads
// the table.
type ResolvedNames struct {
	// Links may be names of links, Accounts of users and groups, Cgroups of cgroups.
	Links, Accounts, Cgroups []string
	// ByName: some rules are written with iifname or oifname instead of iif and oif.
	ByName bool
}

// Any reports whether a table may hold such names.
func (n ResolvedNames) Any() bool {
	return n.ByName || len(n.Links)+len(n.Accounts)+len(n.Cgroups) > 0
}

// Resolves returns the words of the table that may be names which nft resolves.
func (x *Nftables) Resolves() (n ResolvedNames) {
	add := func(about string, texts []string) {
		for _, l := range []struct {
			mention *regexp.Regexp
			list    *[]string
		}{{indexes, &n.Links}, {accounts, &n.Accounts}, {cgroups, &n.Cgroups}} {
			for _, text := range texts {
				if l.mention.MatchString(about + text) {
					*l.list = append(*l.list, nftWord.FindAllString(text, -1)...)
				}
			}
		}
	}
	for _, c := range x.GetChains() {
		for _, r := range c.GetRules() {
			by := ByName(r)
			n.ByName = n.ByName || by != r
			add("", []string{loopback.ReplaceAllString(by, "")})
		}
	}
	for _, s := range x.GetSets() {
		add(s.GetType()+" ", s.GetElements())
	}
	for _, m := range x.GetMaps() {
		add(m.GetType()+" "+m.GetData()+" ", m.GetElements())
	}
	for _, l := range []*[]string{&n.Links, &n.Accounts, &n.Cgroups} {
		slices.Sort(*l)
		*l = slices.Compact(*l)
	}
	n.Links = slices.DeleteFunc(n.Links, func(word string) bool { return word == "lo" || !validLinkName(word) })
	n.Accounts = slices.DeleteFunc(n.Accounts, func(word string) bool { return !hostName.MatchString(word) || slices.Contains(nftKeywords, word) })
	return n
}

func validLinkName(word string) bool {
	return len(word) < 16 && word != "." && word != ".." && !strings.ContainsAny(word, "/:@$!=<>")
}

// namesHost returns the first name of a host in a rule; "" if there is none.
func namesHost(rule string) string {
	for _, m := range hostPlace.FindAllStringSubmatch(rule, -1) {
		quoted, word, colon := m[1] != "", m[2], m[3] != ""
		if colon && isHex(word) { // the begin of an address of IPv6
			continue
		}
		if quoted || !slices.Contains(nftKeywords, word) {
			return word
		}
	}
	return ""
}

func isHex(word string) bool {
	return len(word) <= 4 && strings.Trim(word, "0123456789abcdefABCDEF") == ""
}

// hostElement reports whether an element of a set of addresses is the name of a host.
func hostElement(typ, element string) bool {
	element = strings.Trim(element, `"`)
	_, err := netip.ParseAddr(element)
	return (typ == "ipv4_addr" || typ == "ipv6_addr") && err != nil && hostName.MatchString(element)
}

const noHosts = "%s is the name of a host, which nft resolves once, when the rule is loaded; write its address, or <claim:NAME>"
