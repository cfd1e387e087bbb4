package forward

import (
	"slices"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// rules let packets pass that come in or go out by a link.
func rules(link, mark string) []kernel.FirewallRule {
	return []kernel.FirewallRule{
		{"-i", link, "-m", "comment", "--comment", mark, "-j", "ACCEPT"},
		{"-o", link, "-m", "comment", "--comment", mark, "-j", "ACCEPT"},
	}
}

// place is where a rule of ours goes in a chain: in Docker's after all that others have put
// there, since they mean what they stop, but before what no packet comes past; in FORWARD,
// where others judge, before them.
func place(f kernel.Firewall, chain string) int {
	if chain == kernel.ForwardChain {
		return 0
	}
	if i := slices.IndexFunc(f.Chains[chain], kernel.FirewallRule.Ends); i >= 0 {
		return i
	}
	return len(f.Chains[chain])
}

// missing are the rules of ours that a firewall has not, or has where they do nothing.
func missing(f kernel.Firewall, wanted []kernel.FirewallRule) (list []kernel.FirewallRule) {
	chain := f.Chains[f.ForOthers()]
	if end := slices.IndexFunc(chain, kernel.FirewallRule.Ends); end >= 0 {
		chain = chain[:end]
	}
	for _, w := range wanted {
		if !has(chain, w) {
			list = append(list, w)
		}
	}
	return list
}

// stray is a rule with our mark in a chain where it does not belong.
type stray struct {
	chain string
	rule  kernel.FirewallRule
}

// strays are the rules with our mark that are none of those that are wanted, are in another
// chain, or are there more than once.
func strays(f kernel.Firewall, mark string, wanted []kernel.FirewallRule) (list []stray) {
	seen := map[string]bool{}
	for _, chain := range chains(f) {
		ended := false
		for _, r := range f.Chains[chain] {
			if r.Comment() != mark {
				ended = ended || r.Ends()
				continue
			}
			good := chain == f.ForOthers() && !ended && has(wanted, r) && !seen[r.String()]
			if seen[r.String()] = seen[r.String()] || good; !good {
				list = append(list, stray{chain, r})
			}
		}
	}
	return list
}

func has(list []kernel.FirewallRule, rule kernel.FirewallRule) bool {
	return slices.ContainsFunc(list, func(r kernel.FirewallRule) bool { return slices.Equal(r, rule) })
}

func chains(f kernel.Firewall) (names []string) {
	for name := range f.Chains {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
