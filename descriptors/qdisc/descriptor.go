package qdisc

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

// New makes the kind. What an operation remembers is the link.
func New(deps Deps) scheduler.Descriptor[*models.Qdisc, kernel.LinkRef] {
	d := &qdisc{Deps: deps}
	d.objects = owned.Objects[*models.Qdisc, kernel.LinkRef]{
		Kind: models.KindQdisc, Kernel: deps.Kernel, Owner: deps.Owner, Prepare: d.prepare, Standing: d.standing, Forget: d.forget}
	k := d.objects.Descriptor()
	k.CreateBatch, k.Update, k.Delete = d.objects.CreateBatch, d.objects.Update, d.delete
	k.Needs, k.Claims, k.Compare = needs, claims, compare
	k.Retrieve, k.Watch, k.ChangedBy = d.retrieve, d.watch, d.objects.ChangedBy
	return k
}

type qdisc struct {
	Deps

	objects owned.Objects[*models.Qdisc, kernel.LinkRef]
	have    owned.Memory[kernel.NS, int, held]
}

// held is what is believed of the root of a link.
type held struct {
	key   scheduler.Key
	qdisc kernel.Qdisc
	there bool // as it says; else it is not there, not ours, or to be read
}

type (
	op    = scheduler.Op[*models.Qdisc, kernel.LinkRef]
	found = scheduler.Found[*models.Qdisc, kernel.LinkRef]
	scope = scheduler.Scope[*models.Qdisc, kernel.LinkRef]
)

func needs(_ scheduler.Key, v *models.Qdisc) []scheduler.Need {
	return []scheduler.Need{kind.OnInterface(v.GetInterface(), "the interface at whose root it is")}
}

func claims(_ scheduler.Key, v *models.Qdisc) []scheduler.Claim {
	return []scheduler.Claim{{ID: v.GetInterface(), What: "the queueing discipline of interface " + v.GetInterface()}}
}

// compare: another type is another discipline.
func compare(_ scheduler.Key, from, to *models.Qdisc) scheduler.Verdict {
	var d kind.Differences
	d.Must(from.GetInterface() != to.GetInterface(), "interface", from.GetInterface(), to.GetInterface())
	d.Must(from.Type() != to.Type(), "discipline", typeOf(from), typeOf(to))
	d.May(from.GetAdopt() && !to.GetAdopt(), "adopt", true, false)
	may := func(field string, was, is any) { d.May(was != is, field, was, is) }
	switch {
	case from.Type() != to.Type():
	case to.GetTbf() != nil:
		a, b := from.GetTbf(), to.GetTbf()
		may("tbf.rate", a.GetRate(), b.GetRate())
		may("tbf.burst", a.EffectiveBurst(), b.EffectiveBurst())
		if a.GetLimit()|b.GetLimit() == 0 {
			may("tbf.latency", a.EffectiveLatency(), b.EffectiveLatency())
		} else {
			may("tbf.limit", a.EffectiveLimit(), b.EffectiveLimit())
		}
	case to.GetNetem() != nil:
		a, b := from.GetNetem(), to.GetNetem()
		may("netem.delay", a.GetDelay(), b.GetDelay())
		may("netem.jitter", a.GetJitter(), b.GetJitter())
		may("netem.loss", a.GetLoss(), b.GetLoss())
		may("netem.duplicate", a.GetDuplicate(), b.GetDuplicate())
		may("netem.corrupt", a.GetCorrupt(), b.GetCorrupt())
		may("netem.reorder", a.GetReorder(), b.GetReorder())
		may("netem.rate", a.GetRate(), b.GetRate())
		may("netem.limit", a.EffectiveLimit(), b.EffectiveLimit())
	}
	return d.Verdict()
}

// typeOf names the type of a value; one that was read may say what none can.
func typeOf(v *models.Qdisc) string {
	if t := v.Type(); t != "" {
		return t
	}
	return "one that says more"
}
