package fdb

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// Deps are what the kind works with.
type Deps struct {
	Kernel kernel.Kernel
	Owner  *kernel.Owner
	// Names tells which interface a link is; the interface kind keeps it.
	Names *kernel.Names
	// Interfaces is what the scheduler knows of the interfaces.
	Interfaces kind.Interfaces
}

// New makes the kind. What an operation remembers is the link.
func New(deps Deps) scheduler.Descriptor[*models.FDB, kernel.LinkRef] {
	d := &fdb{Deps: deps}
	d.objects = owned.Objects[*models.FDB, kernel.LinkRef]{
		Kind: models.KindFDB, Kernel: deps.Kernel, Owner: deps.Owner, Prepare: d.prepare, Forget: d.forgetEntry}
	k := d.objects.Descriptor()
	k.CreateBatch, k.Delete = d.objects.CreateBatch, d.delete
	k.Needs, k.Claims, k.Compare = needs, claims, compare
	k.Retrieve, k.Watch, k.ChangedBy = d.retrieve, d.watch, d.objects.ChangedBy
	return k
}

type fdb struct {
	Deps

	objects owned.Objects[*models.FDB, kernel.LinkRef]
	have    owned.Memory[kernel.NS, kernel.FDBPlace, held]
}

// held is what is believed of the entry at a place.
type held struct {
	key   scheduler.Key
	entry kernel.FDBEntry // empty: it is not there, or not ours
}

type (
	op    = scheduler.Op[*models.FDB, kernel.LinkRef]
	found = scheduler.Found[*models.FDB, kernel.LinkRef]
	scope = scheduler.Scope[*models.FDB, kernel.LinkRef]
)

func needs(_ scheduler.Key, v *models.FDB) []scheduler.Need {
	why := "the port of the bridge whose entry it is"
	if v.GetAddress() != "" {
		why = "the vxlan whose entry it is"
	}
	return []scheduler.Need{kind.OnInterface(v.GetInterface(), why)}
}

// claims: a vxlan has entries of its own besides those of the bridge of which it is a port.
// Which bridge that is, and so which ports share one, is known when the entry is made.
func claims(_ scheduler.Key, v *models.FDB) []scheduler.Claim {
	what := mac(v) + " at the port " + v.GetInterface()
	switch {
	case mac(v) == kernel.ZeroMAC:
		what = mac(v) + " to " + address(v).String() + " of the vxlan " + v.GetInterface()
	case v.GetAddress() != "":
		what = mac(v) + " of the vxlan " + v.GetInterface()
	case v.GetVlan() != 0:
		what += " in VLAN " + strconv.FormatUint(uint64(v.GetVlan()), 10)
	}
	return []scheduler.Claim{{ID: what, What: "the forwarding entry for " + what}}
}

// compare: nothing is changed in place. The ledger is the only proof, and between writing
// it and changing the entry it would be wrong.
func compare(_ scheduler.Key, from, to *models.FDB) scheduler.Verdict {
	var d kind.Differences
	d.Must(from.GetInterface() != to.GetInterface(), "interface", from.GetInterface(), to.GetInterface())
	d.Must(mac(from) != mac(to), "mac_address", mac(from), mac(to))
	d.Must(address(from) != address(to), "address", from.GetAddress(), to.GetAddress())
	d.Must(from.GetVlan() != to.GetVlan(), "vlan", from.GetVlan(), to.GetVlan())
	return d.Verdict()
}

// address is the address of a valid value; invalid if it has none.
func address(v *models.FDB) netip.Addr {
	a, _ := netip.ParseAddr(v.GetAddress())
	return a
}

// mac is the hardware address as the kernel spells it.
func mac(v *models.FDB) string { return strings.ToLower(v.GetMacAddress()) }
