package iptables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// Namespaces runs what must be done in a namespace; see netlink.Kernel.
type Namespaces interface {
	// Within runs work on a thread of the namespace; writes is how many changes of
	// the kernel it is counted as.
	Within(ns kernel.NS, writes int, work func() error) error
}

// Generations tells when the tables of nftables have changed; see plugins/nftables.
type Generations interface {
	Generation(ns kernel.NS) (uint32, error)
}

// Firewalls are those of this host.
type Firewalls struct {
	namespaces  Namespaces
	generations Generations

	once     sync.Once
	programs []program
}

var _ kernel.Firewalls = (*Firewalls)(nil)

// program is one of iptables: of a family, for the tables of nftables or those before.
type program struct {
	name   string // what the firewall is called: iptables-nft
	path   string
	legacy string // the file that names its tables, if it is for those before
}

// New makes the port. The programs are looked for when they are needed; a host without them
// has no firewall of that kind.
func New(n Namespaces, g Generations) *Firewalls { return &Firewalls{namespaces: n, generations: g} }

// installed are the programs of this host.
func (w *Firewalls) installed() []program {
	w.once.Do(func() {
		for family, names := range map[string]string{"iptables": "/proc/thread-self/net/ip_tables_names", "ip6tables": "/proc/thread-self/net/ip6_tables_names"} {
			if path := find(family, "nft", "nf_tables"); path != "" {
				w.programs = append(w.programs, program{name: family + "-nft", path: path})
			}
			if path := find(family, "legacy", "legacy"); path != "" {
				w.programs = append(w.programs, program{name: family + "-legacy", path: path, legacy: names})
			}
		}
		slices.SortFunc(w.programs, func(a, b program) int { return strings.Compare(a.name, b.name) })
	})
	return w.programs
}

// find is the path of a program: by its own name, or by that of the family if that is what
// it says to be.
func find(family, variant, says string) string {
	if path, err := exec.LookPath(family + "-" + variant); err == nil {
		return path
	}
	path, err := exec.LookPath(family)
	if err != nil {
		return ""
	}
	out, err := exec.Command(path, "--version").Output()
	if err != nil || !strings.Contains(string(out), "("+says+")") {
		return ""
	}
	return path
}

// Firewalls reads those that may stop anything.
func (w *Firewalls) Firewalls(ctx context.Context, ns kernel.NS) (list []kernel.Firewall, err error) {
	for _, p := range w.installed() {
		if there, err := w.there(ns, p); err != nil {
			return nil, err
		} else if !there {
			continue
		}
		out, err := w.run(ctx, ns, 0, p, "-S")
		if err != nil {
			return nil, fmt.Errorf("list the rules: %w", err)
		}
		f, err := parse(p.name, out)
		if err != nil {
			return nil, err
		}
		if f.Concerns() {
			list = append(list, f)
		}
	}
	return list, nil
}

// there reports whether a program has the table filter in a namespace. To ask for tables of
// before nftables makes them, and those of nftables are read without.
func (w *Firewalls) there(ns kernel.NS, p program) (there bool, err error) {
	if p.legacy == "" {
		return true, nil
	}
	err = w.namespaces.Within(ns, 0, func() error {
		text, err := os.ReadFile(p.legacy)
		there = slices.Contains(strings.Fields(string(text)), "filter")
		if errors.Is(err, os.ErrNotExist) { // the kernel has none
			return nil
		}
		return err
	})
	return there, err
}

// InsertRule puts a rule at a place of a chain.
func (w *Firewalls) InsertRule(ctx context.Context, ns kernel.NS, f kernel.Firewall, chain string, at int, rule kernel.FirewallRule) error {
	return w.change(ctx, ns, f, append([]string{"-I", chain, strconv.Itoa(at + 1)}, rule...))
}

// DeleteRule removes a rule.
func (w *Firewalls) DeleteRule(ctx context.Context, ns kernel.NS, f kernel.Firewall, chain string, rule kernel.FirewallRule) error {
	return w.change(ctx, ns, f, append([]string{"-D", chain}, rule...))
}

func (w *Firewalls) change(ctx context.Context, ns kernel.NS, f kernel.Firewall, args []string) error {
	for _, p := range w.installed() {
		if p.name == f.Program {
			_, err := w.run(ctx, ns, 1, p, args...)
			return err
		}
	}
	return fmt.Errorf("%s is %w on this host any more", f.Program, kernel.ErrNoProgram)
}

// Signature is cheap while there are only tables of nftables.
func (w *Firewalls) Signature(ctx context.Context, ns kernel.NS) (string, error) {
	gen, err := w.generations.Generation(ns)
	if err != nil {
		return "", err
	}
	text := strconv.FormatUint(uint64(gen), 10)
	for _, p := range w.installed() {
		if p.legacy == "" {
			continue
		}
		if there, err := w.there(ns, p); err != nil || !there {
			continue
		}
		out, err := w.run(ctx, ns, 0, p, "-S")
		if err != nil {
			return "", err
		}
		text += "\n" + p.name + "\n" + out
	}
	return text, nil
}

// run runs a program in a namespace and returns what it prints. -w: others change rules too.
func (w *Firewalls) run(ctx context.Context, ns kernel.NS, writes int, p program, args ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, p.path, append([]string{"-w", "5"}, args...)...)
	cmd.Env = []string{"LC_ALL=C", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.Stdout, cmd.Stderr = &out, &errs
	// It begins where the thread is that starts it.
	if err := w.namespaces.Within(ns, writes, cmd.Start); err != nil {
		return "", err
	}
	err := cmd.Wait()
	text := strings.TrimSpace(errs.String())
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err == nil:
		return out.String(), nil
	case strings.Contains(text, "does a matching rule exist") || strings.Contains(text, "No chain/target/match by that name"):
		return "", fmt.Errorf("%w: %s", kernel.ErrNotExist, text)
	}
	return "", fmt.Errorf("%s: %w: %s", p.name, err, text)
}
