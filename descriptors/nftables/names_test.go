package nftables_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/scheduler"
)

// cable joins own and blue, whose end has a name; their addresses are 10.9.0.1 and 10.9.0.2.
func (b *bench) cable(name string) {
	b.t.Helper()
	b.net.IP(b.t, fmt.Sprintf("link add far0 type veth peer name %s netns %s", name, b.bluePath))
	b.net.IP(b.t, "addr add 10.9.0.1/24 dev far0")
	b.net.IP(b.t, "link set far0 up")
	b.blue.IP(b.t, "addr add 10.9.0.2/24 dev "+name)
	b.blue.IP(b.t, "link set "+name+" up")
	netlinktest.Eventually(b.t, "carrier", func() bool {
		_, err := b.net.Try("ip", "route", "get", "10.9.0.2")
		return err == nil && strings.Contains(b.net.Run(b.t, "ip", "link", "show", "far0"), "LOWER_UP")
	})
}

// passes reports whether blue answers.
func (b *bench) passes() bool {
	_, err := b.net.Try("busybox", "ping", "-c", "1", "-W", "1", "10.9.0.2")
	return err == nil
}

func dropping(rules, sets string) string {
	return fmt.Sprintf(`{"namespace":{"netns":"blue"},"chains":[{"name":"in","type":"filter","hook":"input","rules":[%s]}]%s}`, rules, sets)
}

// TestRecreatedLink: a rule that names a link applies to it also after it was created anew.
// Simple comparisons do so at once and need no link; what nft has to resolve is written
// again when the name leads elsewhere.
func TestRecreatedLink(t *testing.T) {
	for _, tc := range []struct {
		rules, sets string
		atOnce      bool
	}{
		{`"iif eth7 drop"`, "", true},
		{`"meta iif \"eth7\" drop"`, "", true},
		{`"iif != lo iif { eth7, eth8 } drop"`, "", true},
		{`"iif != { lo } drop"`, "", true},
		{`"iif vmap { eth7 : drop, lo : accept }"`, "", false},
		{`"iif . ip protocol { eth7 . icmp } drop"`, "", false},
		{`"iif @links drop"`, `,"sets":[{"name":"links","type":"iface_index","elements":["lo","eth7"]}]`, false},
		{`"iif vmap @links"`, `,"maps":[{"name":"links","type":"iface_index","data":"verdict","elements":["eth7 : drop"]}]`, false},
		{`"fib saddr . iif oif eth7 drop"`, "", false},
	} {
		b := newBench(t)
		value := dropping(tc.rules, tc.sets)
		if err := b.create("early", strings.Replace(value, `"chains"`, `"table":"early","chains"`, 1)); (err == nil) != tc.atOnce {
			t.Errorf("%s: without the link: %v", tc.rules, err)
		} else if err != nil && (!strings.Contains(err.Error(), "Interface does not exist") || isInvalid(err)) {
			t.Errorf("%s: without the link: %v", tc.rules, err)
		}
		b.delete("early")
		b.cable("eth7")
		if !b.passes() {
			t.Fatal("nothing passes without a rule")
		}
		b.must("filter", value)
		asked := b.look()
		if b.passes() {
			t.Errorf("%s: packets pass", tc.rules)
		}
		w := b.watch()
		b.net.IP(t, "link del far0")
		if !tc.atOnce {
			w.next("[nftables/filter]")
			if got := b.look(); got == asked && !strings.Contains(tc.rules, "@") {
				t.Errorf("%s: it shows as asked without its link: %s", tc.rules, got)
			}
			if err := b.create("filter", value); err == nil || isInvalid(err) {
				t.Errorf("%s: it is written without its link: %v", tc.rules, err)
			}
		}
		b.cable("eth7")
		if !tc.atOnce {
			w.next("[nftables/filter]")
			if b.shownAsAsked(value) {
				t.Errorf("%s: it shows as asked, and its link is another", tc.rules)
			}
			b.must("filter", value)
		}
		if b.passes() {
			t.Errorf("%s: packets pass after the link was created anew", tc.rules)
		}
		b.restart()
		if !b.shownAsAsked(value) {
			t.Errorf("%s: found %s", tc.rules, b.look())
		}
		b.blue.IP(t, "link set eth7 down")
		b.blue.IP(t, "link set eth7 name eth9")
		b.blue.IP(t, "link set eth9 up")
		if !tc.atOnce && b.shownAsAsked(value) {
			t.Errorf("%s: it shows as asked, and its link has another name", tc.rules)
		}
		b.delete("filter")
		b.net.IP(t, "link del far0")
	}
}

// TestUnrelatedLinks: links that no rule names are no news.
func TestUnrelatedLinks(t *testing.T) {
	b := newBench(t)
	b.cable("eth7")
	b.must("filter", dropping(`"iif vmap { eth7 : drop }"`, ""))
	w := b.watch()
	b.blue.IP(t, "link add other type bridge")
	b.blue.IP(t, "link del other")
	b.blue.IP(t, "link set eth7 mtu 1400")
	b.foreign()
	w.next("[nftables/filter]") // of the foreign table, and of nothing before
	if by := b.kind.ChangedBy("nftables/filter"); !strings.HasPrefix(by, "nft (process ") {
		t.Errorf("changed by %q", by)
	}
}

// TestTableOfEarlierRelease: a table that an earlier release has written by index is
// written again.
func TestTableOfEarlierRelease(t *testing.T) {
	b := newBench(t)
	b.cable("eth7")
	value := dropping(`"iif \"eth7\" drop"`, "")
	b.must("filter", value)
	e := b.ledger.Entries("")[0]
	e.Value = []byte(strings.ReplaceAll(strings.Replace(string(e.Value), `"led":"by name",`, "", 1), "iifname", "iif"))
	if err := b.ledger.Add(e); err != nil {
		t.Fatal(err)
	}
	b.blue.Run(t, "nft", `flush chain inet filter in; add rule inet filter in iif "eth7" drop`)
	b.restart()
	if b.shownAsAsked(value) {
		t.Error("it shows as asked")
	}
	b.must("filter", value)
	if list := b.blue.Run(t, "nft", "list table inet filter"); !strings.Contains(list, `iifname "eth7" drop`) || !b.shownAsAsked(value) {
		t.Error(list)
	}
}

// TestCgroupAnew: a rule follows the cgroup that has the name.
func TestCgroupAnew(t *testing.T) {
	b := newBench(t)
	name := fmt.Sprintf("plumb-test-%d", os.Getpid())
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil {
		name = "unified/" + name
	}
	dir := filepath.Join("/sys/fs/cgroup", name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(dir)
	value := dropping(fmt.Sprintf(`"socket cgroupv2 level 1 \"%s\" drop"`, name), "")
	ticks := make(chan time.Time)
	b.poll = ticks
	b.restart()
	if err := b.create("filter", value); err != nil {
		if strings.Contains(err.Error(), "cgroupv2 path fails") || isInvalid(err) {
			t.Fatal(err)
		}
		return // this kernel has no such rules, whatever they name
	}
	w := b.watch()
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	ticks <- time.Time{}
	w.next("[nftables/filter]")
	if b.shownAsAsked(value) {
		t.Error("it shows as asked")
	}
	b.must("filter", value)
	if !b.shownAsAsked(value) {
		t.Errorf("found %s", b.look())
	}
}

// shownAsAsked reports whether what is found needs no operation.
func (b *bench) shownAsAsked(value string) bool {
	b.t.Helper()
	v := decode(b.t, value)[0]
	for f, err := range b.kind.Retrieve(b.t.Context(), scope{All: true}) {
		if err != nil {
			b.t.Fatal(err)
		}
		if f.Key == key("filter") {
			return b.kind.Compare(f.Key, f.Value, v).Change == scheduler.Same
		}
	}
	return false
}

func isInvalid(err error) bool { return strings.Contains(fmt.Sprintf("%T", err), "Invalid") }
