package selector

import (
	"fmt"
	"strconv"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// Needs says what must be in place before anything can live in the namespace.
// The agent's own is always there.
func Needs(in *models.Namespace) []scheduler.Need {
	key, meant := scheduler.Key(in.Key()), in.GetInode()
	switch in := in.GetIn().(type) {
	case *models.Namespace_Microservice:
		n := scheduler.On(key, "a running container with the service label "+in.Microservice)
		n = scheduler.Tell(scheduler.If(n, microserviceUsable), func(v *models.Microservice, _ struct{}) string { return v.GetRefused() })
		return one(scheduler.Project(n, microserviceInode))
	case *models.Namespace_Container:
		n := scheduler.AnyOf(models.KindContainer+"/", "a running container with the id or name "+in.Container)
		n = scheduler.If(n, func(k scheduler.Key, v *models.Container, _ struct{}) bool {
			return isContainer(v, in.Container) && containerUsable(v)
		})
		return one(scheduler.Project(n, containerInode))
	case *models.Namespace_Netns:
		n := scheduler.On(key, "the network namespace "+in.Netns)
		return one(scheduler.Project(n, func(_ *models.NetNS, ns kernel.NS) string { return inode(uint64(ns)) }))
	case *models.Namespace_Pid:
		n := scheduler.On(key, "the process "+strconv.FormatUint(uint64(in.Pid), 10))
		return one(scheduler.Project(n, refInode))
	case *models.Namespace_Path:
		n := scheduler.On(key, "a network namespace at "+in.Path)
		if meant != 0 {
			n = scheduler.If(n, func(_ scheduler.Key, v *models.NamespaceRef, _ struct{}) bool { return v.GetInode() == meant })
			n = scheduler.Tell(n, func(v *models.NamespaceRef, _ struct{}) string {
				return fmt.Sprintf("%s is another now, not %s", inode(v.GetInode()), inode(meant))
			})
		}
		return one(scheduler.Project(n, refInode))
	case *models.Namespace_Pod:
		n := scheduler.On(key, "the pod "+in.Pod+", attached by a container runtime")
		return one(scheduler.Project(n, refInode))
	}
	return nil
}

func one(n scheduler.Need) []scheduler.Need { return []scheduler.Need{n} }

func microserviceUsable(_ scheduler.Key, v *models.Microservice, _ struct{}) bool {
	return v.GetRefused() == "" && v.GetNetns() != 0
}

func containerUsable(v *models.Container) bool { return v.GetRefused() == "" && v.GetNetns() != 0 }

// isContainer: the full id or the exact name. An id is never a name, since
// names are shorter.
func isContainer(v *models.Container, selector string) bool {
	return selector != "" && (v.GetContainerId() == selector || v.GetName() == selector)
}

func microserviceInode(v *models.Microservice, _ struct{}) string { return inode(v.GetNetns()) }
func containerInode(v *models.Container, _ struct{}) string       { return inode(v.GetNetns()) }
func refInode(v *models.NamespaceRef, _ struct{}) string          { return inode(v.GetInode()) }

func inode(n uint64) string { return "net:[" + strconv.FormatUint(n, 10) + "]" }
