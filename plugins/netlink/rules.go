package netlink

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

var ruleActions = names{
	unix.FR_ACT_TO_TBL: "lookup", unix.FR_ACT_GOTO: "goto", unix.FR_ACT_NOP: "nop",
	unix.FR_ACT_BLACKHOLE: "blackhole", unix.FR_ACT_UNREACHABLE: "unreachable", unix.FR_ACT_PROHIBIT: "prohibit",
}

// Rules of policy routing, IPv4 first, in the order in which the kernel asks them.
func (k *Kernel) Rules(ns kernel.NS) (list []kernel.Rule, err error) {
	err = k.in(ns, "list rules", func(n *namespace) error {
		for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
			var some []kernel.Rule
			m := newMessage(unix.RTM_GETRULE, unix.NLM_F_DUMP)
			m.rule(family, 0, 0, 0, 0)
			err := n.dump(m, func() { some = nil }, func(_ uint16, body []byte) {
				if r, ok := parseRule(body); ok {
					some = append(some, r)
				}
			})
			if err != nil && !errors.Is(err, kernel.ErrUnsupported) { // no IPv6
				return err
			}
			slices.SortStableFunc(some, func(a, b kernel.Rule) int { return cmp.Compare(a.Priority, b.Priority) })
			list = append(list, some...)
		}
		return nil
	})
	return list, err
}

// AddRule adds a rule; see [kernel.Kernel].
func (k *Kernel) AddRule(ns kernel.NS, r kernel.Rule) error {
	return k.doRule(ns, "add", unix.RTM_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, r)
}

// DeleteRule removes the rule that says the same; ErrNotExist if there is none.
func (k *Kernel) DeleteRule(ns kernel.NS, r kernel.Rule) error {
	return k.doRule(ns, "delete", unix.RTM_DELRULE, 0, r)
}

func (k *Kernel) doRule(ns kernel.NS, act string, typ, flags int, r kernel.Rule) error {
	return k.in(ns, fmt.Sprintf("%s rule %d", act, r.Priority), func(n *namespace) error {
		m, err := newRule(typ, flags, r)
		if err != nil {
			return err
		}
		return n.do(m, nil)
	})
}

func newRule(typ, flags int, r kernel.Rule) (*message, error) {
	action, ok := ruleActions.number(r.Action)
	if !ok || r.More {
		return nil, fmt.Errorf("no rule of ours: %w", unix.EINVAL)
	}
	family := uint8(unix.AF_INET)
	if r.IPv6 {
		family = unix.AF_INET6
	}
	m := newMessage(typ, flags)
	m.rule(family, bitsOf(r.To), bitsOf(r.From), shortTable(r.Table), action)
	for typ, p := range map[int]netip.Prefix{unix.FRA_DST: r.To, unix.FRA_SRC: r.From} {
		if bitsOf(p) == 0 {
			continue
		}
		if p.Addr().Is6() != r.IPv6 || p != p.Masked() {
			return nil, fmt.Errorf("%s is no network of the family: %w", p, unix.EINVAL)
		}
		m.addr(typ, p.Addr())
	}
	m.u32(unix.FRA_PRIORITY, r.Priority)
	if r.Table != 0 {
		m.u32(unix.FRA_TABLE, r.Table)
	}
	if r.Mask != 0 {
		m.u32(unix.FRA_FWMARK, r.Mark)
		m.u32(unix.FRA_FWMASK, r.Mask)
	}
	if r.Iif != "" {
		m.str(unix.FRA_IIFNAME, r.Iif)
	}
	if r.Oif != "" {
		m.str(unix.FRA_OIFNAME, r.Oif)
	}
	if r.Protocol != 0 {
		m.u8(unix.FRA_PROTOCOL, r.Protocol)
	}
	return m, nil
}

func bitsOf(p netip.Prefix) int {
	if !p.IsValid() {
		return 0
	}
	return p.Bits()
}

// rule adds the header of rule messages (struct fib_rule_hdr).
func (m *message) rule(family uint8, dst, src int, table, action uint8) {
	m.b = append(m.b, family, uint8(dst), uint8(src), 0, table, 0, 0, action, 0, 0, 0, 0)
}

// The flags of a rule that the kernel reports, as in linux/fib_rules.h.
const (
	ruleInvert   = 0x2
	sizeofRuleHd = 12
	noSuppress   = ^uint32(0)
)

// parseRule reads the body of a rule message; false for families that are not IP.
func parseRule(body []byte) (r kernel.Rule, ok bool) {
	if len(body) < sizeofRuleHd || body[0] != unix.AF_INET && body[0] != unix.AF_INET6 {
		return r, false
	}
	r.IPv6 = body[0] == unix.AF_INET6
	r.Table, r.Action = uint32(body[4]), ruleActions.name(body[7])
	r.More = body[3] != 0 || asU32(body[8:])&ruleInvert != 0
	for typ, v := range attributes(body[sizeofRuleHd:]) {
		switch typ {
		case unix.FRA_DST:
			r.To = netip.PrefixFrom(asAddr(v), int(body[1]))
		case unix.FRA_SRC:
			r.From = netip.PrefixFrom(asAddr(v), int(body[2]))
		case unix.FRA_PRIORITY:
			r.Priority = asU32(v)
		case unix.FRA_TABLE:
			r.Table = asU32(v)
		case unix.FRA_FWMARK:
			r.Mark = asU32(v)
		case unix.FRA_FWMASK:
			r.Mask = asU32(v)
		case unix.FRA_IIFNAME:
			r.Iif = asString(v)
		case unix.FRA_OIFNAME:
			r.Oif = asString(v)
		case unix.FRA_PROTOCOL:
			r.Protocol = asU8(v)
		case unix.FRA_SUPPRESS_PREFIXLEN, unix.FRA_SUPPRESS_IFGROUP:
			r.More = r.More || asU32(v) != noSuppress
		case unix.FRA_L3MDEV, unix.FRA_FLOW:
			r.More = r.More || slices.ContainsFunc(v, func(b byte) bool { return b != 0 })
		case unix.FRA_UNSPEC, unix.FRA_PAD:
		default:
			r.More = true
		}
	}
	if r.Action != "lookup" {
		r.Table = 0
	}
	return r, true
}
