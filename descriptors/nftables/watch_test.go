package nftables_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/scheduler"
)

// watching are the keys that a Watch tells of.
type watching struct {
	t    *testing.T
	told chan string
}

// watch begins to watch; what was read before is to be read once more, which is told when
// the watch is in place.
func (b *bench) watch() *watching {
	b.t.Helper()
	b.look()
	w := &watching{b.t, make(chan string, 100)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		ended <- b.kind.Watch(ctx, func(keys ...scheduler.Key) { w.told <- fmt.Sprint(keys) })
	}()
	b.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.t.Error(err)
		}
	})
	w.next("[]")
	return w
}

// next waits for what is told next.
func (w *watching) next(want string) {
	w.t.Helper()
	select {
	case got := <-w.told:
		if got != want {
			w.t.Errorf("told of %s, want %s", got, want)
		}
	case <-time.After(netlinktest.Patience):
		w.t.Fatalf("not told of %s", want)
	}
}

// foreign changes tables that are not ours, in blue.
func (b *bench) foreign() { b.blue.Run(b.t, "nft", "add table inet theirs; delete table inet theirs") }

// What others change in a namespace is told, what we change is not.
func TestWatch(t *testing.T) {
	b := newBench(t)
	b.must("filter", setsWith("", ""))
	w := b.watch()
	b.foreign()
	w.next("[nftables/filter]")
	if by := b.kind.ChangedBy("nftables/filter"); !strings.HasPrefix(by, "nft (process ") {
		t.Errorf("changed by %q", by)
	}
	b.must("filter", setsWith(`"22 : drop"`, `"22 : accept"`))                // elements
	b.must("filter", setsWith(`"ip saddr @blocked drop"`, `"accept","drop"`)) // all of it
	b.must("more", `{"namespace":{"netns":"blue"}}`)
	if err := b.create("bad", `{"namespace":{"netns":"blue"},"chains":[{"name":"c","rules":["jump nowhere"]}]}`); err == nil {
		t.Error("a jump to nowhere is taken")
	}
	b.must("own", `{"chains":[{"name":"c"}]}`)
	b.net.Run(t, "nft", "add chain inet own theirs")
	w.next("[nftables/own]")
	b.foreign()
	w.next("[nftables/filter nftables/more]")
	b.delete("more")
	b.foreign()
	w.next("[nftables/filter]")
	b.blue.Run(t, "nft", "delete table inet filter")
	w.next("[nftables/filter]")
	b.look()
	b.foreign() // there is none of ours any more
	b.must("filter", filter)
	b.foreign()
	w.next("[nftables/filter]")
	if len(w.told) != 0 {
		t.Errorf("told also of %s", <-w.told)
	}
}

// busy does something while a table is written.
type busy struct {
	kernel.Tables

	then func()
	err  error
}

func (b busy) ReplaceTable(ctx context.Context, ns kernel.NS, t kernel.Table) error {
	b.then()
	if b.err != nil {
		return b.err
	}
	return b.Tables.ReplaceTable(ctx, ns, t)
}

// What somebody else changes while we write is told, whatever comes of ours.
func TestWatchWhileWriting(t *testing.T) {
	for _, refused := range []error{nil, kernel.ErrUnsupported} {
		b := newBench(t)
		b.must("filter", filter)
		b.must("more", `{"namespace":{"netns":"blue"}}`)
		b.tables = busy{b.tables, b.foreign, refused}
		b.restart()
		w := b.watch()
		if err := b.create("filter", filter); !errors.Is(err, refused) {
			t.Error(err)
		}
		w.next("[nftables/filter nftables/more]")
	}
}
