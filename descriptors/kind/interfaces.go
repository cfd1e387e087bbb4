package kind

import (
	"fmt"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// Interfaces is what is in place of the interfaces; [scheduler.Kind] is one.
type Interfaces interface {
	Get(k scheduler.Key) (*models.Interface, kernel.LinkRef, bool)
}

// WantedInterfaces tells also which interfaces should be in place.
type WantedInterfaces interface {
	Interfaces
	Wanted(k scheduler.Key) (*models.Interface, bool)
}

// OnInterface needs an interface; the value is built with its link.
func OnInterface(name, why string) scheduler.Need {
	return scheduler.Project(scheduler.On(interfaceKey(name), why),
		func(_ *models.Interface, ref kernel.LinkRef) string { return ref.String() })
}

// OnNamedInterface needs an interface; the value is built with its link and the name of that in the
// kernel.
func OnNamedInterface(name, why string) scheduler.Need {
	k := interfaceKey(name)
	return scheduler.Project(scheduler.On(k, why), func(v *models.Interface, ref kernel.LinkRef) string {
		return ref.String() + " " + v.EffectiveHostName(string(k))
	})
}

// LinkOf is where the link of an interface is that is in place.
func LinkOf(all Interfaces, name string) (kernel.LinkRef, error) {
	_, ref, ok := all.Get(interfaceKey(name))
	if !ok {
		return ref, fmt.Errorf("%s is not there any more", interfaceKey(name))
	}
	return ref, nil
}

// LinkOfStatus is where the link of an interface is by a status of it; false of what is not
// in place.
func LinkOfStatus(st scheduler.Status) (ref kernel.LinkRef, ok bool) {
	ref, ok = st.Meta.(kernel.LinkRef)
	return ref, ok
}

func interfaceKey(name string) scheduler.Key { return scheduler.Key(models.InterfaceKey(name)) }

// InterfaceOf is the interface that the ledger keeps, as it was made; nil if it cannot be
// read.
func InterfaceOf(e kernel.Entry) *models.Interface {
	msg, err := models.DecodeKind(models.KindInterface, e.Value)
	if err != nil {
		return nil
	}
	v, _ := msg.(*models.Interface)
	return v
}

// Nexthops tells what is in place of the nexthops.
type Nexthops func(k scheduler.Key) (*models.Nexthop, kernel.LinkRef, bool)
