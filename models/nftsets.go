package models

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// What nft takes for a type, in which several are joined by dots, and for a time.
var (
	nftType = regexp.MustCompile(`^[a-z][a-z0-9_]*( \. [a-z][a-z0-9_]*)*$`)
	nftTime = regexp.MustCompile(`^([0-9]{1,5}d)?([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,5}s)?$`)
)

// setFlags are the flags of sets and maps.
var setFlags = []string{"constant", "dynamic", "interval", "timeout"}

// changesSet is what in a rule adds to a set or takes from it; quoted texts are none.
var (
	changesSet = regexp.MustCompile(`\b(?:add|update|delete)\s+@([a-zA-Z0-9/_.-]+)`)
	nftQuoted  = regexp.MustCompile(`"[^"]*"`)
)

// EffectivePriority is the place of the flowtable at its devices: priority, default 0.
func (x *Flowtable) EffectivePriority() string { return orDefault(x.GetPriority(), "0") }

// Devices are the logical names of the interfaces at which anything of the table is,
// sorted.
func (x *Nftables) Devices() (names []string) {
	for _, c := range x.GetChains() {
		names = append(names, c.GetDevices()...)
	}
	for _, t := range x.GetFlowtables() {
		names = append(names, t.GetDevices()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// elements is what sets and maps have in common.
type elements interface {
	GetName() string
	GetType() string
	GetFlags() []string
	GetElements() []string
	GetTimeout() string
}

// checkSets checks sets and maps, which share their names.
func (x *Nftables) checkSets(f *findings) {
	names, changed := nftNames{}, x.changedByRules()
	for i, s := range x.Sets {
		at := fmt.Sprintf("sets[%d]", i)
		names.check(s.Name, at+".name", "set or map", f)
		checkElements(s, at, changed[s.Name], f)
		if s.AutoMerge && !slices.Contains(s.Flags, "interval") {
			f.add(at+".auto_merge", "goes with the flag interval")
		}
	}
	for i, m := range x.Maps {
		at := fmt.Sprintf("maps[%d]", i)
		names.check(m.Name, at+".name", "set or map", f)
		checkElements(m, at, changed[m.Name], f)
		switch {
		case m.Data == "":
			f.add(at+".data", "must be given: a type, or verdict")
		case !nftType.MatchString(m.Data):
			f.add(at+".data", "%q is neither a type of nft such as ipv4_addr . inet_service nor verdict", m.Data)
		}
	}
}

// changedByRules tells of a set which rule changes it.
func (x *Nftables) changedByRules() map[string]string {
	changed := map[string]string{}
	for i, c := range x.Chains {
		for j, r := range c.Rules {
			for _, m := range changesSet.FindAllStringSubmatch(nftQuoted.ReplaceAllString(r, ""), -1) {
				changed[m[1]] = fmt.Sprintf("chains[%d].rules[%d]", i, j)
			}
		}
	}
	return changed
}

// checkElements checks a set or map; changedBy is a rule that changes it.
func checkElements(x elements, at, changedBy string, f *findings) {
	switch t := x.GetType(); {
	case t == "":
		f.add(at+".type", "must be given, such as ipv4_addr")
	case !nftType.MatchString(t):
		f.add(at+".type", "%q is no type of nft such as ipv4_addr or ipv4_addr . inet_service", t)
	case t == "verdict" || t == "integer" || t == "string":
		f.add(at+".type", "%s is not a type that elements can have", t)
	}
	has := func(flag string) bool { return slices.Contains(x.GetFlags(), flag) }
	for i, flag := range x.GetFlags() {
		where := fmt.Sprintf("%s.flags[%d]", at, i)
		switch {
		case !slices.Contains(setFlags, flag):
			f.add(where, "%q is none of %s", flag, strings.Join(setFlags, ", "))
		case slices.Contains(x.GetFlags()[:i], flag):
			f.add(where, "%s is named twice", flag)
		}
	}
	switch {
	case has("dynamic") && has("interval"):
		f.add(at+".flags", "the kernel has no set that is both dynamic and interval")
	case changedBy != "" && !has("dynamic"):
		f.add(at+".flags", "must hold dynamic, as %s changes the elements", changedBy)
	}
	if t := x.GetTimeout(); t != "" && !nftTime.MatchString(t) {
		f.add(at+".timeout", "%q is no time such as 30s, 5m or 1h30m", t)
	}
	seen := map[string]bool{}
	for i, e := range x.GetElements() {
		where, wrong := fmt.Sprintf("%s.elements[%d]", at, i), checkStatement(e, "element", elementEnds)
		switch {
		case wrong != "":
			f.add(where, "%s", wrong)
		case seen[e]:
			f.add(where, "%s is named twice", e)
		case hostElement(x.GetType(), e):
			f.add(where, noHosts, e)
		}
		seen[e] = true
	}
}

func (x *Nftables) checkFlowtables(f *findings) {
	names := nftNames{}
	for i, t := range x.Flowtables {
		at := fmt.Sprintf("flowtables[%d]", i)
		names.check(t.Name, at+".name", "flowtable", f)
		if family := x.EffectiveFamily(); nftHooks[family] != nil && !isIPFamily(family) {
			f.add(at, "the family %s has no flowtables; ip, ip6 and inet have them", family)
		}
		if t.Priority != "" && !nftPriority.MatchString(t.Priority) {
			f.add(at+".priority", "%q is neither a number nor a name such as filter + 10", t.Priority)
		}
		checkDevices(t.Devices, at+".devices", f)
	}
}
