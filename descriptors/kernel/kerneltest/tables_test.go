package kerneltest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kernel/kerneltest"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/plugins/nftables"
)

// TestTables plays each story on the tables in memory and on those of the host.
func TestTables(t *testing.T) {
	datadriven.Walk(t, "testdata/tables", func(t *testing.T, path string) {
		t.Run("memory", func(t *testing.T) {
			k := kerneltest.New(kerneltest.Options{})
			playTables(t, path, k, k.Tables())
		})
		t.Run("linux", func(t *testing.T) {
			k := linux(t)
			playTables(t, path, k, nftables.New(k, ""))
		})
	})
}

// playTables does with a table what each command says, and shows it.
func playTables(t *testing.T, path string, k kernel.Kernel, tables kernel.Tables) {
	log := listen(t, k)
	if err := k.WatchTables(k.Own()); err != nil {
		t.Fatal(err)
	}
	ctx, ns, generation, before := t.Context(), k.Own(), uint32(1), ""
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		table := kernel.Table{Family: "inet", Name: "x"}
		if d.Input != "" {
			if err := json.Unmarshal([]byte(d.Input), &table); err != nil {
				t.Fatal(err)
			}
		}
		act := map[string]func() error{
			"create":  func() error { return tables.CreateTable(ctx, ns, table) },
			"replace": func() error { return tables.ReplaceTable(ctx, ns, table) },
			"elements": func() error {
				return tables.ReplaceElements(ctx, ns, table, strings.Fields(d.CmdArgs[0].Key))
			},
			"delete": func() error { return tables.DeleteTable(ctx, ns, table.Family, table.Name) },
		}[d.Cmd]
		err := act()
		now, genErr := tables.Generation(ns)
		if genErr != nil {
			t.Fatal(genErr)
		}
		if now != generation {
			netlinktest.Eventually(t, "the change is told", func() bool { return log.generation() == now })
		}
		text, after := answer(err)+fmt.Sprintf("changes: %d\n", now-generation), listed(ctx, t, tables, ns, table)
		if after == before {
			text += "as before\n"
		} else {
			text += after
		}
		generation, before = now, after
		return text
	})
}

// answer is an error of tables in words.
func answer(err error) (text string) {
	if wrong := (*kernel.TextError)(nil); errors.As(err, &wrong) {
		text += fmt.Sprintf("at %s %q\n", wrong.Field, wrong.Text)
	}
	if r := interface{ Refused() bool }(nil); errors.As(err, &r) && r.Refused() {
		text += "may do another time\n"
	}
	for _, s := range []error{kernel.ErrExist, kernel.ErrNotExist} {
		if errors.Is(err, s) {
			return text + s.Error() + "\n"
		}
	}
	if err != nil {
		return text + err.Error() + "\n"
	}
	return text
}

func listed(ctx context.Context, t *testing.T, tables kernel.Tables, ns kernel.NS, of kernel.Table) string {
	read, err := tables.Table(ctx, ns, of.Family, of.Name)
	if errors.Is(err, kernel.ErrNotExist) {
		return "no table\n"
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(append(kerneltest.NFT(read), ""), "\n")
}

// What is printed of a table makes the same with nft.
func TestTablesMakeTheSame(t *testing.T) {
	table := kernel.Table{Family: "inet", Name: "x", Comment: "plumb:host7:nftables/x",
		Chains: []kernel.TableChain{
			{Name: "in", Type: "filter", Hook: "ingress", Devices: []string{"lo"}, Priority: "filter", Policy: "accept", Rules: []string{`meta mark 0x00000001 jump a`}},
			{Name: "a", Rules: []string{"ip saddr @s drop", `tcp dport { 22, 80 } counter accept comment "a, b"`}}},
		Sets: []kernel.TableSet{{Name: "s", Type: "ipv4_addr", Flags: []string{"interval"}, AutoMerge: true, Elements: []string{"10.0.0.0/24", "10.1.0.0/16"}},
			{Name: "d", Type: "mark", Flags: []string{"dynamic", "timeout"}, Timeout: "1h", Size: 7, Counter: true}},
		Maps: []kernel.TableSet{{Name: "m", Type: "mark", Data: "verdict", Elements: []string{"0x00000001 : jump a"}}},
	}
	memory := kerneltest.New(kerneltest.Options{})
	if err := memory.Tables().CreateTable(t.Context(), memory.Own(), table); err != nil {
		t.Fatal(err)
	}
	own := netlinktest.New(t)
	own.Defaults(t)
	own.Run(t, "sh", "-ec", memory.String())
	k, err := netlink.New(netlink.Options{OwnPath: own.Path, NamedDir: netlinktest.Dir(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if got, want := listed(t.Context(), t, nftables.New(k, ""), k.Own(), table), listed(t.Context(), t, memory.Tables(), memory.Own(), table); got != want {
		t.Errorf("on Linux:\n%s\nwant\n%s", got, want)
	}
}
