package netlink_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

func isTables(ev kernel.Event) bool { return ev.Tables != nil }

// Changes of the tables are told of namespaces where that is asked, whole and counted.
func TestTablesEvents(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	early, n := b.open(t)
	for range 2 {
		if err := b.WatchTables(early); err != nil { // before anybody watches
			t.Fatal(err)
		}
	}
	w := watch(t, b)
	late, other := b.open(t)
	other.Run(t, "nft", "add table inet unheard")
	if err := b.WatchTables(late); err != nil {
		t.Fatal(err)
	}
	n.Run(t, "nft", "add table inet a; add chain inet a c; add rule inet a c accept")
	first := w.until(t, "a table in one", isTables)
	n.Run(t, "nft", "list ruleset")
	n.Run(t, "nft", "delete table inet a")
	second := w.until(t, "the next change", func(ev kernel.Event) bool { return isTables(ev) && ev.Tables.Generation != first.Tables.Generation })
	if first.NS != early || second.NS != early || second.Tables.Generation != first.Tables.Generation+1 {
		t.Errorf("told %+v of %+v, then %+v of %+v", *first.Tables, first, *second.Tables, second)
	}
	other.Run(t, "nft", "add table inet b")
	w.until(t, "a table in the other", func(ev kernel.Event) bool { return isTables(ev) && ev.NS == late })
	b.UnwatchTables(late)
	b.UnwatchTables(late)
	other.Run(t, "nft", "add table inet c")
	if err := b.WatchTables(late); err != nil {
		t.Fatal(err)
	}
	other.Run(t, "nft", "add table inet d")
	heard := func() (list []kernel.Event) {
		for _, ev := range w.list() {
			if isTables(ev) && ev.NS == late {
				list = append(list, ev)
			}
		}
		return list
	}
	netlinktest.Eventually(t, "it is watched again", func() bool { return len(heard()) >= 2 })
	if list := heard(); len(list) != 2 || list[1].Tables.Generation != list[0].Tables.Generation+2 {
		t.Errorf("told %+v", list)
	}
	if err := b.WatchTables(1); !errors.Is(err, kernel.ErrNoNamespace) {
		t.Error(err)
	}
}

// A namespace that is closed is not watched when it is opened again.
func TestTablesOfAClosedNamespace(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	w := watch(t, b)
	ns, n := b.open(t)
	if err := b.WatchTables(ns); err != nil {
		t.Fatal(err)
	}
	for b.CloseUnused(func(kernel.NS) bool { return false }) > 0 {
	}
	w.until(t, "it is closed", func(ev kernel.Event) bool { return ev.Gone && ev.NS == ns })
	b.UnwatchTables(ns)
	if _, err := b.Open(n.Path); err != nil {
		t.Fatal(err)
	}
	n.Run(t, "nft", "add table inet a")
	n.IP(t, "link set lo up")
	w.until(t, "lo is up", func(ev kernel.Event) bool { return ev.Link != nil && ev.NS == ns })
	if slices.ContainsFunc(w.list(), isTables) {
		t.Error("told of its tables")
	}
}

// What the socket cannot hold is told to be lost, of its namespace.
func TestLostTablesEvents(t *testing.T) {
	b := newKernel(t, netlink.Options{ReceiveBuffer: 4096})
	w := watch(t, b)
	ns, n := b.open(t)
	if err := b.WatchTables(ns); err != nil {
		t.Fatal(err)
	}
	var rules strings.Builder
	rules.WriteString("add table inet a; add chain inet a c")
	for i := range 300 {
		fmt.Fprintf(&rules, "; add rule inet a c tcp dport %d accept", i+1)
	}
	rules.WriteString("; delete table inet a")
	netlinktest.Eventually(t, "events were lost", func() bool { // unless they are read as fast as they come
		n.Run(t, "nft", rules.String())
		return slices.ContainsFunc(w.list(), func(ev kernel.Event) bool { return ev.Lost && ev.NS == ns })
	})
	netlinktest.Eventually(t, "new events come again", func() bool {
		before := len(w.list())
		n.Run(t, "nft", "add table inet b; delete table inet b")
		return slices.ContainsFunc(w.list()[before:], isTables)
	})
}
