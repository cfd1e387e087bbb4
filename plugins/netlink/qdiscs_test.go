package netlink_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink"
)

// lacks reports whether this kernel has no discipline of a kind, by the program that people use.
func (b *bench) lacks(t *testing.T, kind string) bool {
	t.Helper()
	b.own.Run(t, "ip", "link", "add", "name", "scratch", "type", "bridge")
	defer b.own.Run(t, "ip", "link", "del", "scratch")
	words, err := b.own.Try("tc", "qdisc", "add", "dev", "scratch", "root", kind)
	return err != nil && strings.Contains(words+err.Error(), "kind is unknown")
}

var disciplines = []struct {
	qdisc, instead kernel.Qdisc
	shown, then    string // by tc qdisc
}{
	{
		kernel.Qdisc{Kind: "tbf", Tbf: kernel.Tbf{Rate: 125000, Burst: 4096, Limit: 54096}},
		kernel.Qdisc{Kind: "tbf", Tbf: kernel.Tbf{Rate: 12500000, Burst: 125000, Limit: 750000}},
		"rate 1Mbit burst 4Kb lat 400ms", "rate 100Mbit burst 125000b lat 50ms",
	},
	{ // where the kernel keeps a burst by ticks that are longer than a byte
		kernel.Qdisc{Kind: "tbf", Tbf: kernel.Tbf{Rate: 125e8, Burst: 1e6, Limit: 4e9}},
		kernel.Qdisc{Kind: "tbf", Tbf: kernel.Tbf{Rate: 1000, Burst: 32768, Limit: 32818}},
		"rate 100Gbit", "rate 8Kbit burst 32Kb lat 50ms",
	},
	{
		kernel.Qdisc{Kind: "netem", Netem: kernel.Netem{Delay: 20e6, Jitter: 5e6, Loss: 42949673, Duplicate: 4294967, Corrupt: 429497, Reorder: 1<<32 - 1, Rate: 125000, Limit: 50}},
		kernel.Qdisc{Kind: "netem", Netem: kernel.Netem{Limit: 1000}},
		"netem 7001: root refcnt 2 limit 50 delay 20ms  5ms loss 1% duplicate 0.1% reorder 100% corrupt 0.01% rate 1Mbit gap 1", "netem 7001: root refcnt 2 limit 1000",
	},
	{
		kernel.Qdisc{Kind: "netem", Netem: kernel.Netem{Limit: 1000, Rate: 5e9}},
		kernel.Qdisc{Kind: "netem", Netem: kernel.Netem{Limit: 1, Delay: 200e9}},
		"limit 1000 rate 40Gbit", "limit 1 delay 200s",
	},
}

func TestQdiscs(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	l, err := b.AddLink(b.Own(), kernel.LinkSpec{Name: "a", Bridge: &kernel.BridgeSpec{}, Up: true})
	if err != nil {
		t.Fatal(err)
	}
	w := watch(t, b)
	for _, c := range disciplines {
		c.qdisc.Index, c.qdisc.Handle, c.instead.Index, c.instead.Handle = l.Index, 0x7001, l.Index, 0x7001
		if b.lacks(t, c.qdisc.Kind) {
			err := b.AddQdisc(b.Own(), c.qdisc)
			if !errors.Is(err, kernel.ErrUnsupported) || errors.Is(err, kernel.ErrNotExist) || !strings.Contains(err.Error(), "modprobe sch_"+c.qdisc.Kind) {
				t.Errorf("%s is not there: %v", c.qdisc.Kind, err)
			}
			continue
		}
		sees := func(want kernel.Qdisc, shown string) {
			t.Helper()
			list, err := b.Qdiscs(b.Own())
			if err != nil || len(list) != 1 || !list[0].Same(want) {
				t.Errorf("%v %+v is not %+v", err, want, list)
			}
			if got := b.own.Run(t, "tc", "qdisc", "show", "dev", "a"); !strings.Contains(got, shown) {
				t.Errorf("tc shows\n%s, want %s", got, shown)
			}
			w.until(t, shown, func(ev kernel.Event) bool { return ev.Qdisc != nil && !ev.Deleted && ev.Qdisc.Same(want) })
		}
		if err := b.ReplaceQdisc(b.Own(), c.qdisc.Handle, c.qdisc); !errors.Is(err, kernel.ErrNotExist) {
			t.Errorf("replacement of none: %v", err)
		}
		for _, want := range []error{nil, kernel.ErrExist} {
			if err := b.AddQdisc(b.Own(), c.qdisc); !errors.Is(err, want) {
				t.Errorf("%v: %v, want %v", c.qdisc, err, want)
			}
		}
		sees(c.qdisc, c.shown)
		if err := b.ReplaceQdisc(b.Own(), c.qdisc.Handle, c.instead); err != nil {
			t.Error(err)
		}
		sees(c.instead, c.then)
		if err := b.DeleteQdisc(b.Own(), kernel.Qdisc{Index: l.Index, Handle: 0x7002, Kind: c.qdisc.Kind}); !errors.Is(err, kernel.ErrNotExist) {
			t.Errorf("deletion of another: %v", err)
		}
		for _, want := range []error{nil, kernel.ErrNotExist} {
			if err := b.DeleteQdisc(b.Own(), c.instead); !errors.Is(err, want) {
				t.Errorf("deletion: %v, want %v", err, want)
			}
		}
		w.until(t, "its end", func(ev kernel.Event) bool { return ev.Qdisc != nil && ev.Deleted && ev.Qdisc.Handle == 0x7001 })
	}
}

// One of somebody else is taken over in one step, and is not if it is not the one that was read.
func TestQdiscInThePlaceOfAnother(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	l, err := b.AddLink(b.Own(), kernel.LinkSpec{Name: "a", Bridge: &kernel.BridgeSpec{}, Up: true})
	if err != nil {
		t.Fatal(err)
	}
	ours := kernel.Qdisc{Index: l.Index, Handle: 0x7001, Kind: "tbf", Tbf: kernel.Tbf{Rate: 125000, Burst: 4096, Limit: 54096}}
	b.own.Run(t, "tc", "qdisc", "add", "dev", "a", "root", "handle", "1:", "tbf", "rate", "8mbit", "burst", "4096", "latency", "1ms")
	if err := b.ReplaceQdisc(b.Own(), ours.Handle, ours); !errors.Is(err, kernel.ErrExist) {
		t.Error(err)
	}
	if err := b.ReplaceQdisc(b.Own(), 1, ours); err != nil {
		t.Error(err)
	}
	if list, err := b.Qdiscs(b.Own()); err != nil || len(list) != 1 || !list[0].Same(ours) {
		t.Error(list, err)
	}
}

// What the port does not show is told from what it does, as the program of people sets it.
func TestQdiscsThatSayMore(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	if _, err := b.AddLink(b.Own(), kernel.LinkSpec{Name: "a", Bridge: &kernel.BridgeSpec{}, Up: true}); err != nil {
		t.Fatal(err)
	}
	noNetem := b.lacks(t, "netem")
	for words, more := range map[string]bool{
		"tbf rate 1mbit burst 4096 limit 8192":                                false,
		"tbf rate 1mbit burst 4096 limit 8192 peakrate 2mbit mtu 1600":        true,
		"tbf rate 1mbit burst 4096 limit 8192 overhead 4":                     true,
		"stab overhead 4 linklayer ethernet tbf rate 1mbit burst 4k limit 8k": true,
		"netem delay 1ms 1ms loss 1% corrupt 1% duplicate 1% rate 1mbit":      false,
		"netem delay 1ms reorder 1%":                                          false,
		"netem delay 1ms reorder 1% gap 5":                                    true,
		"netem delay 1ms reorder 1% 5%":                                       true,
		"netem delay 1ms 1ms 25%":                                             true,
		"netem loss 1% 5%":                                                    true,
		"netem loss 1% ecn":                                                   true,
		"netem corrupt 1% 5%":                                                 true,
		"netem rate 1mbit 20":                                                 true,
		"netem loss gemodel 1% 10% 70% 0.1%":                                  true,
		"netem slot 1ms":                                                      true,
	} {
		if noNetem && strings.HasPrefix(words, "netem") {
			continue
		}
		b.own.Run(t, strings.Fields("tc qdisc add dev a root handle 1: "+words)...)
		list, err := b.Qdiscs(b.Own())
		if err != nil || len(list) != 1 || list[0].More != more || list[0].Handle != 1 {
			t.Errorf("%s: %v %+v", words, err, list)
		}
		b.own.Run(t, "tc", "qdisc", "del", "dev", "a", "root")
	}
}

func TestQdiscsRefused(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	l, err := b.AddLink(b.Own(), kernel.LinkSpec{Name: "a", Bridge: &kernel.BridgeSpec{}, Up: true})
	if err != nil {
		t.Fatal(err)
	}
	tbf := kernel.Tbf{Rate: 125000, Burst: 4096, Limit: 54096}
	for _, q := range []kernel.Qdisc{
		{}, {Index: l.Index, Kind: "tbf", Tbf: tbf}, {Index: l.Index, Handle: 1, Kind: "tbf", Tbf: tbf, More: true},
		{Index: l.Index, Handle: 1, Kind: "htb"}, {Index: l.Index, Handle: 1, Kind: "clsact"}, {Index: l.Index + 7, Handle: 1, Kind: "tbf", Tbf: tbf},
	} {
		if err := b.AddQdisc(b.Own(), q); err == nil {
			t.Errorf("%+v was taken", q)
		}
	}
}

func TestFilters(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	var index []int
	for _, name := range []string{"a", "b", "c"} {
		l, err := b.AddLink(b.Own(), kernel.LinkSpec{Name: name, Bridge: &kernel.BridgeSpec{}, Up: true})
		if err != nil {
			t.Fatal(err)
		}
		index = append(index, l.Index)
	}
	w := watch(t, b)
	own := b.Own()
	filters := func(egress bool, want ...kernel.Filter) (list []kernel.Filter) {
		t.Helper()
		list, err := b.Filters(own, index[0], egress)
		same := slices.EqualFunc(list, want, func(is, want kernel.Filter) bool {
			want.Pref, want.Handle = is.Pref, is.Handle
			return is == want && is.Handle != 0
		})
		if err != nil || !same {
			t.Errorf("%v %+v, want %+v", err, list, want)
		}
		return list
	}
	marks := []string{strings.Repeat("0a", 16), strings.Repeat("0b", 16)}
	in := kernel.Filter{Index: index[0], Mark: marks[0], To: index[1]}
	filters(false)
	if err := b.AddFilter(own, in); err == nil || errors.Is(err, kernel.ErrUnsupported) {
		t.Errorf("without a hook: %v", err)
	}
	hook := kernel.Qdisc{Index: index[0], Handle: kernel.HookHandle, Kind: kernel.HookBoth}
	for _, want := range []error{nil, kernel.ErrExist} {
		if err := b.AddQdisc(own, hook); !errors.Is(err, want) {
			t.Fatalf("%v, want %v", err, want)
		}
	}
	if list, err := b.Qdiscs(own); err != nil || !slices.Equal(list, []kernel.Qdisc{hook}) {
		t.Error(list, err)
	}
	b.own.Run(t, strings.Fields("tc filter add dev a ingress protocol ip u32 match ip dst 10.0.0.1/32 flowid 1:1")...)
	foreign := filters(false, kernel.Filter{Index: index[0]})[0]
	second := kernel.Filter{Index: index[0], Mark: marks[1], To: index[2]}
	out := kernel.Filter{Index: index[0], Egress: true, Mark: marks[0], To: index[1]}
	for _, f := range []kernel.Filter{in, second, out} {
		if err := b.AddFilter(own, f); err != nil {
			t.Fatal(err)
		}
		w.until(t, "a filter", func(ev kernel.Event) bool {
			return ev.Filter != nil && !ev.Deleted && ev.Filter.Mark == f.Mark && ev.Filter.To == f.To && ev.Filter.Egress == f.Egress
		})
	}
	filters(true, out)
	all := filters(false, second, in, foreign) // the newest first
	b.own.IP(t, "link del dev c")
	gone := second
	gone.To = 0
	filters(false, gone, in, foreign)
	for _, want := range []error{nil, kernel.ErrNotExist} {
		if err := b.DeleteFilter(own, all[1]); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	w.until(t, "its end", func(ev kernel.Event) bool { return ev.Filter != nil && ev.Deleted && ev.Filter.Mark == marks[0] })
	if text := b.own.Run(t, "tc", "filter", "show", "dev", "a", "ingress"); strings.Contains(text, fmt.Sprint("pref ", all[1].Pref)) {
		t.Errorf("a table is left\n%s", text)
	}
	filters(false, gone, foreign)
	b.own.Run(t, "tc", "filter", "del", "dev", "a", "ingress")
	w.until(t, "the end of all", func(ev kernel.Event) bool { return ev.Filter != nil && ev.Deleted && ev.Filter.Handle == 0 })
	for _, want := range []error{nil, kernel.ErrNotExist} {
		if err := b.DeleteQdisc(own, hook); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	if err := b.DeleteFilter(own, all[2]); !errors.Is(err, kernel.ErrNotExist) {
		t.Errorf("without its hook: %v", err)
	}
}
