package nftables

import (
	"fmt"
	"slices"
	"sync"
	"time"

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
	// Interfaces is what the scheduler knows of the interfaces.
	Interfaces kind.Interfaces
	// Poll gives the moments at which users, groups and cgroups are looked up that rules
	// name. Default: every ten seconds.
	Poll <-chan time.Time
}

// New makes the kind. What an operation remembers is the namespace.
func New(deps Deps) scheduler.Descriptor[*models.Nftables, kernel.NS] {
	d := &nftables{Deps: deps, at: map[kernel.NS]*generations{}, names: map[scheduler.Key]namesOf{}}
	d.objects = owned.Objects[*models.Nftables, kernel.NS]{
		Kind: models.KindNftables, Kernel: deps.Kernel, Owner: deps.Owner, Prepare: d.prepare, Forget: d.forget}
	k := d.objects.Descriptor()
	k.Update, k.Delete = d.objects.Update, d.delete // a table is replaced at once
	k.Needs, k.Claims, k.Compare, k.Disruption = d.needs, claims, compare, disruption
	k.Retrieve, k.Watch, k.ChangedBy = d.retrieve, d.watch, d.objects.ChangedBy
	return k
}

type nftables struct {
	Deps

	objects owned.Objects[*models.Nftables, kernel.NS]
	seen    owned.Memory[kernel.NS, scheduler.Key, scheduler.Key] // the tables of ours

	mu     sync.Mutex // guards what follows
	at     map[kernel.NS]*generations
	names  map[scheduler.Key]namesOf // of the tables that hold names which nft resolves
	notify owned.Notify              // while Watch runs
}

type (
	op    = scheduler.Op[*models.Nftables, kernel.NS]
	found = scheduler.Found[*models.Nftables, kernel.NS]
	scope = scheduler.Scope[*models.Nftables, kernel.NS]
)

// needs: the namespace, the claims that the rules name, and the devices.
func (d *nftables) needs(_ scheduler.Key, v *models.Nftables) []scheduler.Need {
	list := selector.Needs(v.GetNamespace())
	for _, claim := range v.Claims() {
		list = append(list, kind.OnClaim(d.Claims, claim))
	}
	// When the link is removed the kernel drops the chain, or keeps it for a link of the same name.
	for _, name := range v.Devices() {
		list = append(list, kind.OnNamedInterface(name, "the interface whose packets it sees"))
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
	contents := slices.Concat(
		differ("chain", from.GetChains(), to.GetChains(), sameChain),
		differ("set", from.GetSets(), to.GetSets(), sameSet),
		differ("map", from.GetMaps(), to.GetMaps(), sameMap),
		differ("flowtable", from.GetFlowtables(), to.GetFlowtables(), sameFlowtable))
	for _, reason := range contents {
		d = append(d, kind.Difference{What: reason})
	}
	return d.Verdict()
}

// disruption: a table is replaced at once, but what its going lets pass or stops
// nobody knows.
func disruption(k scheduler.Key, from, to *models.Nftables) scheduler.Disruption {
	if from == nil || to != nil && compare(k, from, to).Change != scheduler.Replace {
		return scheduler.NoDisruption
	}
	return scheduler.Disruptive
}
