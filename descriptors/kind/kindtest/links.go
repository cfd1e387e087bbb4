package kindtest

import (
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// Links stand for interfaces that are in place.
type Links map[scheduler.Key]kernel.LinkRef

// Get is as the scheduler tells of a kind.
func (l Links) Get(k scheduler.Key) (*models.Interface, kernel.LinkRef, bool) {
	ref, ok := l[k]
	return &models.Interface{}, ref, ok
}

// AddLinks makes links, which are up, in the own namespace of a kernel, and has them known.
func AddLinks(t testing.TB, k kernel.Kernel, known *kernel.Names, names ...string) Links {
	t.Helper()
	links := Links{}
	for _, name := range names {
		l, err := k.AddLink(k.Own(), kernel.LinkSpec{Name: name, Bridge: &kernel.BridgeSpec{}, Up: true})
		if err != nil {
			t.Fatal(err)
		}
		links[scheduler.Key(models.InterfaceKey(name))] = l.Ref()
		known.Put(l.Ref(), name)
	}
	return links
}
