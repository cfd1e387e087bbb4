package sysctl

import (
	"fmt"
	"time"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

const prefix = models.KindSysctl + "/"

// Deps are what the kind works with.
type Deps struct {
	Kernel kernel.Kernel
	Owner  *kernel.Owner
	Places selector.Places
	// Interfaces is what the scheduler knows of the interfaces.
	Interfaces kind.Interfaces
	// Poll gives the moments at which the settings are read. Default: every ten
	// seconds while Watch runs.
	Poll <-chan time.Time
}

// New makes the kind. What an operation remembers is the namespace, and the link
// of a setting of an interface.
func New(deps Deps) scheduler.Descriptor[*models.Sysctl, kernel.LinkRef] {
	d := &sysctl{Deps: deps}
	d.objects = owned.Objects[*models.Sysctl, kernel.LinkRef]{
		Kind: models.KindSysctl, Kernel: deps.Kernel, Owner: deps.Owner, Prepare: d.prepare, Forget: d.forget}
	k := d.objects.Descriptor()
	k.CreateBatch = d.createBatch
	k.Update, k.Delete = d.objects.Update, d.delete // what was there before us stays in the ledger
	k.Needs, k.Claims, k.Compare = needs, claims, compare
	k.Retrieve, k.Watch = d.retrieve, d.watch
	k.Lane = func(_ scheduler.Key, v *models.Sysctl) string { return lane(v.Path()) }
	return k
}

type sysctl struct {
	Deps

	objects owned.Objects[*models.Sysctl, kernel.LinkRef]
	have    owned.Memory[kernel.NS, scheduler.Key, held] // to find out what others do
}

// held is a setting as it was made or read.
type held struct {
	key   scheduler.Key
	at    kernel.LinkRef
	value *models.Sysctl
}

type (
	op    = scheduler.Op[*models.Sysctl, kernel.LinkRef]
	found = scheduler.Found[*models.Sysctl, kernel.LinkRef]
	scope = scheduler.Scope[*models.Sysctl, kernel.LinkRef]
)

func (d *sysctl) note(k scheduler.Key, at kernel.LinkRef, v *models.Sysctl) {
	d.have.Note(at.NS, k, held{k, at, v})
}

func (d *sysctl) forget(e kernel.Entry) { d.have.Forget(e.NS, scheduler.Key(e.ID)) }

// needs: the interface, or the namespace.
func needs(_ scheduler.Key, v *models.Sysctl) []scheduler.Need {
	if v.GetInterface() == "" {
		return selector.Needs(v.GetNamespace())
	}
	return []scheduler.Need{kind.OnInterface(v.GetInterface(), "the interface that it is a setting of")}
}

// claims: one value per setting. That two selectors mean one namespace, or that a place is
// that of a link, is not known here; see [sysctl.holder].
func claims(_ scheduler.Key, v *models.Sysctl) []scheduler.Claim {
	at, where := "in "+selector.Text(v.GetNamespace()), "in "+v.GetNamespace().Text()
	if v.GetInterface() != "" {
		at, where = "of "+v.GetInterface(), "of "+v.GetInterface()
	}
	return []scheduler.Claim{{ID: at + "|" + kernel.SettingName(v.Path()), What: fmt.Sprintf("setting %s %s", v.GetKey(), where)}}
}

// compare: another place is another setting.
func compare(_ scheduler.Key, from, to *models.Sysctl) scheduler.Verdict {
	switch {
	case from.Path() != to.Path():
		return scheduler.Verdict{Change: scheduler.Replace, Reason: fmt.Sprintf("key %s → %s", from.GetKey(), to.GetKey())}
	case from.GetInterface() != to.GetInterface():
		return scheduler.Verdict{Change: scheduler.Replace, Reason: fmt.Sprintf("interface %s → %s", from.GetInterface(), to.GetInterface())}
	case selector.Text(from.GetNamespace()) != selector.Text(to.GetNamespace()):
		return scheduler.Verdict{Change: scheduler.Replace, Reason: fmt.Sprintf("namespace %s → %s", from.GetNamespace().Text(), to.GetNamespace().Text())}
	case from.EffectiveValue() != to.EffectiveValue():
		return scheduler.Verdict{Change: scheduler.InPlace, Reason: fmt.Sprintf("value %s → %s", from.EffectiveValue(), to.EffectiveValue())}
	}
	return scheduler.Verdict{}
}
