package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

func newCNI(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "cni",
		Short: "Show what container runtimes have attached by plumb-cni",
		Long: `Cni shows the attachments of containers to networks: those that are there, those
that are being added with what they wait for, and the DELs that were left while
the agent was down and are not done yet.`,
		Example: `  agentctl cni
  agentctl cni -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out, err := c.agent().CNI(cmd.Context(), &apiv1.CNIRequest{})
			if err != nil {
				return err
			}
			return c.show(answer{
				json: apiv1.JSON(out),
				names: namesOf(out.Attachments, func(a *apiv1.Attachment) string {
					return a.Network + "/" + a.ContainerId + "/" + a.Ifname
				}),
				table: func(w io.Writer, wide bool) { c.writeCNI(w, wide, out) },
			})
		},
	}
}

func (c *cli) writeCNI(w io.Writer, wide bool, out *apiv1.CNIResponse) {
	var netns []string
	if wide {
		netns = []string{"NETNS"}
	}
	t := newTable(slices.Concat([]string{"NETWORK", "CONTAINER", "INTERFACE", "STATE", "ADDRESSES", "AGE"}, netns, []string{"REASON"})...)
	add := func(path, reason string, cells ...string) {
		if wide {
			cells = append(cells, orDash(path))
		}
		t.add(append(cells, reason)...)
	}
	for _, a := range out.Attachments {
		add(a.Netns, a.Reason, a.Network, containerName("", a.ContainerId, wide), a.Ifname, a.State,
			orDash(strings.Join(a.Addresses, ",")), age(c.now(), a.Since))
	}
	for _, l := range out.Queue {
		reason := "DEL that was left"
		switch {
		case l.Error != "":
			reason = l.File + " cannot be read: " + l.Error
		case l.Tries > 0:
			reason += fmt.Sprintf(", tried %s", plural(int(l.Tries), "time"))
		}
		add("", reason, orDash(l.Network), orDash(containerName("", l.ContainerId, wide)), orDash(l.Ifname), "queued", "-", orDash(age(c.now(), l.Since)))
	}
	if len(t.rows) > 0 {
		t.write(w, c.color)
	}
}
