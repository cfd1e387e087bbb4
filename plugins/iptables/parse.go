package iptables

import (
	"fmt"
	"strings"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// parse reads what iptables -S lists of the table filter.
func parse(program, listing string) (kernel.Firewall, error) {
	f := kernel.Firewall{Program: program, Chains: map[string][]kernel.FirewallRule{}}
	for line := range strings.Lines(listing) {
		words, err := split(strings.TrimSpace(line))
		if err != nil {
			return f, fmt.Errorf("%s lists %q: %w", program, strings.TrimSpace(line), err)
		}
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		switch {
		case len(words) < 2:
			return f, fmt.Errorf("%s lists %q, which is not understood", program, line)
		case words[0] == "-P" && len(words) >= 3:
			f.Chains[words[1]] = nil
			if words[1] == kernel.ForwardChain {
				f.Policy = words[2]
			}
		case words[0] == "-N":
			f.Chains[words[1]] = nil
		case words[0] == "-A":
			f.Chains[words[1]] = append(f.Chains[words[1]], words[2:])
		default:
			return f, fmt.Errorf("%s lists %q, which is not understood", program, line)
		}
	}
	return f, nil
}

// split is the words of a line; in quotes a word may have blanks, and a backslash takes
// the meaning from the character after it.
func split(line string) (words []string, err error) {
	var word strings.Builder
	quoted, escaped, begun := false, false, false
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quoted:
			escaped = true
		case r == '"':
			quoted, begun = !quoted, true
		case r == ' ' && !quoted:
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if quoted || escaped {
		return nil, fmt.Errorf("a quote is not closed")
	}
	if begun {
		words = append(words, word.String())
	}
	return words, nil
}
