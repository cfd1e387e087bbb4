package neighbor

import (
	"net/netip"
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
func New(deps Deps) scheduler.Descriptor[*models.Neighbor, kernel.LinkRef] {
	d := &neighbor{Deps: deps}
	d.objects = owned.Objects[*models.Neighbor, kernel.LinkRef]{
		Kind: models.KindNeighbor, Kernel: deps.Kernel, Owner: deps.Owner, Prepare: d.prepare, Standing: d.standing, Forget: d.forgetEntry}
	k := d.objects.Descriptor()
	k.CreateBatch, k.Update, k.Delete = d.objects.CreateBatch, d.objects.Update, d.delete
	k.Needs, k.Claims, k.Compare = needs, claims, compare
	k.Retrieve, k.Watch, k.ChangedBy = d.retrieve, d.watch, d.objects.ChangedBy
	return k
}

type neighbor struct {
	Deps

	objects owned.Objects[*models.Neighbor, kernel.LinkRef]
	have    owned.Memory[kernel.NS, spot, held]
}

// spot is what the kernel knows a neighbor by within a namespace.
type spot struct {
	index   int
	address netip.Addr
}

// held is what is believed of the neighbor at a spot.
type held struct {
	key scheduler.Key
	mac string // "": it is not there, or not ours
}

type (
	op    = scheduler.Op[*models.Neighbor, kernel.LinkRef]
	found = scheduler.Found[*models.Neighbor, kernel.LinkRef]
	scope = scheduler.Scope[*models.Neighbor, kernel.LinkRef]
)

func needs(_ scheduler.Key, v *models.Neighbor) []scheduler.Need {
	return []scheduler.Need{kind.OnInterface(v.GetInterface(), "the interface on whose network the neighbor is")}
}

func claims(_ scheduler.Key, v *models.Neighbor) []scheduler.Claim {
	what := address(v).String() + " on " + v.GetInterface()
	return []scheduler.Claim{{ID: what, What: "neighbor " + what}}
}

// compare: another link or address is another neighbor.
func compare(_ scheduler.Key, from, to *models.Neighbor) scheduler.Verdict {
	var d kind.Differences
	d.Must(from.GetInterface() != to.GetInterface(), "interface", from.GetInterface(), to.GetInterface())
	d.Must(address(from) != address(to), "address", address(from), address(to))
	d.May(from.GetAdopt() && !to.GetAdopt(), "adopt", true, false)
	d.May(mac(from) != mac(to), "mac_address", mac(from), mac(to))
	return d.Verdict()
}

// address is the address of a valid value.
func address(v *models.Neighbor) netip.Addr {
	a, _ := netip.ParseAddr(v.GetAddress())
	return a
}

// mac is the hardware address as the kernel spells it.
func mac(v *models.Neighbor) string { return strings.ToLower(v.GetMacAddress()) }
