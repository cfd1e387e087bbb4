package rule

import (
	"fmt"
	"net/netip"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// Deps are what the kind works with.
type Deps struct {
	Kernel kernel.Kernel
	Owner  *kernel.Owner
	Places selector.Places
	// Interfaces is what the scheduler knows of the interfaces.
	Interfaces kind.Interfaces
	// Wanted reports whether the scheduler wants a rule; nil: it wants all that are there.
	Wanted func(k scheduler.Key) bool
}

// New makes the kind. What an operation remembers is the namespace.
func New(deps Deps) scheduler.Descriptor[*models.Rule, kernel.LinkRef] {
	d := &rule{Deps: deps}
	d.objects = owned.Objects[*models.Rule, kernel.LinkRef]{
		Kind: models.KindRule, Kernel: deps.Kernel, Owner: deps.Owner, Prepare: d.prepare, Standing: d.standing, Forget: d.forget}
	k := d.objects.Descriptor()
	k.CreateBatch, k.Delete = d.objects.CreateBatch, d.delete
	k.Needs, k.Claims, k.Compare = needs, claims, compare
	k.Retrieve, k.Watch, k.ChangedBy = d.retrieve, d.watch, d.objects.ChangedBy
	return k
}

type rule struct {
	Deps

	objects owned.Objects[*models.Rule, kernel.LinkRef]
	have    owned.Memory[kernel.NS, string, scheduler.Key] // by what they say
}

type (
	op    = scheduler.Op[*models.Rule, kernel.LinkRef]
	found = scheduler.Found[*models.Rule, kernel.LinkRef]
	scope = scheduler.Scope[*models.Rule, kernel.LinkRef]
)

// needs: the interfaces, or the namespace. The kernel keeps their names: with another name
// it is another rule.
func needs(_ scheduler.Key, v *models.Rule) (list []scheduler.Need) {
	for _, name := range v.Interfaces() {
		list = append(list, kind.OnNamedInterface(name, "the interface that the rule is about"))
	}
	if list == nil {
		list = selector.Needs(v.GetNamespace())
	}
	return list
}

// claims: one rule that says the same in a namespace, as far as values tell; what is only
// known in the kernel is judged there.
func claims(_ scheduler.Key, v *models.Rule) []scheduler.Claim {
	at, where := "in "+selector.Text(v.GetNamespace()), "in "+v.GetNamespace().Text()
	if names := v.Interfaces(); len(names) > 0 {
		at, where = "by "+names[0], "by "+names[0]
	}
	says := text(plain(v, v.GetIif(), v.GetOif()))
	return []scheduler.Claim{{ID: at + "|" + says, What: fmt.Sprintf("rule %s %s", says, where)}}
}

// compare: any difference makes another rule.
func compare(_ scheduler.Key, from, to *models.Rule) scheduler.Verdict {
	var d kind.Differences
	must := func(field string, was, is any) { d.Must(was != is, field, was, is) }
	a, b := plain(from, from.GetIif(), from.GetOif()), plain(to, to.GetIif(), to.GetOif())
	must("namespace", selector.Text(from.GetNamespace()), selector.Text(to.GetNamespace()))
	d.Must(from.GetAdopt() && !to.GetAdopt(), "adopt", true, false)
	must("family", familyOf(a), familyOf(b))
	must("priority", a.Priority, b.Priority)
	must("from", shown(a.From), shown(b.From))
	must("to", shown(a.To), shown(b.To))
	must("fwmark", a.Mark, b.Mark)
	must("fwmask", a.Mask, b.Mask)
	must("iif", a.Iif, b.Iif)
	must("oif", a.Oif, b.Oif)
	must("table", a.Table, b.Table)
	must("action", a.Action, b.Action)
	return d.Verdict()
}

// plain is a valid value as the kernel's, with these names of links.
func plain(v *models.Rule, iif, oif string) kernel.Rule {
	return kernel.Rule{
		IPv6: v.IsIPv6(), Priority: v.GetPriority(), From: network(v.GetFrom()), To: network(v.GetTo()),
		Mark: v.GetFwmark(), Mask: v.EffectiveFwmask(), Iif: iif, Oif: oif,
		Table: v.GetTable(), Action: v.EffectiveAction(),
	}
}

// network reads a network that validation has seen. That of all addresses is none.
func network(s string) netip.Prefix {
	p, _ := netip.ParsePrefix(s)
	if p.Bits() <= 0 {
		return netip.Prefix{}
	}
	return p
}

// text is all that a rule says, in the words of ip rule: its mark in the ledger.
func text(r kernel.Rule) string {
	s := fmt.Sprintf("%s %d: from %s to %s", familyOf(r), r.Priority, shown(r.From), shown(r.To))
	if r.Mask != 0 {
		s += fmt.Sprintf(" fwmark %#x/%#x", r.Mark, r.Mask)
	}
	if r.Iif != "" {
		s += " iif " + r.Iif
	}
	if r.Oif != "" {
		s += " oif " + r.Oif
	}
	if s += " " + r.Action; r.Table != 0 {
		s += fmt.Sprintf(" %d", r.Table)
	}
	return s
}

func shown(p netip.Prefix) string {
	if !p.IsValid() {
		return "all"
	}
	return p.String()
}

func familyOf(r kernel.Rule) string {
	if r.IPv6 {
		return "ipv6"
	}
	return "ipv4"
}
