package nftables

import (
	"fmt"
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
			if chain, ok := strings.CutPrefix(block, "chain "); ok {
				t.Chains = append(t.Chains, kernel.TableChain{Name: chain})
			}
		case len(in) == 1:
			if text, ok := strings.CutPrefix(line, "comment "); ok {
				t.Comment = strings.Trim(text, `"`)
			}
		case len(in) == 2 && strings.HasPrefix(in[1], "chain "):
			addTo(&t.Chains[len(t.Chains)-1], line)
		case len(in) == 2: // sets and the like, which are not ours to make
			t.Chains = append(t.Chains, kernel.TableChain{Name: in[1], Rules: []string{line}})
		default:
			return t, fmt.Errorf("nft lists %q, which is not understood", line)
		}
	}
	return t, nil
}

// joined are the lines of a listing without blanks around; what goes on is joined.
func joined(listing string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		rest := ""
		for line := range strings.Lines(listing) {
			line = strings.TrimSpace(line)
			if rest != "" {
				line = rest + " " + line
			}
			rest = ""
			if goesOn(line) {
				rest = line
				continue
			}
			if line != "" && !yield(line) {
				return
			}
		}
		if rest != "" {
			yield(rest)
		}
	}
}

// goesOn reports whether braces within a line are open at its end. One that ends it
// opens a block.
func goesOn(line string) bool {
	open, quoted := 0, false
	for _, r := range strings.TrimSuffix(line, " {") {
		switch {
		case r == '"':
			quoted = !quoted
		case quoted:
		case r == '{':
			open++
		case r == '}':
			open--
		}
	}
	return open > 0
}

// addTo adds a line of a chain: what it is, or a rule.
func addTo(c *kernel.TableChain, line string) {
	words := strings.Fields(line)
	if len(words) < 6 || words[0] != "type" || words[2] != "hook" || len(c.Rules) > 0 || c.Type != "" {
		c.Rules = append(c.Rules, line)
		return
	}
	c.Type, c.Hook = words[1], words[3]
	_, text, _ := strings.Cut(line, " priority ")
	c.Priority, text, _ = strings.Cut(text, ";")
	if _, policy, ok := strings.Cut(text, "policy "); ok {
		c.Policy = strings.TrimSuffix(policy, ";")
	}
}
