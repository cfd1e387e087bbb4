package address

import (
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

const prefix = models.KindAddress + "/"

// Deps are what the kind works with.
type Deps struct {
	Kernel kernel.Kernel
	Owner  *kernel.Owner
	// Names tells which interface a link is; the interface kind keeps it.
	Names *kernel.Names
	// Interfaces is what the scheduler knows of the interfaces.
	Interfaces kind.WantedInterfaces
	// Claims tells what ipclaims hold; nil if there are none.
	Claims kind.Claims
	// Wanted reports whether the scheduler wants an address; nil: it wants all that
	// are there.
	Wanted func(k scheduler.Key) bool
}

// New makes the kind. What an operation remembers is the link and the address.
func New(deps Deps) scheduler.Descriptor[*models.Address, kernel.AddressRef] {
	d := &address{Deps: deps}
	d.objects = owned.Objects[*models.Address, kernel.AddressRef]{
		Kind: models.KindAddress, Kernel: deps.Kernel, Owner: deps.Owner, Prepare: d.prepare}
	k := d.objects.Descriptor()
	k.CreateBatch, k.Delete, k.DeleteBatch = d.createBatch, kind.DeleteOne(d.deleteBatch), d.deleteBatch
	k.Needs, k.Claims, k.Compare, k.Equal, k.Disruption = d.needs, claims, compare, equal, disruption
	k.Retrieve, k.Watch, k.ChangedBy = d.retrieve, d.watch, d.objects.ChangedBy
	// Addresses of one link must not be read, deleted and put back by two at once.
	k.Lane = func(_ scheduler.Key, v *models.Address) string { return "address of " + v.GetInterface() }
	return k
}

type address struct {
	Deps

	objects owned.Objects[*models.Address, kernel.AddressRef]
	have    owned.Memory[kernel.LinkRef, netip.Prefix, scheduler.Key]
	// shared are addresses that others put on their links and that are wanted
	// of us as well: configured, but not ours to delete.
	shared owned.Memory[kernel.LinkRef, netip.Prefix, struct{}]
	// tells: the kernel says who made an address (Linux 5.18): it did so of one.
	tells atomic.Bool
}

type (
	op    = scheduler.Op[*models.Address, kernel.AddressRef]
	found = scheduler.Found[*models.Address, kernel.AddressRef]
	scope = scheduler.Scope[*models.Address, kernel.AddressRef]
	known = scheduler.Known[*models.Address, kernel.AddressRef]
)

func (d *address) needs(_ scheduler.Key, v *models.Address) []scheduler.Need {
	list := []scheduler.Need{kind.OnInterface(v.GetInterface(), "the interface that has the address")}
	if claim := v.GetClaim(); claim != "" {
		list = append(list, kind.OnClaim(d.Claims, claim))
	}
	return list
}

// claims: an address is one key's. The kernel tells equal IPv4 addresses of
// different length apart, IPv6 ones not.
func claims(_ scheduler.Key, v *models.Address) []scheduler.Claim {
	p, err := netip.ParsePrefix(v.GetAddress())
	if err != nil {
		return nil
	}
	id := p.String()
	if p.Addr().Is6() {
		id = p.Addr().String()
	}
	return []scheduler.Claim{{
		ID:   v.GetInterface() + "|" + id,
		What: fmt.Sprintf("address %s of interface %s", id, v.GetInterface()),
	}}
}

// compare: nothing of an address can be changed without taking it away.
func compare(_ scheduler.Key, from, to *models.Address) scheduler.Verdict {
	var why []string
	note := func(differ bool, field string, was, is any) {
		if differ {
			why = append(why, fmt.Sprintf("%s %v → %v", field, was, is))
		}
	}
	note(from.GetInterface() != to.GetInterface(), "interface", from.GetInterface(), to.GetInterface())
	note(from.GetClaim() != to.GetClaim(), "claim", from.GetClaim(), to.GetClaim())
	// Nobody asks for both; what is found with both is not what the claim holds now.
	note(from.GetClaim() != "" && from.GetAddress() != "" && to.GetAddress() == "", "address", from.GetAddress(), "that of the claim")
	note(to.GetAddress() != "" && parse(from.GetAddress()) != parse(to.GetAddress()), "address", from.GetAddress(), to.GetAddress())
	note(to.GetLabel() != from.GetLabel(), "label", from.GetLabel(), to.GetLabel())
	// Of an address that a claim holds only a scope that is written can be judged.
	p := parse(to.GetAddress())
	was, is := scopeOf(from, p), scopeOf(to, p)
	note(was != is && (p.IsValid() || to.GetScope() != ""), "scope", was, is)
	// A lifetime runs; only whether there is one can be compared.
	note(ends(from.GetValidLifetime()) != ends(to.GetValidLifetime()), "valid_lifetime", from.GetValidLifetime(), to.GetValidLifetime())
	note(ends(from.EffectivePreferredLifetime()) != ends(to.EffectivePreferredLifetime()), "preferred_lifetime",
		from.EffectivePreferredLifetime(), to.EffectivePreferredLifetime())
	if len(why) == 0 {
		return scheduler.Verdict{}
	}
	return scheduler.Verdict{Change: scheduler.Replace, Reason: strings.Join(why, ", ")}
}

func ends(seconds uint32) bool { return seconds != 0 }

func equal(k scheduler.Key, actual, desired *models.Address) bool {
	return compare(k, actual, desired).Change == scheduler.Same
}

func disruption(k scheduler.Key, from, to *models.Address) scheduler.Disruption {
	if from == nil || to != nil && equal(k, from, to) {
		return scheduler.NoDisruption
	}
	return scheduler.Disruptive
}

// parse reads an address that validation has seen, zero if there is none.
func parse(s string) netip.Prefix {
	p, _ := netip.ParsePrefix(s)
	return p
}

// prefixOf is the address that a value stands for now.
func (d *address) prefixOf(v *models.Address) (netip.Prefix, error) {
	if v.GetClaim() == "" {
		return netip.ParsePrefix(v.GetAddress())
	}
	return kind.Held(d.Claims, v.GetClaim())
}

// holds reports whether a claim holds the address, for all that is known.
func (d *address) holds(claim string, p netip.Prefix) bool {
	now, err := kind.Held(d.Claims, claim)
	return err != nil || now == p
}

// scopeOf is the scope that an address is to have; "" for IPv6, where it follows
// from the address, whatever is written.
func scopeOf(v *models.Address, p netip.Prefix) string {
	switch {
	case p.Addr().Is6():
		return ""
	case v.GetScope() == "" && p.Addr().IsLoopback():
		return "host" // as everybody has it
	}
	return v.EffectiveScope()
}

// scopeNumber is the kernel's number of a scope.
func scopeNumber(name string) int {
	switch name {
	case "site":
		return 200
	case "link":
		return 253
	case "host":
		return 254
	}
	return 0
}

func scopeName(n int) string {
	for _, name := range []string{"site", "link", "host"} {
		if n == scopeNumber(name) {
			return name
		}
	}
	return "global"
}

// exclusive reports whether all addresses of an interface are ours to say.
func exclusive(v *models.Interface) bool {
	return v != nil && !v.GetLinkOnly() && v.GetExisting() == nil && v.GetLoopback() == nil && !v.GetAdopt()
}

// interfaceOf is what is known of an interface: as it should be, as it is, as
// it was made; nil if nothing.
func (d *address) interfaceOf(name string) *models.Interface {
	key := models.InterfaceKey(name)
	if v, ok := d.Interfaces.Wanted(scheduler.Key(key)); ok {
		return v
	}
	if v, _, ok := d.Interfaces.Get(scheduler.Key(key)); ok {
		return v
	}
	if e, ok := d.Owner.Entry(key); ok {
		return kind.InterfaceOf(e)
	}
	return nil
}

func (d *address) isWanted(k scheduler.Key) bool { return d.Wanted == nil || d.Wanted(k) }

// note keeps what is there, or is about to be, and returns whose it was before;
// forget says that it is not, or will not be.
func (d *address) note(at kernel.AddressRef, k scheduler.Key) (before scheduler.Key) {
	before, _ = d.have.Note(at.LinkRef, at.Prefix, k)
	return before
}

func (d *address) forget(at kernel.AddressRef) { d.have.Forget(at.LinkRef, at.Prefix) }

func (d *address) keyAt(at kernel.AddressRef) (scheduler.Key, bool) {
	return d.have.Get(at.LinkRef, at.Prefix)
}
