package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

func newContainers(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "containers [ID]",
		Short: "Show the containers of all runtimes",
		Long: `Containers shows every container that the agent knows, whatever runtime runs it,
and the health of each runtime. ID is a full id, the beginning of one, or a name.`,
		Example: `  agentctl containers
  agentctl containers web -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage(cmd, "name one container")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			out, err := c.agent().Containers(cmd.Context(), &apiv1.ContainersRequest{Id: strings.Join(args, "")})
			if err != nil {
				return err
			}
			c.runtimes(out.Runtimes, out.Unknown)
			return c.show(c.containersAnswer(out.Containers))
		},
	}
}

func (c *cli) containersAnswer(all []*apiv1.Container) answer {
	return answer{
		json:  jsonList(all),
		names: namesOf(all, func(x *apiv1.Container) string { return x.Runtime + ":" + x.ContainerId }),
		table: func(w io.Writer, wide bool) {
			t := newTable("RUNTIME", "CONTAINER", "STATE", "PID", "MICROSERVICE", "ADDRESSES", "IMAGE", "NOTES")
			for _, x := range all {
				note := x.Reason
				if x.Refused != "" {
					note = "refused: " + x.Refused
				}
				if x.ExitCode != nil {
					note = strings.TrimSuffix(fmt.Sprintf("exit code %d, %s", *x.ExitCode, note), ", ")
				}
				pid := "-"
				if x.Pid != 0 {
					pid = fmt.Sprint(x.Pid)
				}
				t.add(x.Runtime, containerName(x.Name, x.ContainerId, wide), x.State, pid,
					orDash(x.Microservice), orDash(strings.Join(x.Addresses, ",")), orDash(x.Image), note)
			}
			if len(all) > 0 {
				t.write(w, c.color)
			}
		},
	}
}
