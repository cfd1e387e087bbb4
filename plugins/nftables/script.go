package nftables

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// script is what nft reads. What of a table may be wrong has a line of its own.
type script struct {
	strings.Builder
	about []part // of each line
}

// part is what a line is about: a field of the table, and the text that it holds if it is
// a rule or an element.
type part struct{ field, text string }

var whole = part{}

func (s *script) add(about part, format string, args ...any) {
	fmt.Fprintf(s, format+"\n", args...)
	s.about = append(s.about, about)
}

// scriptOf makes a table. With replace the one that is there goes in the same
// transaction; deleting needs that there is one, so it is added first.
func scriptOf(t kernel.Table, replace bool) *script {
	s := &script{}
	id := t.Family + " " + t.Name
	if replace {
		s.add(whole, "add table %s", id)
		s.add(whole, "delete table %s", id)
	}
	s.add(whole, "create table %s { comment %q; }", id, t.Comment)
	for i, c := range t.Chains { // elements of maps name them
		s.chain(id, c, fmt.Sprintf("chains[%d]", i))
	}
	for _, one := range setsOf(t) {
		s.add(part{field: one.field}, "add %s %s %s { %s }", one.word, id, one.Name, attributes(one.TableSet))
		s.elements(id, one)
	}
	for i, f := range t.Flowtables {
		s.flowtable(id, f, fmt.Sprintf("flowtables[%d]", i))
	}
	for i, c := range t.Chains {
		for j, r := range c.Rules {
			s.add(part{fmt.Sprintf("chains[%d].rules[%d]", i, j), r}, "add rule %s %s %s", id, c.Name, r)
		}
	}
	return s
}

// elementsOf empties sets and maps and fills them.
func elementsOf(t kernel.Table, names []string) *script {
	s := &script{}
	id := t.Family + " " + t.Name
	for _, one := range setsOf(t) {
		if slices.Contains(names, one.Name) {
			s.add(part{field: one.field}, "flush %s %s %s", one.word, id, one.Name)
			s.elements(id, one)
		}
	}
	return s
}

// named is a set or a map with what nft calls it and where it is in the table.
type named struct {
	kernel.TableSet
	word, field string
}

func setsOf(t kernel.Table) (all []named) {
	for i, one := range t.Sets {
		all = append(all, named{one, "set", fmt.Sprintf("sets[%d]", i)})
	}
	for i, one := range t.Maps {
		all = append(all, named{one, "map", fmt.Sprintf("maps[%d]", i)})
	}
	return all
}

// chain makes a chain without its rules.
func (s *script) chain(id string, c kernel.TableChain, field string) {
	if c.Type == "" {
		s.add(part{field: field}, "add chain %s %s", id, c.Name)
		return
	}
	devices := ""
	if len(c.Devices) > 0 {
		devices = " " + devicesOf(c.Devices)
	}
	s.add(part{field: field}, "add chain %s %s { type %s hook %s%s priority %s; policy %s; }", id, c.Name, c.Type, c.Hook, devices, c.Priority, c.Policy)
}

func devicesOf(names []string) string {
	return `devices = { "` + strings.Join(names, `", "`) + `" }`
}

// attributes are those of a set or map, each with the sign that ends it.
func attributes(t kernel.TableSet) string {
	list := []string{"type " + t.Type}
	if t.Data != "" {
		list[0] += " : " + t.Data
	}
	if len(t.Flags) > 0 {
		list = append(list, "flags "+strings.Join(t.Flags, ","))
	}
	if t.Timeout != "" {
		list = append(list, "timeout "+t.Timeout)
	}
	if t.Size != 0 {
		list = append(list, fmt.Sprintf("size %d", t.Size))
	}
	if t.AutoMerge {
		list = append(list, "auto-merge")
	}
	if t.Counter {
		list = append(list, "counter")
	}
	return strings.Join(list, "; ") + ";"
}

// elements are all added by one command, so that nft sees which of them overlap.
func (s *script) elements(id string, one named) {
	if len(one.Elements) == 0 {
		return
	}
	s.add(part{field: one.field}, "add element %s %s {", id, one.Name)
	for i, e := range one.Elements {
		s.add(part{fmt.Sprintf("%s.elements[%d]", one.field, i), e}, "%s,", e)
	}
	s.add(part{field: one.field}, "}")
}

func (s *script) flowtable(id string, f kernel.TableFlowtable, field string) {
	more := ""
	if f.Counter {
		more += " counter;"
	}
	if f.Offload {
		more += " flags offload;"
	}
	s.add(part{field: field}, "add flowtable %s %s { hook ingress priority %s; %s;%s }", id, f.Name, f.Priority, devicesOf(f.Devices), more)
}
