package nftables

import (
	"fmt"
	"strings"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// script is what nft reads: a command on each line.
type script struct {
	strings.Builder
	about []part // of each line
}

// part is what a line is about: a chain, and a rule of it or -1.
type part struct{ chain, rule int }

var whole = part{-1, -1}

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
	for i, c := range t.Chains {
		if c.Type == "" {
			s.add(part{i, -1}, "add chain %s %s", id, c.Name)
			continue
		}
		s.add(part{i, -1}, "add chain %s %s { type %s hook %s priority %s; policy %s; }", id, c.Name, c.Type, c.Hook, c.Priority, c.Policy)
	}
	for i, c := range t.Chains {
		for j, r := range c.Rules {
			s.add(part{i, j}, "add rule %s %s %s", id, c.Name, r)
		}
	}
	return s
}
