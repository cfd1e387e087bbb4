package netlink_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink"
)

func TestRules(t *testing.T) {
	for _, c := range []struct {
		rule  kernel.Rule
		shown string // by ip rule
	}{
		{kernel.Rule{Priority: 1000, From: prefix("10.1.0.0/16"), Table: 100, Action: "lookup"}, "1000:\tfrom 10.1.0.0/16 lookup 100 proto openr"},
		{kernel.Rule{Priority: 1000, To: prefix("10.1.2.3/32"), Table: 70000, Action: "lookup"}, "1000:\tfrom all to 10.1.2.3 lookup 70000 proto openr"},
		{kernel.Rule{Priority: 7, Mark: 1, Mask: 0xff, Table: 254, Action: "lookup"}, "7:\tfrom all fwmark 0x1/0xff lookup main proto openr"},
		{kernel.Rule{Priority: 7, Mask: 0xff, Action: "blackhole"}, "7:\tfrom all fwmark 0/0xff blackhole proto openr"},
		{kernel.Rule{Priority: 7, Iif: "lo", Oif: "gone", Action: "prohibit"}, "7:\tfrom all iif lo oif gone [detached] prohibit proto openr"},
		{kernel.Rule{IPv6: true, Priority: 7, From: prefix("fd00::/64"), Iif: "lo", Action: "unreachable"}, "7:\tfrom fd00::/64 iif lo unreachable proto openr"},
	} {
		b := newKernel(t, netlink.Options{})
		w := watch(t, b)
		c.rule.Protocol = ours
		is := func(r kernel.Rule) bool { return r == c.rule }
		for _, want := range []error{nil, kernel.ErrExist} {
			if err := b.AddRule(b.Own(), c.rule); !errors.Is(err, want) {
				t.Errorf("%v: %v, want %v", c.rule, err, want)
			}
		}
		family := "-4 "
		if c.rule.IPv6 {
			family = "-6 "
		}
		if got := b.own.IP(t, family+"rule show"); !strings.Contains(got, c.shown) {
			t.Errorf("ip shows\n%s, want %s", got, c.shown)
		}
		list, err := b.Rules(b.Own())
		if err != nil || !slices.ContainsFunc(list, is) {
			t.Errorf("%v %v is not among %v", err, c.rule, list)
		}
		w.until(t, "the rule", func(ev kernel.Event) bool { return ev.Rule != nil && is(*ev.Rule) && !ev.Deleted })
		other := c.rule
		other.Protocol++
		for _, step := range []struct {
			rule kernel.Rule
			want error
		}{{other, kernel.ErrNotExist}, {c.rule, nil}, {c.rule, kernel.ErrNotExist}} {
			if err := b.DeleteRule(b.Own(), step.rule); !errors.Is(err, step.want) {
				t.Errorf("deletion of %v: %v, want %v", step.rule, err, step.want)
			}
		}
		w.until(t, "its end", func(ev kernel.Event) bool { return ev.Rule != nil && is(*ev.Rule) && ev.Deleted })
	}
}

// TestRulesThatSayMore: a rule with something that the port does not show is told from one
// without it.
func TestRulesThatSayMore(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	for i, more := range []string{"ipproto tcp", "uidrange 5-6", "sport 80-90", "suppress_prefixlength 0", "tun_id 5", "l3mdev"} {
		table := " table 5"
		if more == "l3mdev" {
			table = ""
		}
		b.own.IP(t, "rule add pref 9 "+more+table)
		list, err := b.Rules(b.Own())
		if n := len(slices.DeleteFunc(list, func(r kernel.Rule) bool { return r.Priority != 9 || !r.More })); n != i+1 || err != nil {
			t.Errorf("%s: %d rules say more, %v", more, n, err)
		}
	}
	b.own.IP(t, "rule add not from 10.0.0.0/8 pref 10 table 5")
	list, _ := b.Rules(b.Own())
	if !slices.ContainsFunc(list, func(r kernel.Rule) bool { return r.Priority == 10 && r.More }) {
		t.Errorf("%v", list)
	}
}

func TestRulesRefused(t *testing.T) {
	b := newKernel(t, netlink.Options{})
	for _, r := range []kernel.Rule{
		{Priority: 7, Table: 5, Action: "dance"},
		{Priority: 7, Table: 5, Action: "lookup", More: true},
		{Priority: 7, Table: 5, Action: "lookup", From: netip.MustParsePrefix("10.0.0.1/8")},
		{Priority: 7, Table: 5, Action: "lookup", From: netip.MustParsePrefix("fd00::/8")},
	} {
		if err := b.AddRule(b.Own(), r); err == nil {
			t.Errorf("%v was taken", r)
		}
	}
}
