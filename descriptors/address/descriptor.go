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
	// Announcer tells neighbours where addresses are; nil: nobody does.
	Announcer Announcer
	// Wanted reports whether the scheduler wants an address; nil: it wants all that
	// are there.
	Wanted func(k scheduler.Key) bool
}

// Announcer tells the neighbours of links where addresses are. Its methods do not fail.
type Announcer interface {
	// Added announces addresses that have been created, Removed ends the announcement of one.
	Added(addresses ...kernel.AddressRef)
	Removed(at kernel.AddressRef)
}

type silent struct{}

func (silent) Added(...kernel.AddressRef) {}
func (silent) Removed(kernel.AddressRef)  {}

// New makes the kind. What an operation remembers is the link and the address.
func New(deps Deps) scheduler.Descriptor[*models.Address, kernel.AddressRef] {
	if deps.Announcer == nil {
		deps.Announcer = silent{}
	}
	d := &address{Deps: deps}
	d.objects = owned.Objects[*models.Address, kernel.AddressRef]{
		Kind: models.KindAddress, Kernel: deps.Kernel, Owner: deps.Owner, Prepare: d.prepare}
	k := d.objects.Descriptor()
	k.CreateBatch, k.Update, k.Delete, k.DeleteBatch = d.createBatch, d.objects.Update, kind.DeleteOne(d.deleteBatch), d.deleteBatch
	k.Needs, k.Claims, k.Compare, k.Equal, k.Disruption = d.needs, claims, compare, equal, disruption
	k.DerivedBy, k.GivesBack = derivedBy, d.givesBack
	k.Retrieve, k.Watch, k.ChangedBy = d.retrieve, d.watch, d.objects.ChangedBy
	// Addresses of one link must not be read, deleted and put back by two at once.
	k.Lane = func(_ scheduler.Key, v *models.Address) string { return "address of " + v.GetInterface() }
	return k
}

type address struct {
	Deps

	objects owned.Objects[*models.Address, kernel.AddressRef]
	have    owned.Memory[kernel.LinkRef, netip.Prefix, held]
	// shared are addresses that others put on their links and that are wanted
	// of us as well: configured, but not ours to delete.
	shared owned.Memory[kernel.LinkRef, netip.Prefix, struct{}]
	// tells: the kernel says who made an address (Linux 5.18): it did so of one.
	tells atomic.Bool
}

// held is what is believed of an address.
type held struct {
	key      scheduler.Key
	position uint32 // as desired
	lifetimes
	network
}

// fit reports whether an address is as it is believed to be.
func (h held) fit(a kernel.Address) bool {
	return h.lifetimes.fit(a) && h.network.fit(a) && !a.Duplicate
}

type (
	op    = scheduler.Op[*models.Address, kernel.AddressRef]
	found = scheduler.Found[*models.Address, kernel.AddressRef]
	scope = scheduler.Scope[*models.Address, kernel.AddressRef]
	known = scheduler.Known[*models.Address, kernel.AddressRef]
)

// derivedBy returns the interface whose value lists the address. An address that a source
// wants by itself has a name without a slash.
func derivedBy(k scheduler.Key) scheduler.Key {
	name, _, derived := strings.Cut(strings.TrimPrefix(string(k), prefix), "/")
	if !derived {
		return ""
	}
	return scheduler.Key(models.InterfaceKey(name))
}

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

// compare: the lifetimes of an address and some of its network settings change in place, all else
// replaces it.
func compare(_ scheduler.Key, from, to *models.Address) scheduler.Verdict {
	var d kind.Differences
	d.Must(from.GetInterface() != to.GetInterface(), "interface", from.GetInterface(), to.GetInterface())
	d.Must(from.GetClaim() != to.GetClaim(), "claim", from.GetClaim(), to.GetClaim())
	// Nobody asks for both; what is found with both is not what the claim holds now.
	d.Must(from.GetClaim() != "" && from.GetAddress() != "" && to.GetAddress() == "", "address", from.GetAddress(), "that of the claim")
	d.Must(to.GetAddress() != "" && parse(from.GetAddress()) != parse(to.GetAddress()), "address", from.GetAddress(), to.GetAddress())
	d.Must(to.GetLabel() != from.GetLabel(), "label", from.GetLabel(), to.GetLabel())
	// Of an address that a claim holds only a scope that is written can be judged.
	p := parse(to.GetAddress())
	was, is := scopeOf(from, p), scopeOf(to, p)
	d.Must(was != is && (p.IsValid() || to.GetScope() != ""), "scope", was, is)
	compareNetworks(&d, from, to)
	// The kernel detects duplicates of an address when it is added, so another setting changes nothing.
	d.Must(from.GetDuplicateDetection() == duplicate, "duplicate_detection", duplicate, to.EffectiveDuplicateDetection())
	// The position of an IPv6 address, which a claim may hold, has no effect.
	d.May(from.GetPosition() != to.GetPosition() && to.GetPosition() != 0 && !(p.IsValid() && p.Addr().Is6()), "position", from.GetPosition(), to.GetPosition())
	// What runs down is told by a reading as it was set, see told.
	have, want := lifetimesOf(from), lifetimesOf(to)
	d.May(have.valid != want.valid, "valid_lifetime", inWords(have.valid), inWords(want.valid))
	d.May(have.preferred != want.preferred, "preferred_lifetime", inWords(have.preferred), inWords(want.preferred))
	return d.Verdict()
}

func equal(k scheduler.Key, actual, desired *models.Address) bool {
	return compare(k, actual, desired).Change == scheduler.Same
}

func disruption(k scheduler.Key, from, to *models.Address) scheduler.Disruption {
	if from == nil || to != nil && compare(k, from, to).Change != scheduler.Replace {
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

// isOurs reports whether addresses that values name are ours on the link of an interface, whoever added
// them. Other addresses are removed from some of these links only.
func isOurs(v *models.Interface) bool {
	return v.RemovesAddresses() || v.IsMade() && !v.GetLinkOnly()
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

// note keeps what is there, or is about to be, and returns what was before;
// forget says that it is not, or will not be.
func (d *address) note(at kernel.AddressRef, k scheduler.Key, v *models.Address, position uint32) (before held) {
	before, _ = d.have.Note(at.LinkRef, at.Prefix, held{k, position, lifetimesOf(v), networkOf(v)})
	return before
}

func (d *address) forget(at kernel.AddressRef) { d.have.Forget(at.LinkRef, at.Prefix) }

func (d *address) keyAt(at kernel.AddressRef) (scheduler.Key, bool) {
	h, there := d.have.Get(at.LinkRef, at.Prefix)
	return h.key, there
}
