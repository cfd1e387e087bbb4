package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

func newContainers(c *cli) *cobra.Command {
	var stats bool
	cmd := &cobra.Command{
		Use:   "containers [ID]",
		Short: "Show the containers of all runtimes",
		Long: `Containers shows every container that the agent knows, whatever runtime runs it,
and the health of each runtime. ID is a full id, the beginning of one, or a name;
of the only one that it names a table shows all that is known.

With --stats it shows what this one uses and may use, how that was over the last minute,
hour and day, and the cgroups in it one by one; with -o json also the last samples. ID can
then be the path of another cgroup, as /system.slice, or / for the machine. See "containers
top" for all.`,
		Example: `  agentctl containers
  agentctl containers web -o json
  agentctl containers web --stats
  agentctl containers /system.slice --stats`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 || stats && len(args) == 0 {
				return usage(cmd, "name one container")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if stats {
				return c.containerStats(cmd.Context(), args[0])
			}
			out, err := c.agent().Containers(cmd.Context(), &apiv1.ContainersRequest{Id: strings.Join(args, "")})
			if err != nil {
				return err
			}
			c.runtimes(out.Runtimes, out.Unknown)
			a := c.containersAnswer(out.Containers)
			if len(args) == 0 {
				a.table = c.withRuntimes(a.table, out.Runtimes)
			} else if len(out.Containers) == 1 {
				a.table = func(w io.Writer, _ bool) { writeContainer(w, out.Containers[0]) }
			}
			return c.show(a)
		},
	}
	cmd.Flags().BoolVar(&stats, "stats", false, "show what the container uses")
	cmd.AddCommand(newContainersTop(c))
	return cmd
}

func (c *cli) containersAnswer(all []*apiv1.Container) answer {
	return answer{
		json:  jsonList(all),
		names: namesOf(all, func(x *apiv1.Container) string { return x.Runtime + ":" + x.ContainerId }),
		table: func(w io.Writer, wide bool) {
			t := newTable("RUNTIME", "CONTAINER", "STATE", "PID", "MICROSERVICE", "ADDRESSES", "IMAGE", "NOTES")
			for _, x := range all {
				pid := "-"
				if x.Pid != 0 {
					pid = fmt.Sprint(x.Pid)
				}
				t.add(x.Runtime, containerName(x.Name, x.ContainerId, wide), x.State, pid,
					orDash(x.Microservice), orDash(strings.Join(x.Addresses, ",")), orDash(x.Image), strings.Join(containerNotes(x), ", "))
			}
			if len(all) > 0 {
				t.write(w, c.color)
			}
		},
	}
}

// containerNotes are what is worth knowing of a container beside the usual.
func containerNotes(x *apiv1.Container) (notes []string) {
	switch {
	case x.ExitCode == nil:
	case *x.ExitCode < 0:
		notes = append(notes, "exit code unknown")
	default:
		notes = append(notes, fmt.Sprintf("exit code %d", *x.ExitCode))
	}
	if x.Refused != "" {
		notes = append(notes, "refused: "+x.Refused)
	} else if x.Reason != "" {
		notes = append(notes, x.Reason)
	}
	if x.LabelRefused != "" {
		notes = append(notes, x.LabelRefused)
	}
	if x.Error != "" {
		notes = append(notes, "cannot be inspected: "+x.Error)
	}
	return notes
}

// writeContainer shows all that is known of a container.
func writeContainer(w io.Writer, x *apiv1.Container) {
	t := newTable("container", x.Runtime+":"+x.ContainerId)
	add := func(name, value string) {
		if value != "" && value != "0" {
			t.add(name, value)
		}
	}
	add("name", x.Name)
	add("image", x.Image)
	add("state", x.State)
	add("notes", strings.Join(containerNotes(x), ", "))
	add("microservice", x.Microservice)
	add("pid", fmt.Sprint(x.Pid))
	add("netns", fmt.Sprint(x.Netns))
	add("created", x.CreatedAt)
	add("started", x.StartedAt)
	add("finished", x.FinishedAt)
	add("addresses", strings.Join(x.Addresses, ", "))
	add("had", strings.Join(x.LastAddresses, ", "))
	add("network of", x.NetworkOwner)
	add("shared by", strings.Join(x.NetworkMembers, ", "))
	for i, name := range slices.Sorted(maps.Keys(x.Labels)) {
		head := ""
		if i == 0 {
			head = "labels"
		}
		t.add(head, name+"="+x.Labels[name])
	}
	t.write(w, false)
}
