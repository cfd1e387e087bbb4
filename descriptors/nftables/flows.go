package nftables

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"syscall"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// The kernel translates a connection by the rules that existed at its first packet. A UDP flow has
// no end, so a client that keeps sending would never use the current rules. After a change of a
// table, exactly those tracked connections are deleted that the rules translate differently now:
// the rules before and after are evaluated for the first packet of each connection. TCP connections
// are kept: only new ones use the new rules.

// candidate is a rule that may decide on the translation of a connection.
type candidate struct {
	action  string
	targets []string
	// doubt is the text of the conditions on which this depends; "" if it is certain.
	doubt string
}

// candidates returns the rules of a hook that may decide, up to the first that decides if it is reached.
func (pr program) candidates(hook string, p packet) []candidate {
	w := walk{pr: pr, p: p}
	var bases []string
	for name, c := range pr {
		if c.Hook == hook {
			bases = append(bases, name)
		}
	}
	slices.Sort(bases)
	for _, name := range bases {
		doubt := ""
		if len(bases) > 1 {
			doubt = "priority" // which chain is first is not evaluated
		}
		w.chain(name, doubt)
	}
	return w.found
}

// walk collects candidates.
type walk struct {
	pr    program
	p     packet
	found []candidate
}

// chain evaluates a chain that is reached unless one of the conditions in doubt holds. It returns
// the doubt about what follows the chain, and whether nothing follows it.
func (w *walk) chain(name, doubt string) (after string, ended bool) {
	left := false // the packet may have returned to the caller
	for _, r := range w.pr[name].Rules {
		choices, ok := r.matches(w.p)
		if !ok {
			continue
		}
		reached := strings.TrimSpace(doubt + " " + r.Unknown)
		for _, choice := range choices {
			action, data := r.Action, choice.Data
			if action == "vmap" {
				action, data, _ = strings.Cut(data, " ")
			}
			before, next := len(w.found), reached
			var done bool
			switch action {
			case "continue":
				continue
			case "jump", "goto":
				if next, done = w.chain(data, reached); action == "goto" && !done {
					done, left = true, true
				} else if r.Unknown != "" && !done && len(w.found) == before && next == reached {
					next = doubt // the chain changes nothing
				}
			case "return":
				done, left = true, true
			case "accept", "drop":
				done = true
			default:
				w.found = append(w.found, candidate{action, targetsOf(choices), reached})
				done = true
			}
			if done && r.Unknown == "" {
				return next, !left
			}
			doubt = next
			if len(choices) > 1 && action == r.Action {
				break // all targets are in one candidate
			}
		}
	}
	return doubt, false
}

// targetsOf returns the targets of a candidate.
func targetsOf(choices []element) (targets []string) {
	for _, c := range choices {
		targets = append(targets, c.Data)
	}
	return targets
}

// view is a tracked connection in a namespace with certain addresses.
type view struct {
	kernel.Flow
	own func(netip.Addr) bool
}

// destination returns the hook and the first packet before the translation of the destination.
func (v view) destination() (hook string, p packet) {
	hook = "prerouting"
	if v.own(v.Original.Source.Addr()) {
		hook = "output"
	}
	return hook, v.packet(v.Original.Destination)
}

// source returns the hook and the first packet before the translation of the source. Packets to the
// namespace itself do not come to the hook.
func (v view) source() (hook string, p packet) {
	to := v.Reply.Source
	if hook = "postrouting"; v.own(to.Addr()) {
		hook = "input"
	}
	return hook, v.packet(to)
}

func (v view) packet(to netip.AddrPort) packet {
	return packet{v.Protocol, to.Addr().Is4(), endOf(v.Original.Source), endOf(to), v.own(to.Addr())}
}

// applied reports whether the connection is translated as a candidate specifies.
func (v view) applied(c candidate) bool {
	if c.action == "masquerade" {
		return v.SourceTranslated() || v.own(v.Original.Source.Addr())
	}
	before, after := v.Original.Destination, v.Reply.Source
	if c.action == "snat" {
		before, after = v.Original.Source, v.Reply.Destination
	}
	return slices.ContainsFunc(c.targets, func(text string) bool {
		t, ok := targetOf(text)
		now := endOf(after)
		return ok && (t.address == span{} && (c.action != "redirect" || v.own(after.Addr())) || t.address.contains(now.address)) &&
			(t.port == span{} && (c.action == "snat" || before.Port() == after.Port()) || t.port.contains(now.port))
	})
}

// change is how the rules of a table changed.
type change struct {
	was, is program
	// rules are those that changed, by hook; see changed. Without parts, anything may have changed.
	rules map[string][]rule
	parts bool
}

// concerns reports whether a changed rule matches a packet.
func (c change) concerns(hook string, p packet) bool {
	match := func(r rule) bool { _, ok := r.matches(p); return ok }
	return !c.parts || slices.ContainsFunc(c.rules[hook], match) || slices.ContainsFunc(c.rules[""], match)
}

// like returns the patterns of the connections that the change may concern. It returns false if these
// are too many to name.
func (c change) like() (list []kernel.Flow, ok bool) {
	for hook, rules := range c.rules {
		for _, r := range rules {
			some, ok := r.like(hook)
			if !ok {
				return nil, false
			}
			for _, p := range some {
				if !slices.Contains(list, p) {
					list = append(list, p)
				}
			}
		}
	}
	return list, c.parts
}

// stale reports whether the rules translate the connection differently after a change.
func (v view) stale(c change) bool {
	if v.Protocol == syscall.IPPROTO_TCP {
		return false
	}
	hook, p := v.destination()
	if v.differs(c, hook, p, v.Original.Destination != v.Reply.Source) {
		return true
	}
	hook, p = v.source()
	return v.differs(c, hook, p, v.Original.Source != v.Reply.Destination)
}

// differs compares what the rules of a hook specified with what they specify now.
func (v view) differs(c change, hook string, p packet, translated bool) bool {
	if !c.concerns(hook, p) {
		return false
	}
	before, after := c.was.candidates(hook, p), c.is.candidates(hook, p)
	if reflect.DeepEqual(before, after) {
		return false
	}
	if len(after) == 1 && after[0].doubt == "" {
		return !v.applied(after[0])
	}
	return translated && slices.ContainsFunc(before, func(old candidate) bool {
		return v.applied(old) && !slices.ContainsFunc(after, func(now candidate) bool { return now.doubt == old.doubt && v.applied(now) })
	})
}

// forgetFlows deletes the tracked connections that a changed table translates differently.
func (d *nftables) forgetFlows(ns kernel.NS, before, after kernel.Table) error {
	was, is := programOf(before), programOf(after)
	if reflect.DeepEqual(was, is) || !was.translates() && !is.translates() {
		return nil
	}
	c := change{was: was, is: is}
	c.rules, c.parts = changed(was, is)
	like, ok := c.like()
	if ok && len(like) == 0 {
		return nil // only rules of TCP
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
		return view{f, func(a netip.Addr) bool { return own[a] || a.IsLoopback() }}.stale(c)
	}, like...)
	return err
}

// translates reports whether there is a rule that translates.
func (pr program) translates() bool {
	for _, c := range pr {
		if slices.ContainsFunc(c.Rules, func(r rule) bool {
			return slices.Contains([]string{"dnat", "snat", "redirect", "masquerade"}, r.Action)
		}) {
			return true
		}
	}
	return false
}
