package kernel

import (
	"context"
	"slices"
	"strings"
)

// Firewalls are those that others have made by iptables. plugins/iptables implements it.
type Firewalls interface {
	// Firewalls reads what the programs of iptables have in a namespace for packets that
	// are passed on; those that have nothing are left out.
	Firewalls(ctx context.Context, ns NS) ([]Firewall, error)
	// InsertRule puts a rule at a place of a chain, counted from 0; DeleteRule removes the
	// first rule that reads the same, ErrNotExist if there is none.
	InsertRule(ctx context.Context, ns NS, f Firewall, chain string, at int, rule FirewallRule) error
	DeleteRule(ctx context.Context, ns NS, f Firewall, chain string, rule FirewallRule) error
	// Signature changes whenever somebody has changed what Firewalls reads, and perhaps
	// at other times.
	Signature(ctx context.Context, ns NS) (string, error)
}

// Firewall is the table filter of one program of iptables.
type Firewall struct {
	// Program is what reads and changes it: iptables-nft, ip6tables-legacy.
	Program string
	// Policy is what becomes of packets that pass all rules of the chain FORWARD.
	Policy string
	Chains map[string][]FirewallRule
}

// FirewallRule is the words of a rule: -i br0 -j ACCEPT.
type FirewallRule []string

func (r FirewallRule) String() string { return strings.Join(r, " ") }

// The chains in which packets that are passed on are judged.
const (
	ForwardChain = "FORWARD"
	// DockerUser is the chain that Docker keeps for others.
	DockerUser = "DOCKER-USER"
)

// Concerns reports whether the firewall may stop anything that is passed on.
func (f Firewall) Concerns() bool {
	return f.Policy != "" && (f.Policy != "ACCEPT" || len(f.Chains[ForwardChain]) > 0)
}

// ForOthers is the chain in which others than its owner have their rules: the one that Docker
// keeps for that if packets come to it, else FORWARD.
func (f Firewall) ForOthers() string {
	for _, r := range f.Chains[ForwardChain] {
		if r.target() == DockerUser && len(r) == 2 {
			return DockerUser
		}
	}
	return ForwardChain
}

// target is where a rule sends what it is about, "" if nowhere.
func (r FirewallRule) target() string {
	for i, word := range r {
		if (word == "-j" || word == "-g") && i+1 < len(r) {
			return r[i+1]
		}
	}
	return ""
}

// Always reports whether a rule is about every packet.
func (r FirewallRule) Always() bool { return len(r) >= 2 && r[0] == "-j" }

// Ends reports whether no packet comes past a rule.
func (r FirewallRule) Ends() bool {
	return r.Always() && slices.Contains([]string{"ACCEPT", "DROP", "REJECT", "RETURN"}, r.target())
}

// Comment is what a rule is marked with, "" if with nothing.
func (r FirewallRule) Comment() string {
	for i, word := range r {
		if word == "--comment" && i+1 < len(r) {
			return r[i+1]
		}
	}
	return ""
}

// Stops reports whether the first packet of a connection from one link to another is
// certainly dropped. Rules about anything but links, states and comments may let it pass.
func (f Firewall) Stops(in, out string) bool {
	v := f.judge(ForwardChain, in, out, 0)
	return v == dropped || v == undecided && f.Policy != "ACCEPT"
}

// verdict is what becomes of a packet in a chain.
type verdict int

const (
	undecided verdict = iota // it comes out at the end
	accepted                 // or may be
	dropped
)

// maxJumps bounds how deep chains are followed.
const maxJumps = 32

func (f Firewall) judge(chain, in, out string, depth int) verdict {
	if depth > maxJumps {
		return accepted
	}
	for _, r := range f.Chains[chain] {
		about := r.about(in, out)
		if about == never {
			continue
		}
		var v verdict
		switch target := r.target(); target {
		case "ACCEPT":
			return accepted
		case "DROP", "REJECT":
			v = dropped
		case "RETURN":
			if about == always {
				return undecided
			}
			continue
		default:
			if _, ours := f.Chains[target]; !ours {
				continue // it counts, marks or logs
			}
			v = f.judge(target, in, out, depth+1)
		}
		if v == accepted || v == dropped && about == always {
			return v
		}
	}
	return undecided
}

// match says whether a rule is about a packet.
type match int

const (
	never match = iota
	perhaps
	always
)

// about reports whether a rule is about the first packet of a connection between two links.
func (r FirewallRule) about(in, out string) match {
	m := always
	for i := 0; i < len(r); i++ {
		not := r[i] == "!"
		if not {
			i++
		}
		if i+1 >= len(r) {
			return perhaps
		}
		word, value := r[i], r[i+1]
		i++
		switch word {
		case "-j", "-g": // what follows is about the target
			return m
		case "-m", "--comment":
		case "-i", "-o":
			link := in
			if word == "-o" {
				link = out
			}
			if matchesLink(value, link) == not {
				return never
			}
		case "--ctstate", "--state":
			if slices.Contains(strings.Split(value, ","), "NEW") == not {
				return never
			}
		default:
			m = perhaps
		}
	}
	return m
}

// matchesLink: a + at the end stands for anything.
func matchesLink(pattern, link string) bool {
	if start, any := strings.CutSuffix(pattern, "+"); any {
		return strings.HasPrefix(link, start)
	}
	return pattern == link
}
