package kerneltest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// Firewalls are those of the programs of iptables, as others make them by [Kernel.Iptables]. They
// pass and stop nothing, and are in no table of [Kernel.Tables]; but they count as such.
func (k *Kernel) Firewalls() kernel.Firewalls { return firewalls{k} }

type firewalls struct{ k *Kernel }

// firewallPrograms are those that there are: of each family that for the tables of nftables.
var firewallPrograms = []string{"ip6tables-nft", "iptables-nft"}

// builtIn are the chains that each of them has.
var builtIn = []string{"INPUT", kernel.ForwardChain, "OUTPUT"}

// firewall is the table filter of a program, which begins empty.
func (n *namespace) firewall(program string) (*kernel.Firewall, error) {
	if !slices.Contains(firewallPrograms, program) {
		return nil, fmt.Errorf("%s is %w", program, kernel.ErrNoProgram)
	}
	f := n.firewalls[program]
	if f == nil {
		f = &kernel.Firewall{Program: program, Policy: "ACCEPT", Chains: map[string][]kernel.FirewallRule{}}
		for _, chain := range builtIn {
			f.Chains[chain] = nil
		}
		n.firewalls[program] = f
	}
	return f, nil
}

// Firewalls reads those that may stop anything.
func (w firewalls) Firewalls(_ context.Context, ns kernel.NS) (list []kernel.Firewall, err error) {
	err = w.k.in(ns, "Firewalls", "list the rules", func(n *namespace) error {
		for _, program := range firewallPrograms {
			if f := n.firewalls[program]; f != nil && f.Concerns() {
				seen := *f
				seen.Chains = map[string][]kernel.FirewallRule{}
				for name, rules := range f.Chains {
					seen.Chains[name] = slices.Clone(rules)
				}
				list = append(list, seen)
			}
		}
		return nil
	})
	return list, err
}

// InsertRule puts a rule at a place of a chain.
func (w firewalls) InsertRule(_ context.Context, ns kernel.NS, f kernel.Firewall, chain string, at int, rule kernel.FirewallRule) error {
	return w.k.changeFirewall(ns, "InsertRule", f.Program, func(f *kernel.Firewall) error { return insertRule(f, chain, at, rule) })
}

// DeleteRule removes a rule.
func (w firewalls) DeleteRule(_ context.Context, ns kernel.NS, f kernel.Firewall, chain string, rule kernel.FirewallRule) error {
	return w.k.changeFirewall(ns, "DeleteFirewallRule", f.Program, func(f *kernel.Firewall) error { return deleteRule(f, chain, rule) })
}

// Signature is another after each change of tables.
func (w firewalls) Signature(_ context.Context, ns kernel.NS) (string, error) {
	generation, err := w.k.Tables().Generation(ns)
	return strconv.FormatUint(uint64(generation), 10), err
}

func (k *Kernel) changeFirewall(ns kernel.NS, method, program string, change func(*kernel.Firewall) error) error {
	return k.write(ns, method, program, func(n *namespace) error {
		f, err := n.firewall(program)
		if err == nil {
			err = change(f)
		}
		if err == nil {
			k.moveTables(n)
		}
		return err
	})
}

func insertRule(f *kernel.Firewall, chain string, at int, rule kernel.FirewallRule) error {
	rules, there := f.Chains[chain]
	switch {
	case !there:
		return refused(syscall.ENOENT)
	case at < 0 || at > len(rules):
		return fmt.Errorf("index of insertion too big: %w", syscall.EINVAL)
	}
	f.Chains[chain] = slices.Insert(rules, at, slices.Clone(rule))
	return nil
}

func deleteRule(f *kernel.Firewall, chain string, rule kernel.FirewallRule) error {
	at := slices.IndexFunc(f.Chains[chain], func(r kernel.FirewallRule) bool { return slices.Equal(r, rule) })
	if at < 0 {
		return refused(syscall.ENOENT)
	}
	f.Chains[chain] = slices.Delete(f.Chains[chain], at, at+1)
	return nil
}

// Iptables does what a command of iptables(8) says of the table filter: "iptables-nft -P FORWARD
// DROP". There are also -N, -A, -I, -D, -F and -X, and ip6tables-nft. Words of rules stay as they
// are said.
func (k *Kernel) Iptables(ns kernel.NS, command string) error {
	words := strings.Fields(command)
	if len(words) < 2 {
		return fmt.Errorf("%q is no command of iptables", command)
	}
	program, act, words := words[0], words[1], words[2:]
	return k.changeFirewall(ns, "Iptables", program, func(f *kernel.Firewall) error {
		if act == "-F" && len(words) == 0 {
			for chain := range f.Chains {
				f.Chains[chain] = nil
			}
			return nil
		}
		if len(words) == 0 {
			return errors.New("want a chain")
		}
		chain, rule := words[0], kernel.FirewallRule(words[1:])
		rules, there := f.Chains[chain]
		if there == (act == "-N") {
			return refused(map[bool]syscall.Errno{true: syscall.EEXIST, false: syscall.ENOENT}[there])
		}
		switch act {
		case "-P":
			if chain == kernel.ForwardChain {
				f.Policy = rule.String()
			}
		case "-N", "-F":
			f.Chains[chain] = nil
		case "-X":
			if len(rules) > 0 || goesTo(f, chain) || slices.Contains(builtIn, chain) {
				return syscall.EBUSY
			}
			delete(f.Chains, chain)
		case "-A":
			return insertRule(f, chain, len(rules), rule)
		case "-I":
			at := 1
			if len(rule) > 0 {
				if n, err := strconv.Atoi(rule[0]); err == nil {
					at, rule = n, rule[1:]
				}
			}
			return insertRule(f, chain, at-1, rule)
		case "-D":
			return deleteRule(f, chain, rule)
		default:
			return fmt.Errorf("%q is not understood here", act)
		}
		return nil
	})
}

// goesTo reports whether any rule sends packets to a chain.
func goesTo(f *kernel.Firewall, chain string) bool {
	for _, rules := range f.Chains {
		for _, r := range rules {
			if i := slices.Index(r, "-j"); i >= 0 && i+1 < len(r) && r[i+1] == chain {
				return true
			}
		}
	}
	return false
}

// firewallsText are the firewalls of a namespace, as commands.
func (n *namespace) firewallsText() (lines []string) {
	for _, program := range firewallPrograms {
		f := n.firewalls[program]
		if f == nil {
			continue
		}
		line := func(words ...string) { lines = append(lines, program+" "+strings.Join(words, " ")) }
		if f.Policy != "ACCEPT" {
			line("-P", kernel.ForwardChain, f.Policy)
		}
		chains := slices.Sorted(maps.Keys(f.Chains))
		for _, chain := range chains {
			if !slices.Contains(builtIn, chain) {
				line("-N", chain)
			}
		}
		for _, chain := range chains {
			for _, r := range f.Chains[chain] {
				line("-A", chain, r.String())
			}
		}
	}
	return lines
}
