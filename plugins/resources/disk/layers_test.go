package disk_test

import (
	"testing"

	"github.com/plumb-net/plumb/plugins/containerd/containerdtest"
	"github.com/plumb-net/plumb/plugins/resources/disk"
)

// TestLayerOfContainerd: what a container of containerd writes is found as well, without
// asking the engine.
func TestLayerOfContainerd(t *testing.T) {
	e := containerdtest.Start(t)
	const namespace = "shop"
	e.Import(namespace)
	e.Run(namespace, "web")
	e.Ctr(namespace, "tasks", "exec", "--exec-id", "write", "web", "sh", "-c", "dd if=/dev/zero of=/file bs=1M count=3")
	dir, err := disk.LayerOf(e.Pid(namespace, "web"))
	if err != nil {
		t.Fatal(err)
	}
	if u, err := disk.Walk(t.Context(), dir); err != nil || u.Used < 3<<20 || u.Used > 4<<20 || u.InodesUsed < 2 {
		t.Errorf("%s: it wrote %+v, %v", dir, u, err)
	}
}
