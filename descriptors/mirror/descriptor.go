package mirror

import (
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

// New makes the kind. What an operation remembers is the link whose packets are copied.
func New(deps Deps) scheduler.Descriptor[*models.Mirror, kernel.LinkRef] {
	d := &mirror{Deps: deps}
	d.objects = owned.Objects[*models.Mirror, kernel.LinkRef]{
		Kind: models.KindMirror, Kernel: deps.Kernel, Owner: deps.Owner, Prepare: d.prepare, Forget: d.forget}
	k := d.objects.Descriptor()
	k.CreateBatch, k.Update, k.Delete = d.objects.CreateBatch, d.objects.Update, d.delete
	k.Needs, k.Compare = needs, compare
	k.Retrieve, k.Watch, k.ChangedBy = d.retrieve, d.watch, d.objects.ChangedBy
	return k
}

type mirror struct {
	Deps

	objects owned.Objects[*models.Mirror, kernel.LinkRef]
	have    owned.Memory[kernel.NS, scheduler.Key, held]
}

// held is what is believed of the filters of a key.
type held struct {
	key   scheduler.Key
	index int
	mark  string
	to    map[bool]int // where copies go, of what leaves and of what comes in; nil: not known
}

type (
	op    = scheduler.Op[*models.Mirror, kernel.LinkRef]
	found = scheduler.Found[*models.Mirror, kernel.LinkRef]
	scope = scheduler.Scope[*models.Mirror, kernel.LinkRef]
)

// directions are those at which filters hook: ingress and egress.
var directions = []bool{false, true}

func needs(_ scheduler.Key, v *models.Mirror) []scheduler.Need {
	return []scheduler.Need{
		kind.OnInterface(v.GetInterface(), "the interface whose packets are copied"),
		kind.OnInterface(v.GetTo(), "the interface by which the copies leave"),
	}
}

func compare(_ scheduler.Key, from, to *models.Mirror) scheduler.Verdict {
	var d kind.Differences
	d.Must(from.GetInterface() != to.GetInterface(), "interface", from.GetInterface(), to.GetInterface())
	d.May(from.GetTo() != to.GetTo(), "to", from.GetTo(), to.GetTo())
	d.May(from.EffectiveDirection() != to.EffectiveDirection(), "direction", from.EffectiveDirection(), to.EffectiveDirection())
	return d.Verdict()
}
