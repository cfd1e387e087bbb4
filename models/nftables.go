package models

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"google.golang.org/protobuf/proto"
)

// What nft takes for a name and for a priority.
var (
	nftName     = regexp.MustCompile(`^[a-zA-Z_.][a-zA-Z0-9/_.-]*$`)
	nftPriority = regexp.MustCompile(`^(-?[0-9]{1,9}|[a-z]+( ?[+-] ?[0-9]{1,9})?)$`)
)

// Bounds of nftables: a name in the kernel, and a rule or element, in bytes.
const (
	maxNftName = 255
	maxNftRule = 4096
)

// ruleClaim stands in a rule or element for the address that an ipclaim holds; behind 0x for that
// as a number, as what is compared with raw payload needs it.
var ruleClaim = regexp.MustCompile(`(0x)?<` + ClaimPrefix + `([^<>]*)>`)

// EffectiveFamily is the family of the table: family, default inet.
func (x *Nftables) EffectiveFamily() string { return orDefault(x.GetFamily(), "inet") }

// EffectiveTable is the name of the table: table, default the key's name.
func (x *Nftables) EffectiveTable(key string) string {
	return orDefault(x.GetTable(), strings.TrimPrefix(key, KindNftables+"/"))
}

// EffectivePriority is the place of the chain in its hook: priority, default 0.
func (x *Chain) EffectivePriority() string { return orDefault(x.GetPriority(), "0") }

// EffectivePolicy is what becomes of packets at the end: policy, default accept.
func (x *Chain) EffectivePolicy() string { return orDefault(x.GetPolicy(), "accept") }

// texts are the rules and the elements, for reading and for writing.
func (x *Nftables) texts() (all [][]string) {
	for _, c := range x.GetChains() {
		all = append(all, c.Rules)
	}
	for _, s := range x.GetSets() {
		all = append(all, s.Elements)
	}
	for _, m := range x.GetMaps() {
		all = append(all, m.Elements)
	}
	return all
}

// Claims are the ipclaims that rules and elements name, sorted.
func (x *Nftables) Claims() (claims []string) {
	for _, list := range x.texts() {
		for _, text := range list {
			for _, m := range ruleClaim.FindAllStringSubmatch(text, -1) {
				claims = append(claims, m[2])
			}
		}
	}
	slices.Sort(claims)
	return slices.Compact(claims)
}

// Claimed is the same table with addresses in place of claims. Of a claim without an
// address the name stays.
func (x *Nftables) Claimed(address func(claim string) string) *Nftables {
	x = proto.CloneOf(x)
	for _, list := range x.texts() {
		for i, text := range list {
			list[i] = ruleClaim.ReplaceAllStringFunc(text, func(name string) string {
				m := ruleClaim.FindStringSubmatch(name)
				held := address(m[2])
				if a, err := netip.ParseAddr(held); err == nil && m[1] != "" {
					held = "0x" + hex.EncodeToString(a.AsSlice())
				}
				return orDefault(held, name)
			})
		}
	}
	return x
}

func (x *Nftables) check(name string, f *findings) {
	if x.Namespace != nil {
		x.Namespace.check("namespace", f)
	}
	switch table := x.EffectiveTable(name); {
	case len(table) > maxNftName:
		f.add("table", "has %d bytes; the kernel takes at most %d", len(table), maxNftName)
	case !nftName.MatchString(table) && x.Table == "":
		f.add("table", "must be given: the key's name, %s, can be none. %s", name, nftNameRule)
	case !nftName.MatchString(table):
		f.add("table", "%q can be no name of a table. %s", table, nftNameRule)
	}
	chains := nftNames{}
	for i, c := range x.Chains {
		at := fmt.Sprintf("chains[%d]", i)
		chains.check(c.Name, at+".name", "chain", f)
		c.check(at, x.EffectiveFamily(), f)
	}
	x.checkSets(f)
	x.checkFlowtables(f)
}

const nftNameRule = "It begins with a letter and holds letters, digits and / _ . -"

// nftNames are the names of one sort of thing in a table.
type nftNames map[string]bool

func (n nftNames) check(name, at, what string, f *findings) {
	switch {
	case name == "":
		f.add(at, "must be given")
	case n[name]:
		f.add(at, "there is another %s %s", what, name)
	case !nftName.MatchString(name) || len(name) > maxNftName:
		f.add(at, "%q can be no name of a %s. %s", name, what, nftNameRule)
	}
	n[name] = true
}

// Where the kernel lets packets come to a chain, by the family of its table.
var (
	nftIP    = []string{"prerouting", "input", "forward", "output", "postrouting"}
	nftHooks = map[string][]string{
		"ip": nftIP, "ip6": nftIP, "inet": append(slices.Clone(nftIP), "ingress"), "bridge": nftIP,
		"arp": {"input", "output"}, "netdev": {"ingress", "egress"},
	}
	// nftTypes are the hooks of chains that are no filters; the families of IP have them.
	nftTypes = map[string][]string{"nat": {"prerouting", "input", "output", "postrouting"}, "route": {"output"}}
)

// isIPFamily reports whether packets of the family are routed.
func isIPFamily(family string) bool { return family == "ip" || family == "ip6" || family == "inet" }

func (x *Chain) check(at, family string, f *findings) {
	switch {
	case (x.Type == "") != (x.Hook == ""):
		f.add(at+".hook", "goes with type: both, or none of them")
	case x.Hook == "" && x.Priority+x.Policy != "":
		f.add(at+".hook", "must be given with priority or policy")
	case x.Priority != "" && !nftPriority.MatchString(x.Priority):
		f.add(at+".priority", "%q is neither a number nor a name such as srcnat or filter + 10", x.Priority)
	}
	x.checkHook(at, family, f)
	for i, r := range x.Rules {
		if wrong := checkStatement(r, "rule", ruleEnds); wrong != "" {
			f.add(fmt.Sprintf("%s.rules[%d]", at, i), "%s", wrong)
		} else if host := namesHost(r); host != "" {
			f.add(fmt.Sprintf("%s.rules[%d]", at, i), noHosts, host)
		}
	}
}

// checkHook checks that family, type, hook and devices go together. Words that are none
// are refused elsewhere.
func (x *Chain) checkHook(at, family string, f *findings) {
	hooks, atDevices := nftHooks[family], x.Hook == "ingress" || x.Hook == "egress"
	of, special := nftTypes[x.Type]
	isHook := atDevices || slices.Contains(nftIP, x.Hook)
	switch {
	case isHook && hooks != nil && !slices.Contains(hooks, x.Hook):
		f.add(at+".hook", "the family %s has no %s; it has %s", family, x.Hook, strings.Join(hooks, ", "))
	case isHook && special && !isIPFamily(family):
		f.add(at+".type", "the family %s has no %s; ip, ip6 and inet have it", family, x.Type)
	case isHook && special && !slices.Contains(of, x.Hook):
		f.add(at+".type", "there is no %s at %s; it goes with %s", x.Type, x.Hook, strings.Join(of, ", "))
	}
	switch {
	case atDevices:
		checkDevices(x.Devices, at+".devices", f)
	case len(x.Devices) > 0:
		f.add(at+".devices", "goes with the hooks ingress and egress only")
	}
}

// checkDevices checks the logical names of the interfaces at which something is.
func checkDevices(devices []string, at string, f *findings) {
	if len(devices) == 0 {
		f.add(at, "must be given: the logical names of the interfaces whose packets it sees")
	}
	for i, name := range devices {
		where := fmt.Sprintf("%s[%d]", at, i)
		if slices.Contains(devices[:i], name) {
			f.add(where, "%s is named twice", name)
			continue
		}
		checkRef(name, where, "an interface", f)
	}
}

// Signs that end a rule, and an element, which has no braces either.
const (
	ruleEnds    = `;#\`
	elementEnds = ruleEnds + ",{}"
)

// checkStatement says why a text cannot be one rule or element: one that ends early would be
// read as something else. Whether it is one at all nft knows.
func checkStatement(text, what, ends string) string {
	quoted, open := false, 0
	for _, r := range text {
		switch {
		case unicode.IsControl(r) && r != '\t':
			return fmt.Sprintf("holds a control character; the %s is one line", what)
		case r == '"':
			quoted = !quoted
		case quoted:
		case strings.ContainsRune(ends, r):
			return fmt.Sprintf("holds %q; write one %s without it", r, what)
		case r == '{':
			open++
		case r == '}':
			open--
		}
		if open < 0 {
			break
		}
	}
	switch {
	case strings.TrimSpace(text) == "":
		return "is empty"
	case len(text) > maxNftRule:
		return fmt.Sprintf("has %d bytes; at most %d are allowed", len(text), maxNftRule)
	case quoted:
		return "has a quote that does not end"
	case open != 0:
		return "has braces that do not match"
	}
	for _, m := range ruleClaim.FindAllStringSubmatch(text, -1) {
		if err := CheckName(m[2]); err != nil {
			return fmt.Sprintf("%s: %v", m[0], err)
		}
	}
	return ""
}
