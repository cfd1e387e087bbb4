package iptables_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kernel/kerneltest"
	"github.com/plumb-net/plumb/plugins/iptables"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/hosttest"
	"github.com/plumb-net/plumb/plugins/nftables"
)

// TestFirewalls plays a story on the programs of this host and on the kernel in memory, which
// has to know as much of them.
func TestFirewalls(t *testing.T) {
	hosttest.OnEachKernel(t, func(t *testing.T, h *hosttest.Host) {
		switch k := h.Kernel.(type) {
		case *kerneltest.Kernel:
			playFirewalls(t, h, k.Firewalls(), func(command string) error { return k.Iptables(k.Own(), command) })
		case *netlink.Kernel:
			playFirewalls(t, h, iptables.New(k, nftables.New(k, "")), func(command string) error {
				_, err := h.Net.Try(strings.Fields(command)...)
				return err
			})
		}
	})
}

// playFirewalls tells after each command what the port reads, and whether it noticed.
func playFirewalls(t *testing.T, h *hosttest.Host, port kernel.Firewalls, run func(command string) error) {
	ctx, ns, before := t.Context(), h.Own(), ""
	datadriven.RunTest(t, "testdata/firewalls", func(t *testing.T, d *datadriven.TestData) string {
		var b strings.Builder
		for line := range strings.Lines(d.Input) {
			line = strings.TrimSpace(line)
			program, rest, _ := strings.Cut(line, " ")
			words := strings.Fields(rest)
			var err error
			switch d.Cmd {
			case "run":
				if run(line) != nil {
					fmt.Fprintf(&b, "%s: refused\n", line)
				}
				continue
			case "insert":
				var at int
				if _, err := fmt.Sscan(words[1], &at); err != nil {
					t.Fatal(err)
				}
				err = port.InsertRule(ctx, ns, kernel.Firewall{Program: program}, words[0], at, words[2:])
			case "delete":
				err = port.DeleteRule(ctx, ns, kernel.Firewall{Program: program}, words[0], words[1:])
			}
			said := err
			for _, known := range []error{kernel.ErrNotExist, kernel.ErrNoProgram} {
				if errors.Is(err, known) {
					said = known
				}
			}
			if said == err && err != nil {
				said = errors.New("refused")
			}
			if said != nil {
				fmt.Fprintf(&b, "%s: %v\n", line, said)
			}
		}
		signature, err := port.Signature(ctx, ns)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "changed: %v\n", signature != before)
		before = signature
		all, err := port.Firewalls(ctx, ns)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			fmt.Fprintf(&b, "%s -P FORWARD %s\n", f.Program, f.Policy)
			for _, chain := range slices.Sorted(maps.Keys(f.Chains)) {
				fmt.Fprintf(&b, "  %s\n", chain)
				for _, r := range f.Chains[chain] {
					fmt.Fprintf(&b, "    %s\n", r)
				}
			}
		}
		return b.String()
	})
}
