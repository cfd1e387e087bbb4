package nftables

import (
	"cmp"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// The kernel translates a connection by the rules that existed at its first packet. A UDP flow has
// no end, so a client that keeps sending would never use the current rules. After a change of a
// table, exactly those tracked connections are deleted that a changed rule would translate
// differently. TCP connections are kept: only new ones use the new rules.

// translation is a parsed rule that translates addresses: a port that is forwarded to a target, or
// sources that are masqueraded.
type translation struct {
	hook     string
	protocol uint8
	port     uint16
	// at is the destination address of the port. If it is invalid, the rule is for any address,
	// or with local for any address of the host.
	at    netip.Addr
	local bool
	// target is set for a port; source is set for a masquerade, with its excluded destinations.
	target   netip.AddrPort
	source   netip.Prefix
	excluded []netip.Prefix
	// whole is set if the rule has no other conditions. Otherwise it is unknown which of the
	// untranslated connections the rule would translate.
	whole bool
}

var (
	portRule = regexp.MustCompile(`^(.*?)\b(udp|sctp) dport (\d+) (?:counter (?:packets \d+ bytes \d+ )?)?dnat (?:ip6? )?to (\S+)$`)
	portHead = regexp.MustCompile(`^(?:meta nfproto (?:ipv4|ipv6) )?(?:ip6 daddr != ::1 )?(?:ip6? daddr ([0-9a-f.:]+) )?(fib daddr type local )?$`)
	maskRule = regexp.MustCompile(`^ip6? saddr (\S+) (?:ip6? daddr != (?:\{ ([^}]*) \}|(\S+)) )?(?:counter (?:packets \d+ bytes \d+ )?)?masquerade$`)
)

// translations returns the translations of all rules of a table.
func translations(t kernel.Table) (list []translation) {
	for _, c := range t.Chains {
		for _, rule := range c.Rules {
			if tr, ok := translationOf(rule); ok {
				tr.hook = c.Hook
				tr.whole = tr.whole && c.Hook != ""
				list = append(list, tr)
			}
		}
	}
	return list
}

func translationOf(rule string) (tr translation, ok bool) {
	if !strings.Contains(rule, "dnat") && !strings.HasSuffix(rule, "masquerade") {
		return tr, false // most rules
	}
	if m := portRule.FindStringSubmatch(rule); m != nil {
		tr.protocol = map[string]uint8{"udp": syscall.IPPROTO_UDP, "sctp": syscall.IPPROTO_SCTP}[m[2]]
		port, err := strconv.ParseUint(m[3], 10, 16)
		tr.port = uint16(port)
		target, ok := targetOf(m[4], tr.port)
		if err != nil || !ok {
			return tr, false
		}
		tr.target = target
		if head := portHead.FindStringSubmatch(m[1]); head != nil {
			tr.at, _ = netip.ParseAddr(head[1])
			tr.local, tr.whole = head[2] != "", head[1] == "" || tr.at.IsValid()
		}
		return tr, true
	}
	if m := maskRule.FindStringSubmatch(rule); m != nil {
		source, err := prefixOf(m[1])
		tr.source, tr.whole = source, true
		for text := range strings.SplitSeq(cmp.Or(m[2], m[3]), ",") {
			if text = strings.TrimSpace(text); text == "" {
				continue
			}
			p, failed := prefixOf(text)
			err = cmp.Or(err, failed)
			tr.excluded = append(tr.excluded, p)
		}
		return tr, err == nil
	}
	return tr, false
}

// targetOf reads ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT.
func targetOf(text string, port uint16) (netip.AddrPort, bool) {
	if at, err := netip.ParseAddrPort(text); err == nil {
		return at, true
	}
	a, err := netip.ParseAddr(strings.Trim(text, "[]"))
	return netip.AddrPortFrom(a, port), err == nil
}

func prefixOf(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	return netip.ParsePrefix(text)
}

// same reports whether both rules translate the same connections in the same way.
func (tr translation) same(o translation) bool {
	return tr.hook == o.hook && tr.protocol == o.protocol && tr.port == o.port && tr.at == o.at && tr.local == o.local &&
		tr.target == o.target && tr.source == o.source && slices.Equal(tr.excluded, o.excluded) && tr.whole == o.whole
}

// concerns reports whether the rule applies to a connection. own are the addresses of the
// namespace.
func (tr translation) concerns(f kernel.Flow, own map[netip.Addr]bool) bool {
	to := f.Original.Destination
	has := func(a netip.Addr) bool { return own[a] || a.IsLoopback() }
	isOwn, fromOwn := has(to.Addr()), has(f.Original.Source.Addr())
	if fromOwn && tr.hook == "prerouting" || !fromOwn && tr.hook == "output" {
		return false
	}
	if tr.target.IsValid() {
		return f.Protocol == tr.protocol && to.Port() == tr.port && to.Addr().Is4() == tr.target.Addr().Is4() &&
			(!tr.at.IsValid() || tr.at == to.Addr()) && (!tr.local || isOwn)
	}
	return f.Protocol != syscall.IPPROTO_TCP && tr.source.Contains(f.Original.Source.Addr()) && !isOwn &&
		!slices.ContainsFunc(tr.excluded, func(p netip.Prefix) bool { return p.Contains(to.Addr()) })
}

// applied reports whether a connection is translated as the rule specifies.
func (tr translation) applied(f kernel.Flow) bool {
	if tr.target.IsValid() {
		return f.Reply.Source == tr.target
	}
	return f.SourceTranslated()
}

// forgetFlows deletes the tracked connections that added or removed rules translate differently.
func (d *nftables) forgetFlows(ns kernel.NS, was, is []translation) error {
	lacks := func(list []translation, tr translation) bool { return !slices.ContainsFunc(list, tr.same) }
	came := slices.DeleteFunc(slices.Clone(is), func(tr translation) bool { return !tr.whole || !lacks(was, tr) })
	went := slices.DeleteFunc(slices.Clone(was), func(tr translation) bool { return !lacks(is, tr) })
	if len(came)+len(went) == 0 {
		return nil
	}
	addresses, err := d.Kernel.Addresses(ns, 0)
	if err != nil {
		return err
	}
	own := map[netip.Addr]bool{}
	for _, a := range addresses {
		own[a.Prefix.Addr()] = true
	}
	_, err = d.Kernel.DeleteFlows(ns, func(f kernel.Flow) bool {
		return slices.ContainsFunc(came, func(tr translation) bool { return tr.concerns(f, own) && !tr.applied(f) }) ||
			slices.ContainsFunc(went, func(tr translation) bool { return tr.concerns(f, own) && tr.applied(f) })
	})
	return err
}
