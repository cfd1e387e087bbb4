package host

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// CNICall is one call of plumb-cni, as a runtime makes it.
type CNICall struct {
	Command, Container, IfName, Netns string
	// Config is the configuration of the network, without the socket.
	Config string
	// Env are further variables, as NAME=value.
	Env []string
}

// CNI calls plumb-cni within the namespace of the host.
func (h *Host) CNI(c CNICall) Result {
	h.t.Helper()
	config := strings.Replace(c.Config, "{", fmt.Sprintf(`{"socket":%q,`, h.RunDir()+"/cni.sock"), 1)
	ctx, cancel := context.WithTimeout(context.Background(), 2*Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nsenter", "--net="+h.Own.Path, "--", tool(h.t, "plumb-cni"))
	cmd.Env = append([]string{"CNI_COMMAND=" + c.Command, "CNI_CONTAINERID=" + c.Container, "CNI_NETNS=" + c.Netns,
		"CNI_IFNAME=" + c.IfName, "CNI_PATH=" + binDir()}, c.Env...)
	return h.run(cmd, config)
}
