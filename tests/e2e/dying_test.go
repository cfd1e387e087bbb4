package e2e

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/tests/e2e/host"
)

// TestMacvlanOfADyingNamespace: a process keeps a namespace that has lost its name, and a macvlan with the MAC
// of ours in it. Ours is created in the new namespace with another MAC, without an error.
func TestMacvlanOfADyingNamespace(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{NoEngine: true})
	h.Mount("blue")
	h.Start()
	h.Put("interface/br", `{"bridge":{}}`)
	h.Put("interface/mv", `{"namespace":{"netns":"blue"},"macvlan":{"parent":"br"}}`)
	h.AwaitConfigured("interface/mv")
	keeper := exec.Command("nsenter", "--net="+filepath.Join(h.NetnsDir(), "blue"), "sleep", "1000")
	if err := keeper.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = keeper.Process.Kill(); _ = keeper.Wait() }()
	h.Eventually("the process is in the namespace", func() error {
		return exec.Command("nsenter", "--net=/proc/"+strconv.Itoa(keeper.Process.Pid)+"/ns/net", "ip", "link", "show", "mv").Run()
	})
	h.Unmount("blue")
	h.AwaitSettled()
	h.Mount("blue")
	h.AwaitConfigured("interface/mv")
	if out := h.MustCtl("history", "-o", "json"); strings.Contains(out, "in use") {
		t.Error(out)
	}
}
