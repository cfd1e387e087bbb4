package nftables

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// parse reads what nft lists of a table: blocks in braces, a rule on each line, but
// for sets of many members, which go on.
func parse(listing, family, name string) (kernel.Table, error) {
	t := kernel.Table{Family: family, Name: name}
	var in []string // the blocks that are open
	for line := range joined(listing) {
		block, opens := strings.CutSuffix(line, " {")
		switch {
		case line == "}" && len(in) > 0:
			in = in[:len(in)-1]
		case opens && len(in) < 2:
			in = append(in, block)
			if len(in) == 2 {
				begin(&t, block)
			}
		case len(in) == 1:
			if text, ok := strings.CutPrefix(line, "comment "); ok {
				t.Comment = strings.Trim(text, `"`)
			} else {
				t.Chains = append(t.Chains, kernel.TableChain{Name: line}) // flags, with which nothing passes the table
			}
		case len(in) == 2:
			addTo(&t, in[1], line)
		default:
			return t, fmt.Errorf("nft lists %q, which is not understood", line)
		}
	}
	for _, sets := range [][]kernel.TableSet{t.Sets, t.Maps} {
		for i := range sets {
			if slices.Sort(sets[i].Elements); sets[i].IsChanging() {
				sets[i].Elements = nil
			}
		}
	}
	return t, nil
}

// begin begins what a block is.
func begin(t *kernel.Table, block string) {
	switch word, name, _ := strings.Cut(block, " "); word {
	case "chain":
		t.Chains = append(t.Chains, kernel.TableChain{Name: name})
	case "set":
		t.Sets = append(t.Sets, kernel.TableSet{Name: name})
	case "map":
		t.Maps = append(t.Maps, kernel.TableSet{Name: name})
	case "flowtable":
		t.Flowtables = append(t.Flowtables, kernel.TableFlowtable{Name: name})
	}
}

// addTo adds a line of the block that was begun last. What is not ours to make, such as a
// quota, a set without a type or flags of the table, shows as a chain.
func addTo(t *kernel.Table, block, line string) {
	known := false
	switch word, _, _ := strings.Cut(block, " "); word {
	case "chain":
		addToChain(&t.Chains[len(t.Chains)-1], line)
		known = true
	case "set":
		known = addToSet(&t.Sets[len(t.Sets)-1], line)
	case "map":
		known = addToSet(&t.Maps[len(t.Maps)-1], line)
	case "flowtable":
		known = addToFlowtable(&t.Flowtables[len(t.Flowtables)-1], line)
	}
	if !known {
		t.Chains = append(t.Chains, kernel.TableChain{Name: block, Rules: []string{line}})
	}
}

// joined are the lines of a listing without blanks around; what goes on is joined.
func joined(listing string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		var parts []string // of a line that goes on
		open := 0
		for line := range strings.Lines(listing) {
			if line = strings.TrimSpace(line); line == "" {
				continue
			}
			parts = append(parts, line)
			if open += opened(line); open > 0 {
				continue
			}
			if !yield(strings.Join(parts, " ")) {
				return
			}
			parts, open = nil, 0
		}
		if len(parts) > 0 {
			yield(strings.Join(parts, " "))
		}
	}
}

// opened is how many braces are open at the end of a line that were not before. One that
// ends it opens a block.
func opened(line string) (n int) {
	for r := range unquoted(strings.TrimSuffix(line, " {")) {
		switch r {
		case '{':
			n++
		case '}':
			n--
		}
	}
	return n
}

// unquoted are the characters of a text that are not in quotes, and where they are.
func unquoted(text string) func(yield func(r rune, at int) bool) {
	return func(yield func(r rune, at int) bool) {
		quoted := false
		for at, r := range text {
			if r == '"' {
				quoted = !quoted
			} else if !quoted && !yield(r, at) {
				return
			}
		}
	}
}

// listed are the members of a list in braces.
func listed(text string) (list []string) {
	text = strings.TrimSuffix(strings.TrimPrefix(text, "{"), "}")
	add := func(one string) {
		if one = strings.TrimSpace(one); one != "" {
			list = append(list, one)
		}
	}
	from := 0
	for r, at := range unquoted(text) {
		if r == ',' {
			add(text[from:at])
			from = at + 1
		}
	}
	add(text[from:])
	return list
}

// addToChain adds a line of a chain: what it is, or a rule.
func addToChain(c *kernel.TableChain, line string) {
	words := strings.Fields(line)
	if len(words) < 6 || words[0] != "type" || words[2] != "hook" || len(c.Rules) > 0 || c.Type != "" {
		c.Rules = append(c.Rules, line)
		return
	}
	c.Type, c.Hook = words[1], words[3]
	before, text, _ := strings.Cut(line, " priority ")
	if _, devices, ok := strings.Cut(before, " devices = "); ok {
		c.Devices = names(listed(devices))
	} else if _, device, ok := strings.Cut(before, " device "); ok {
		c.Devices = names([]string{device})
	}
	c.Priority, text, _ = strings.Cut(text, ";")
	if _, policy, ok := strings.Cut(text, "policy "); ok {
		c.Policy = strings.TrimSuffix(policy, ";")
	}
}

// names are names of links, in order and without quotes.
func names(list []string) []string {
	for i, name := range list {
		list[i] = strings.Trim(name, `"`)
	}
	slices.Sort(list)
	return list
}

// addToSet adds a line of a set or map; false if it is not understood.
func addToSet(s *kernel.TableSet, line string) bool {
	word, text, _ := strings.Cut(line, " ")
	switch word {
	case "type":
		s.Type, s.Data, _ = strings.Cut(text, " : ")
	case "flags":
		s.Flags = strings.Split(text, ",")
	case "timeout":
		s.Timeout = text
	case "size":
		n, err := strconv.ParseUint(text, 10, 32)
		s.Size = uint32(n)
		return err == nil
	case "auto-merge":
		s.AutoMerge = true
	case "counter":
		s.Counter = text == ""
		return s.Counter
	case "elements":
		s.Elements = listed(strings.TrimPrefix(text, "= "))
	default:
		return false
	}
	return true
}

// addToFlowtable adds a line of a flowtable; false if it is not understood.
func addToFlowtable(f *kernel.TableFlowtable, line string) bool {
	word, text, _ := strings.Cut(line, " ")
	switch word {
	case "hook":
		_, f.Priority, _ = strings.Cut(text, "ingress priority ")
	case "devices":
		f.Devices = names(listed(strings.TrimPrefix(text, "= ")))
	case "counter":
		f.Counter = true
	case "flags":
		f.Offload = text == "offload"
		return f.Offload
	default:
		return false
	}
	return true
}
