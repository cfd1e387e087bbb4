package sysctl

import (
	"fmt"
	"sync"
	"time"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
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
	d := &sysctl{Deps: deps, have: map[scheduler.Key]held{}}
	k := kind.Of[*models.Sysctl, kernel.LinkRef](models.KindSysctl)
	k.Create, k.Update, k.Delete = d.create, d.update, d.delete
	k.Needs, k.Claims, k.Compare = needs, claims, compare
	k.Retrieve, k.Watch = d.retrieve, d.watch
	return k
}

type sysctl struct {
	Deps

	mu   sync.Mutex
	have map[scheduler.Key]held // what is believed, to find out what others do
}

// held is a setting as it was made or read.
type held struct {
	at    kernel.LinkRef
	value *models.Sysctl
}

type (
	found = scheduler.Found[*models.Sysctl, kernel.LinkRef]
	scope = scheduler.Scope[*models.Sysctl, kernel.LinkRef]
)

func (d *sysctl) note(k scheduler.Key, at kernel.LinkRef, v *models.Sysctl) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.have[k] = held{at, v}
}

func (d *sysctl) forget(k scheduler.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.have, k)
}

// needs: the interface, or the namespace.
func needs(_ scheduler.Key, v *models.Sysctl) []scheduler.Need {
	if v.GetInterface() == "" {
		return selector.Needs(v.GetNamespace())
	}
	return []scheduler.Need{kind.OnInterface(v.GetInterface(), "the interface that it is a setting of")}
}

// claims: one value per setting. That two selectors mean one namespace is not
// known here; see [sysctl.holder].
func claims(_ scheduler.Key, v *models.Sysctl) []scheduler.Claim {
	at, where := "in "+selector.Text(v.GetNamespace()), "in "+v.GetNamespace().Text()
	if v.GetInterface() != "" {
		at, where = "of "+v.GetInterface(), "of "+v.GetInterface()
	}
	return []scheduler.Claim{{ID: at + "|" + v.Path(), What: fmt.Sprintf("setting %s %s", v.GetKey(), where)}}
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
