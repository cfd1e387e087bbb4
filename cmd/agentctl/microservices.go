package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

func newMicroservices(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "microservices",
		Short: "Show the containers that serve a label",
		Long: `Microservices shows the running containers with a service label, what stands
against them, and the health of each container runtime.`,
		Example: `  agentctl microservices
  agentctl microservices -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out, err := c.agent().Microservices(cmd.Context(), &apiv1.MicroservicesRequest{})
			if err != nil {
				return err
			}
			c.runtimes(out.Runtimes, out.Unknown)
			return c.show(answer{
				json:  jsonList(out.Microservices),
				names: namesOf(out.Microservices, (*apiv1.Microservice).GetLabel),
				table: c.withRuntimes(func(w io.Writer, wide bool) {
					t := newTable("LABEL", "RUNTIME", "CONTAINER", "PID", "STARTED", "IMAGE", "NOTES")
					for _, m := range out.Microservices {
						notes := m.Conflicts
						if m.Refused != "" {
							notes = append([]string{"refused: " + m.Refused}, notes...)
						}
						t.add(m.Label, m.Runtime, containerName(m.Name, m.ContainerId, wide), fmt.Sprint(m.Pid),
							orDash(m.StartedAt), m.Image, strings.Join(notes, "; "))
					}
					if len(out.Microservices) > 0 {
						t.write(w, c.color)
					}
				}, out.Runtimes),
			})
		},
	}
}

// runtimes tells how the container runtimes are.
func (c *cli) runtimes(all []*apiv1.Health, unknown string) {
	for _, h := range all {
		if h.State != "ok" {
			c.tell("%s", strings.TrimSuffix(fmt.Sprintf("%s is %s: %s", h.Name, h.State, h.Reason), ": "))
		}
	}
	if unknown != "" {
		c.tell("there may be more: %s", unknown)
	}
}

// withRuntimes shows the health of the container runtimes below a table.
func (c *cli) withRuntimes(above func(io.Writer, bool), all []*apiv1.Health) func(io.Writer, bool) {
	return func(w io.Writer, wide bool) {
		above(w, wide)
		if len(all) == 0 {
			return
		}
		fmt.Fprintln(w)
		t := newTable("RUNTIME", "STATE", "VERSION", "CONTAINERS", "RUNNING", "IN ERROR", "LIST AGE", "REASON")
		for _, h := range all {
			d := func(name string) string { return orDash(h.Details[name]) }
			t.add(h.Name, h.State, d("version"), d("containers"), d("running"), d("in_error"), d("list_age"), h.Reason)
		}
		t.write(w, c.color)
	}
}

// containerName is the name and enough of the id to find it; wide has all.
func containerName(name, id string, wide bool) string {
	if !wide && len(id) > 12 {
		id = id[:12]
	}
	return strings.TrimPrefix(name+"/"+id, "/")
}
