package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// What others have on the host, under names that no test uses.
const (
	namespaces = 200
	routes     = 10_000 // blackholes below 198.18.0.0/15, which is for benchmarks
	protocol   = "217"  // of these routes
)

// ruleset holds tables of others; the second is the form in which iptables-nft keeps its own.
const ruleset = `
table inet foreign-firewall {
	set peers { type ipv4_addr; flags interval; elements = { 198.18.0.0/15 } }
	chain input { type filter hook input priority filter; policy accept; ip saddr @peers counter drop; }
	chain forward { type filter hook forward priority filter; policy accept; ip saddr @peers counter drop; }
}
table ip foreign-nat {
	chain postrouting { type nat hook postrouting priority srcnat; policy accept; ip saddr 198.18.0.0/15 counter masquerade; }
}
`

// chains are rules of others as Docker and Kubernetes make them.
var chains = [][2]string{
	{"-N FOREIGN-USER", "-X FOREIGN-USER"},
	{"-A FOREIGN-USER -s 198.18.0.0/15 -j DROP", "-F FOREIGN-USER"},
	{"-I FORWARD -j FOREIGN-USER", "-D FORWARD -j FOREIGN-USER"},
}

// occupy puts the machine into the state of a profile. What it returns takes back all that was
// done, also after an error.
func occupy(ctx context.Context, p netlinktest.Profile) (restore func() error, err error) {
	var undo []func() error
	restore = func() error {
		var errs []error
		for _, u := range slices.Backward(undo) {
			errs = append(errs, u())
		}
		return errors.Join(errs...)
	}
	// What a step has done in part before it failed is taken back as well.
	step := func(back, do func() error) {
		if err == nil {
			undo = append(undo, back)
			err = do()
		}
	}
	// A whole step is done as a whole or not at all.
	whole := func(back, do func() error) {
		if err == nil {
			if err = do(); err == nil {
				undo = append(undo, back)
			}
		}
	}
	before, err := readSettings()
	if err != nil {
		return restore, err
	}
	step(func() error { return writeSettings(before) }, func() error {
		// By default namespaces inherit the settings of IPv4 alone.
		if _, settable := before[inherit]; settable {
			if err := os.WriteFile(inherit, []byte("1"), 0); err != nil {
				return err
			}
		}
		return p.Apply()
	})
	step(func() error {
		return tool("", "nft", "delete table inet foreign-firewall; delete table ip foreign-nat")
	},
		func() error { return input(ctx, ruleset, "nft", "-f", "-") })
	if _, missing := exec.LookPath("iptables"); missing == nil {
		var policy string
		step(func() error {
			if policy == "" {
				return nil
			}
			return tool("", "iptables", strings.Fields(policy)...)
		}, func() error {
			out, err := exec.CommandContext(ctx, "iptables", "-S", "FORWARD").Output()
			if err != nil {
				return fmt.Errorf("read the policy of FORWARD: %w", err)
			}
			policy, _, _ = strings.Cut(string(out), "\n")
			return tool("", "iptables", "-P", "FORWARD", "DROP")
		})
		for _, c := range chains {
			whole(func() error { return tool("", "iptables", strings.Fields(c[1])...) },
				func() error { return tool("", "iptables", strings.Fields(c[0])...) })
		}
	}
	step(func() error {
		return input(context.WithoutCancel(ctx), each(namespaces, "netns del foreign-%d"), "ip", "-force", "-batch", "-")
	},
		func() error { return input(ctx, each(namespaces, "netns add foreign-%d"), "ip", "-batch", "-") })
	step(func() error { return tool("", "ip", "route", "flush", "proto", protocol) }, func() error {
		var b strings.Builder
		for i := range routes {
			fmt.Fprintf(&b, "route add blackhole 198.18.%d.%d proto %s\n", i/256, i%256, protocol)
		}
		return input(ctx, b.String(), "ip", "-batch", "-")
	})
	return restore, err
}

// each prints a line for each number.
func each(n int, line string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, line+"\n", i)
	}
	return b.String()
}

func tool(in, name string, args ...string) error {
	return input(context.Background(), in, name, args...)
}

func input(ctx context.Context, in, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(in)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}

// inherit decides which settings of this namespace new ones inherit.
const inherit = "/proc/sys/net/core/devconf_inherit_init_net"

// readSettings reads all settings that a profile may change: to set one for all links changes
// those of each link.
func readSettings() (map[string]string, error) {
	files := []string{inherit}
	for _, pattern := range []string{"ipv4/conf/*/*", "ipv6/conf/*/*", "bridge/*", "ipv4/ip_forward", "ipv4/ping_group_range",
		"ipv4/icmp_echo_ignore_broadcasts", "ipv4/tcp_syncookies"} {
		found, err := filepath.Glob("/proc/sys/net/" + pattern)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	values := map[string]string{}
	for _, f := range files {
		if text, err := os.ReadFile(f); err == nil { // some cannot be read, or their link has gone
			values[f] = string(text)
		}
	}
	return values, nil
}

// writeSettings writes the values that differ, those for all links first.
func writeSettings(values map[string]string) error {
	var errs []error
	for _, general := range []bool{true, false} {
		now, err := readSettings()
		errs = append(errs, err)
		for f, v := range values {
			is, there := now[f]
			if there && is != v && general == (strings.Contains(f, "/all/") || strings.HasSuffix(f, "/ip_forward")) {
				errs = append(errs, os.WriteFile(f, []byte(v), 0))
			}
		}
	}
	return errors.Join(errs...)
}
