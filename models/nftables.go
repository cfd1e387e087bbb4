package models

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"google.golang.org/protobuf/proto"
)

// What nft takes for the name of a table or a chain, and for a priority.
var (
	nftName     = regexp.MustCompile(`^[a-zA-Z_.][a-zA-Z0-9/_.-]*$`)
	nftPriority = regexp.MustCompile(`^(-?[0-9]{1,9}|[a-z]+( ?[+-] ?[0-9]{1,9})?)$`)
)

// Bounds of nftables: a name in the kernel, and a rule, in bytes.
const (
	maxNftName = 255
	maxNftRule = 4096
)

// ruleClaim stands in a rule for the address that an ipclaim holds.
var ruleClaim = regexp.MustCompile(`<` + ClaimPrefix + `([^<>]*)>`)

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

// Claims are the ipclaims that the rules name, sorted.
func (x *Nftables) Claims() (claims []string) {
	for _, c := range x.GetChains() {
		for _, r := range c.GetRules() {
			for _, m := range ruleClaim.FindAllStringSubmatch(r, -1) {
				claims = append(claims, m[1])
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
	for _, c := range x.GetChains() {
		for i, r := range c.Rules {
			c.Rules[i] = ruleClaim.ReplaceAllStringFunc(r, func(text string) string {
				return orDefault(address(ruleClaim.FindStringSubmatch(text)[1]), text)
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
	seen := map[string]bool{}
	for i, c := range x.Chains {
		at := fmt.Sprintf("chains[%d]", i)
		if seen[c.Name] {
			f.add(at+".name", "there is another chain %s", c.Name)
		}
		seen[c.Name] = true
		c.check(at, f)
	}
}

const nftNameRule = "It begins with a letter and holds letters, digits and / _ . -"

func (x *Chain) check(at string, f *findings) {
	switch {
	case x.Name == "":
		f.add(at+".name", "must be given")
	case !nftName.MatchString(x.Name) || len(x.Name) > maxNftName:
		f.add(at+".name", "%q can be no name of a chain. %s", x.Name, nftNameRule)
	}
	switch {
	case (x.Type == "") != (x.Hook == ""):
		f.add(at+".hook", "goes with type: both, or none of them")
	case x.Hook == "" && x.Priority+x.Policy != "":
		f.add(at+".hook", "must be given with priority or policy")
	case x.Priority != "" && !nftPriority.MatchString(x.Priority):
		f.add(at+".priority", "%q is neither a number nor a name such as srcnat or filter + 10", x.Priority)
	}
	for i, r := range x.Rules {
		if wrong := checkRule(r); wrong != "" {
			f.add(fmt.Sprintf("%s.rules[%d]", at, i), "%s", wrong)
		}
	}
}

// checkRule says why a text cannot be one rule: one that ends early would be read as
// something else. Whether it is a rule at all nft knows.
func checkRule(rule string) string {
	quoted, open := false, 0
	for _, r := range rule {
		switch {
		case unicode.IsControl(r) && r != '\t':
			return "holds a control character; a rule is one line"
		case r == '"':
			quoted = !quoted
		case quoted:
		case strings.ContainsRune(`;#\`, r):
			return fmt.Sprintf("holds %q; write one rule without it", r)
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
	case strings.TrimSpace(rule) == "":
		return "is empty"
	case len(rule) > maxNftRule:
		return fmt.Sprintf("has %d bytes; at most %d are allowed", len(rule), maxNftRule)
	case quoted:
		return "has a quote that does not end"
	case open != 0:
		return "has braces that do not match"
	}
	for _, m := range ruleClaim.FindAllStringSubmatch(rule, -1) {
		if err := CheckName(m[1]); err != nil {
			return fmt.Sprintf("%s: %v", m[0], err)
		}
	}
	return ""
}
