package selector

import (
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// microservice is by the service label of a container.
type microservice string

func (w microservice) need(k scheduler.Key) scheduler.Need {
	n := scheduler.On(k, "a running container with the service label "+string(w))
	n = scheduler.If(n, func(_ scheduler.Key, v *models.Microservice, _ struct{}) bool { return usable(v) })
	n = scheduler.Tell(n, func(v *models.Microservice, _ struct{}) string { return v.GetRefused() })
	return scheduler.Project(n, func(v *models.Microservice, _ struct{}) string { return inode(v.GetNetns()) })
}

func (w microservice) find(v Views, k scheduler.Key) (uint64, string, bool) {
	c, _, ok := get(v.Microservices, k)
	return c.GetNetns(), processPath(c.GetPid()), ok && usable(c)
}

func (w microservice) doubt(r *Resolver) error {
	if r.views.Source == nil {
		return nil
	}
	all, err := r.views.Source.Microservices()
	if c, sure := all[string(w)]; sure {
		return unread(c != nil && usable(c))
	}
	return err
}

// container is by the full id or the exact name of a container. An id is never a
// name, since names are shorter.
type container string

func (w container) is(c *models.Container) bool {
	return w != "" && (c.GetContainerId() == string(w) || c.GetName() == string(w))
}

func (w container) need(scheduler.Key) scheduler.Need {
	n := scheduler.AnyOf(models.KindContainer+"/", "a running container with the id or name "+string(w))
	n = scheduler.If(n, func(_ scheduler.Key, c *models.Container, _ struct{}) bool { return w.is(c) && usable(c) })
	return scheduler.Project(n, func(c *models.Container, _ struct{}) string { return inode(c.GetNetns()) })
}

// find: a full id finds it at once; a name is looked for among all. Of several the
// smallest key is taken.
func (w container) find(v Views, _ scheduler.Key) (uint64, string, bool) {
	best, _, ok := get(v.Containers, scheduler.Key(models.ContainerKey("docker", string(w))))
	if ok = ok && usable(best); !ok && v.Containers != nil {
		var bestKey scheduler.Key
		for k, o := range v.Containers.All() {
			if w.is(o.Value) && usable(o.Value) && (!ok || k < bestKey) {
				best, bestKey, ok = o.Value, k, true
			}
		}
	}
	return best.GetNetns(), processPath(best.GetPid()), ok
}

func (w container) doubt(r *Resolver) error {
	if r.views.Source == nil {
		return nil
	}
	all, err := r.views.Source.Containers()
	for _, c := range all {
		if c != nil && w.is(c) {
			return unread(usable(c))
		}
	}
	return err
}

// usable reports whether there is a namespace that values may use.
func usable(c interface {
	GetRefused() string
	GetNetns() uint64
}) bool {
	return c.GetRefused() == "" && c.GetNetns() != 0
}
