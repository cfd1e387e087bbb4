package nftables

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

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
	Tables kernel.Tables
	Owner  *kernel.Owner
	Places selector.Places
	// Claims tells what ipclaims hold; nil if there are none.
	Claims kind.Claims
	// Poll gives the moments at which the kernel is asked for changes. Default:
	// every ten seconds while Watch runs.
	Poll <-chan time.Time
}

// New makes the kind. What an operation remembers is the namespace.
func New(deps Deps) scheduler.Descriptor[*models.Nftables, kernel.NS] {
	d := &nftables{Deps: deps, generation: map[kernel.NS]uint32{}}
	d.objects = owned.Objects[*models.Nftables, kernel.NS]{
		Kind: models.KindNftables, Kernel: deps.Kernel, Owner: deps.Owner, Prepare: d.prepare, Forget: d.forget}
	k := d.objects.Descriptor()
	k.Update, k.Delete = d.objects.Update, d.delete // a table is replaced at once
	k.Needs, k.Claims, k.Compare, k.Disruption = d.needs, claims, compare, disruption
	k.Retrieve, k.Watch = d.retrieve, d.watch
	return k
}

type nftables struct {
	Deps

	objects owned.Objects[*models.Nftables, kernel.NS]
	seen    owned.Memory[kernel.NS, scheduler.Key, table] // the tables of ours
	// generation is that of the tables of a namespace when they were last looked at.
	generation map[kernel.NS]uint32
}

// table is a table of ours.
type table struct {
	ns  kernel.NS
	key scheduler.Key
}

type (
	op    = scheduler.Op[*models.Nftables, kernel.NS]
	found = scheduler.Found[*models.Nftables, kernel.NS]
	scope = scheduler.Scope[*models.Nftables, kernel.NS]
)

// needs: the namespace, and the claims that the rules name.
func (d *nftables) needs(_ scheduler.Key, v *models.Nftables) []scheduler.Need {
	list := selector.Needs(v.GetNamespace())
	for _, claim := range v.Claims() {
		list = append(list, kind.OnClaim(d.Claims, claim))
	}
	return list
}

// claims: one table per name. That two selectors mean one namespace is not known
// here; the mark of the table tells.
func claims(k scheduler.Key, v *models.Nftables) []scheduler.Claim {
	id := v.EffectiveFamily() + " " + v.EffectiveTable(string(k))
	return []scheduler.Claim{{ID: selector.Text(v.GetNamespace()) + "|" + id, What: fmt.Sprintf("table %s in %s", id, v.GetNamespace().Text())}}
}

// compare: another name or place is another table.
func compare(k scheduler.Key, from, to *models.Nftables) scheduler.Verdict {
	var d kind.Differences
	must := func(field, was, is string) { d.Must(was != is, field, was, is) }
	must("family", from.EffectiveFamily(), to.EffectiveFamily())
	must("table", from.EffectiveTable(string(k)), to.EffectiveTable(string(k)))
	must("namespace", from.GetNamespace().Text(), to.GetNamespace().Text())
	for _, reason := range chainsDiffer(from.GetChains(), to.GetChains()) {
		d = append(d, kind.Difference{What: reason})
	}
	return d.Verdict()
}

// chainsDiffer names the chains that are not the same. Their order means nothing.
func chainsDiffer(from, to []*models.Chain) (reasons []string) {
	for _, c := range to {
		i := slices.IndexFunc(from, func(f *models.Chain) bool { return f.GetName() == c.GetName() })
		switch {
		case i < 0:
			reasons = append(reasons, "chain "+c.GetName()+" is missing")
		case !sameChain(from[i], c):
			reasons = append(reasons, "chain "+c.GetName()+" is another")
		}
	}
	for _, c := range from {
		if !slices.ContainsFunc(to, func(f *models.Chain) bool { return f.GetName() == c.GetName() }) {
			reasons = append(reasons, "chain "+c.GetName()+" is too many")
		}
	}
	return reasons
}

func sameChain(a, b *models.Chain) bool {
	if a.GetHook() != "" && (a.EffectivePriority() != b.EffectivePriority() || a.EffectivePolicy() != b.EffectivePolicy()) {
		return false
	}
	return a.GetType() == b.GetType() && a.GetHook() == b.GetHook() && slices.Equal(a.GetRules(), b.GetRules())
}

// disruption: a table is replaced at once, but what its going lets pass or stops
// nobody knows.
func disruption(k scheduler.Key, from, to *models.Nftables) scheduler.Disruption {
	if from == nil || to != nil && compare(k, from, to).Change != scheduler.Replace {
		return scheduler.NoDisruption
	}
	return scheduler.Disruptive
}

// tableOf is a value as the kernel is told.
func (d *nftables) tableOf(k scheduler.Key, v *models.Nftables) kernel.Table {
	t := kernel.Table{Family: v.EffectiveFamily(), Name: v.EffectiveTable(string(k)), Comment: d.Owner.Comment(string(k))}
	for _, c := range v.GetChains() {
		chain := kernel.TableChain{Name: c.GetName(), Type: c.GetType(), Hook: c.GetHook(), Rules: c.GetRules()}
		if c.GetHook() != "" {
			chain.Priority, chain.Policy = c.EffectivePriority(), c.EffectivePolicy()
		}
		t.Chains = append(t.Chains, chain)
	}
	return t
}

// valueOf is what was read as a value, at the place of another.
func valueOf(t kernel.Table, like *models.Nftables) *models.Nftables {
	v := proto.CloneOf(like)
	v.Chains = nil
	for _, c := range t.Chains {
		v.Chains = append(v.Chains, &models.Chain{Name: c.Name, Type: c.Type, Hook: c.Hook, Priority: c.Priority, Policy: c.Policy, Rules: c.Rules})
	}
	return v
}
