package cri

import (
	"fmt"

	"github.com/plumb-net/plumb/plugins/container"
)

// text is a container in one line.
func text(c container.Container) string {
	return fmt.Sprint(c.Name, " ", c.State, " ", c.Pid, " exit ", c.ExitCode, " ", c.Reason, " joins ", c.Joins, " ", c.Env, " ", c.Addresses)
}
