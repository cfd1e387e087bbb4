package e2e

import (
	"fmt"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/tests/e2e/host"
)

// TestSpanningTree: on a bridge with stp a container that sends BPDUs of a better bridge becomes the
// root. With root_block or bpdu_guard at its port it does not.
func TestSpanningTree(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true, NoEngine: true})
	h.Start()
	evil := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	bpdu := append(ether8023(net.HardwareAddr{1, 0x80, 0xc2, 0, 0, 0}, evil, []byte{
		0x42, 0x42, 3, // LLC
		0, 0, 0, 0, // protocol, version, type: configuration
		0,                      // flags
		0, 0, 2, 0, 0, 0, 0, 1, // the root, with the best priority
		0, 0, 0, 0, // its distance
		0, 0, 2, 0, 0, 0, 0, 1, // the bridge that sends
		0x80, 1, // its port
		0, 0, 20, 0, 2, 0, 15, 0, // ages, in 1/256 s
	}), make([]byte, 8)...)
	for i, c := range []struct {
		option string
		root   bool // the container becomes it
	}{{"", true}, {`"root_block": true`, false}, {`"bpdu_guard": true`, false}} {
		name := fmt.Sprint("c", i)
		ns := h.Mount(name)
		h.Put("interface/br"+name, fmt.Sprintf(`{"host_name":"br%s","bridge":{"stp":true}}`, name))
		h.Put("interface/in"+name, fmt.Sprintf(`{"host_name":"eth0","namespace":{"netns":"%s"},"veth":{"peer":"out%s"}}`, name, name))
		h.Put("interface/out"+name, fmt.Sprintf(`{"host_name":"out%s","master":"br%s","veth":{"peer":"in%s"},"bridge_port":{%s}}`, name, name, name, c.option))
		h.AwaitConfigured("interface/br"+name, "interface/in"+name, "interface/out"+name)
		out := packets(t, ns, "eth0")
		isRoot := func() bool { // a bridge has a port to the root, unless it is the root itself
			data := h.Own.JSON(t, "-d link show dev br"+name)[0]["linkinfo"].(map[string]any)["info_data"].(map[string]any)
			return data["root_port"].(float64) != 0
		}
		for range 20 {
			if _, err := unix.Write(out, bpdu); err != nil {
				t.Fatal(err)
			}
			if isRoot() {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		if isRoot() != c.root {
			t.Errorf("with %q: the container is the root: %v, want %v", c.option, isRoot(), c.root)
		}
	}
}
