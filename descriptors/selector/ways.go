package selector

import (
	"strconv"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// way is one way to name a namespace, and all that is particular to it.
type way interface {
	// need is what must be in place, with the inode as projection.
	need(k scheduler.Key) scheduler.Need
	// find returns the inode that was observed and the path that leads to it.
	find(v Views, k scheduler.Key) (inode uint64, path string, ok bool)
	// doubt tells why a namespace that is not in place in the scheduler may be
	// there all the same; nil: it is surely gone.
	doubt(r *Resolver) error
}

// wayOf is nil for the agent's own namespace, which needs nothing.
func wayOf(in *models.Namespace) way {
	switch by := in.GetIn().(type) {
	case nil:
		return nil
	case *models.Namespace_Microservice:
		return microservice(by.Microservice)
	case *models.Namespace_Container:
		return container(by.Container)
	case *models.Namespace_Netns:
		return named(by.Netns)
	}
	return file{in}
}

// Needs says what must be in place before anything can live in the namespace.
// The agent's own is always there.
func Needs(in *models.Namespace) []scheduler.Need {
	w := wayOf(in)
	if w == nil {
		return nil
	}
	return []scheduler.Need{w.need(scheduler.Key(in.Key()))}
}

// inode is a projection: with another namespace what is in it is built anew.
func inode(n uint64) string { return "net:[" + strconv.FormatUint(n, 10) + "]" }

// named is by a name in the directory of named namespaces.
type named string

func (w named) need(k scheduler.Key) scheduler.Need {
	n := scheduler.On(k, "the network namespace "+string(w))
	n = scheduler.If(n, func(_ scheduler.Key, _ *models.NetNS, ns kernel.NS) bool { return ns != Refused })
	n = scheduler.Tell(n, func(_ *models.NetNS, ns kernel.NS) string {
		if ns == Refused {
			return RefusedText
		}
		return ""
	})
	return scheduler.Project(n, func(_ *models.NetNS, ns kernel.NS) string { return inode(uint64(ns)) })
}

func (w named) find(v Views, k scheduler.Key) (uint64, string, bool) {
	_, ns, ok := get(v.NetNS, k)
	return uint64(ns), v.NamedDir + "/" + string(w), ok && ns != 0 && ns != Refused
}

func (w named) doubt(r *Resolver) error {
	ns, err := r.open(r.views.NamedDir + "/" + string(w))
	if ns != 0 && r.refused(&models.Namespace{In: &models.Namespace_Netns{Netns: string(w)}}, ns) {
		return nil
	}
	return err
}
