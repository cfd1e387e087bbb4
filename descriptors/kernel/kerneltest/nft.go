package kerneltest

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// Tables are those of nftables. What rules and elements mean is not known: they stay in the words
// in which they came, and are looked through for what they name of their table. A chain at a link
// waits for one of that name, as newer kernels have it.
func (k *Kernel) Tables() kernel.Tables { return tables{k} }

type tables struct{ k *Kernel }

// tableID is a table within its namespace.
type tableID struct{ family, name string }

func (id tableID) String() string { return "table " + id.family + " " + id.name }

func tableOf(t kernel.Table) tableID { return tableID{t.Family, t.Name} }

// Table reads a table.
func (t tables) Table(_ context.Context, ns kernel.NS, family, name string) (read kernel.Table, err error) {
	id := tableID{family, name}
	err = t.k.in(ns, "Table", "list "+id.String(), func(n *namespace) error {
		one, there := n.tables[id]
		if !there {
			return refused(syscall.ENOENT)
		}
		read = copied(one)
		for _, s := range setsOf(&read) {
			if s.IsChanging() {
				s.Elements = nil
			}
		}
		return nil
	})
	return read, err
}

// CreateTable makes a table where there is none.
func (t tables) CreateTable(_ context.Context, ns kernel.NS, table kernel.Table) error {
	return t.change(ns, "CreateTable", tableOf(table), func(n *namespace, there bool) error {
		if there {
			return refused(syscall.EEXIST)
		}
		return n.putTable(table)
	})
}

// ReplaceTable makes a table in place of the one that is there.
func (t tables) ReplaceTable(_ context.Context, ns kernel.NS, table kernel.Table) error {
	return t.change(ns, "ReplaceTable", tableOf(table), func(n *namespace, _ bool) error { return n.putTable(table) })
}

// ReplaceElements gives sets and maps of a table other elements.
func (t tables) ReplaceElements(_ context.Context, ns kernel.NS, table kernel.Table, names []string) error {
	fresh := slices.DeleteFunc(setsOf(&table), func(s set) bool { return !slices.Contains(names, s.Name) })
	if len(fresh) == 0 {
		return nil
	}
	return t.change(ns, "ReplaceElements", tableOf(table), func(n *namespace, _ bool) error {
		next := copied(n.tables[tableOf(table)])
		all := setsOf(&next)
		for _, s := range fresh {
			at := slices.IndexFunc(all, func(o set) bool { return o.Name == s.Name })
			if at < 0 {
				return nameless(s.field, "")
			}
			all[at].Elements = slices.Clone(s.Elements)
		}
		return n.putTable(next)
	})
}

// DeleteTable removes a table.
func (t tables) DeleteTable(_ context.Context, ns kernel.NS, family, name string) error {
	id := tableID{family, name}
	return t.change(ns, "DeleteTable", id, func(n *namespace, there bool) error {
		if !there {
			return refused(syscall.ENOENT)
		}
		delete(n.tables, id)
		return nil
	})
}

// change makes a change of a table, which counts unless it fails.
func (t tables) change(ns kernel.NS, method string, id tableID, f func(n *namespace, there bool) error) error {
	return t.k.write(ns, method, id.String(), func(n *namespace) error {
		_, there := n.tables[id]
		if err := f(n, there); err != nil {
			return refusal{err}
		}
		t.k.moveTables(n)
		return nil
	})
}

// Generation counts the changes.
func (t tables) Generation(ns kernel.NS) (generation uint32, err error) {
	err = t.k.in(ns, "Generation", "read the generation of the tables", func(n *namespace) error {
		generation = n.generation
		return nil
	})
	return generation, err
}

// WatchTables has Watch tell of changes of the tables of a namespace.
func (k *Kernel) WatchTables(ns kernel.NS) error {
	return k.in(ns, "WatchTables", "watch the tables", func(n *namespace) error {
		n.tellsTables = true
		return nil
	})
}

// UnwatchTables ends it.
func (k *Kernel) UnwatchTables(ns kernel.NS) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := k.all[ns]; n != nil {
		n.tellsTables = false
	}
}

// moveTables counts a change of the tables of a namespace, and tells of it.
func (k *Kernel) moveTables(n *namespace) {
	if n.generation++; n.tellsTables {
		k.tell(kernel.Event{NS: n.id, Tables: &kernel.TablesChange{Generation: n.generation}})
	}
}

// set is a set or a map in a table, and its place there.
type set struct {
	*kernel.TableSet
	word, field string
}

func setsOf(t *kernel.Table) (list []set) {
	for i := range t.Sets {
		list = append(list, set{&t.Sets[i], "set", fmt.Sprintf("sets[%d]", i)})
	}
	for i := range t.Maps {
		list = append(list, set{&t.Maps[i], "map", fmt.Sprintf("maps[%d]", i)})
	}
	return list
}

// copied is a table of which nothing is shared.
func copied(t kernel.Table) kernel.Table {
	t.Chains, t.Sets, t.Maps, t.Flowtables = slices.Clone(t.Chains), slices.Clone(t.Sets), slices.Clone(t.Maps), slices.Clone(t.Flowtables)
	for i := range t.Chains {
		c := &t.Chains[i]
		c.Devices, c.Rules = slices.Clone(c.Devices), slices.Clone(c.Rules)
	}
	for _, s := range setsOf(&t) {
		s.Flags, s.Elements = slices.Clone(s.Flags), slices.Clone(s.Elements)
	}
	for i := range t.Flowtables {
		t.Flowtables[i].Devices = slices.Clone(t.Flowtables[i].Devices)
	}
	return t
}

// putTable puts a table as it is listed, if all is there that its parts name.
func (n *namespace) putTable(t kernel.Table) error {
	t = copied(t)
	chains, others := map[string]bool{}, map[string]bool{}
	for _, c := range t.Chains {
		chains[c.Name] = true
	}
	for _, s := range setsOf(&t) {
		others[s.Name] = true
	}
	for _, f := range t.Flowtables {
		slices.Sort(f.Devices)
		others[f.Name] = true
	}
	for _, s := range setsOf(&t) {
		for i, e := range s.Elements {
			if s.Elements[i] = squeezed(e); !knows(e, chains, nil) {
				return nameless(fmt.Sprintf("%s.elements[%d]", s.field, i), e)
			}
		}
		slices.Sort(s.Elements)
	}
	for i, c := range t.Chains {
		slices.Sort(c.Devices)
		for j, r := range c.Rules {
			if c.Rules[j] = squeezed(r); !knows(r, chains, others) {
				return nameless(fmt.Sprintf("chains[%d].rules[%d]", i, j), r)
			}
		}
	}
	n.tables[tableOf(t)] = t
	return nil
}

// refusal is an error of what was understood, so that it may do another time.
type refusal struct{ error }

func (e refusal) Unwrap() error { return e.error }
func (refusal) Refused() bool   { return true }

// nameless is the error of a part that names what is not there.
func nameless(field, text string) error {
	return &kernel.TextError{Field: field, Text: text, Err: refused(syscall.ENOENT)}
}

var (
	inQuotes = regexp.MustCompile(`"[^"]*"`)
	// A part of a packet, as @th,16,16, is no name.
	named = regexp.MustCompile(`(?:\b(jump|goto) +|@)([\w./\\-]+)(,?)`)
)

// knows reports whether all is there that a rule or an element names: chains that it goes to, and
// sets, maps and flowtables.
func knows(text string, chains, others map[string]bool) bool {
	for _, m := range named.FindAllStringSubmatch(inQuotes.ReplaceAllString(text, ""), -1) {
		there := others
		if m[1] != "" {
			there = chains
		}
		if !there[m[2]] && (m[1] != "" || m[3] == "") {
			return false
		}
	}
	return true
}

// squeezed is a text with one blank in the place of many, but as it is in quotes.
func squeezed(text string) string {
	var b strings.Builder
	quoted := false
	for _, r := range strings.TrimSpace(text) {
		if r == '"' {
			quoted = !quoted
		}
		if quoted || r != ' ' && r != '\t' {
			b.WriteRune(r)
		} else if s := b.String(); s[len(s)-1] != ' ' {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// nftText is a table as commands of nft(8) that make it.
func nftText(t kernel.Table) (lines []string) {
	id := t.Family + " " + t.Name
	line := func(format string, args ...any) { lines = append(lines, "nft '"+fmt.Sprintf(format, args...)+"'") }
	line("add table %s { comment %q; }", id, t.Comment)
	for _, c := range t.Chains {
		if c.Type == "" {
			line("add chain %s %s", id, c.Name)
			continue
		}
		at := c.Hook
		if len(c.Devices) > 0 {
			at += " devices = { " + strings.Join(c.Devices, ", ") + " }"
		}
		line("add chain %s %s { type %s hook %s priority %s; policy %s; }", id, c.Name, c.Type, at, c.Priority, c.Policy)
	}
	for _, s := range setsOf(&t) {
		line("add %s %s %s { %s }", s.word, id, s.Name, strings.Join(setWords(*s.TableSet), " "))
		if len(s.Elements) > 0 {
			line("add element %s %s { %s }", id, s.Name, strings.Join(s.Elements, ", "))
		}
	}
	for _, f := range t.Flowtables {
		words := []string{"hook ingress priority " + f.Priority + ";", "devices = { " + strings.Join(f.Devices, ", ") + " };"}
		if f.Counter {
			words = append(words, "counter;")
		}
		if f.Offload {
			words = append(words, "flags offload;")
		}
		line("add flowtable %s %s { %s }", id, f.Name, strings.Join(words, " "))
	}
	for _, c := range t.Chains {
		for _, r := range c.Rules {
			line("add rule %s %s %s", id, c.Name, r)
		}
	}
	return lines
}

func setWords(s kernel.TableSet) []string {
	words := []string{"type " + s.Type + ";"}
	if s.Data != "" {
		words[0] = "type " + s.Type + " : " + s.Data + ";"
	}
	if len(s.Flags) > 0 {
		words = append(words, "flags "+strings.Join(s.Flags, ",")+";")
	}
	if s.Timeout != "" {
		words = append(words, "timeout "+s.Timeout+";")
	}
	if s.Size != 0 {
		words = append(words, fmt.Sprintf("size %d;", s.Size))
	}
	if s.AutoMerge {
		words = append(words, "auto-merge;")
	}
	if s.Counter {
		words = append(words, "counter;")
	}
	return words
}

// tablesText are the tables of a namespace.
func (n *namespace) tablesText() (lines []string) {
	ids := slices.SortedFunc(maps.Keys(n.tables), func(a, b tableID) int { return strings.Compare(a.String(), b.String()) })
	for _, id := range ids {
		lines = append(lines, nftText(n.tables[id])...)
	}
	return lines
}
