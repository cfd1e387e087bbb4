package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

func newCNI(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cni",
		Short: "Show what container runtimes have attached by plumb-cni",
		Long: `Cni shows the attachments of containers to networks: those that are there, those
that are being added with what they wait for, and the DELs that were left while
the agent was down and are not done yet.

An attachment whose record was lost is forgotten: it stays as it is until a DEL
comes, its container ends, or you say what is to become of it.`,
		Example: `  agentctl cni
  agentctl cni -o json
  agentctl cni adopt 4c01db0b339c
  agentctl cni forget blue/7a9ae503637bb214/eth0`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out, err := c.agent().CNI(cmd.Context(), &apiv1.CNIRequest{})
			if err != nil {
				return err
			}
			return c.show(answer{
				json:  jsonObject(out),
				names: namesOf(out.Attachments, attachmentID),
				table: func(w io.Writer, wide bool) { c.writeCNI(w, wide, out) },
			})
		},
	}
	cmd.AddCommand(newCNIAdopt(c), newCNIForget(c))
	return cmd
}

func newCNIAdopt(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "adopt ID",
		Short: "Make a record again of an attachment that has none",
		Long: `Adopt makes a record again of an attachment that is forgotten, so that CHECK, DEL and
the next start of the agent know it. Its configuration is told from another
attachment of its network, or from what is there; nothing is changed that the
container would notice. ID is the container's id, or NETWORK/CONTAINER/INTERFACE.`,
		Example: `  agentctl cni adopt 4c01db0b339c`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			out, err := c.agent().AdoptAttachment(cmd.Context(), &apiv1.AttachmentRequest{Id: args[0]})
			if err != nil {
				return err
			}
			return c.showAttachment(out, "adopted")
		},
	}
}

func newCNIForget(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "forget ID",
		Short: "Remove an attachment that has no record",
		Long: `Forget removes an attachment that is forgotten, and frees its addresses. A container
that is still there loses the interface. ID is the container's id, the digest that
is shown in its place, or NETWORK/CONTAINER/INTERFACE.`,
		Example: `  agentctl cni forget 7a9ae503637bb214`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			out, err := c.agent().ForgetAttachment(cmd.Context(), &apiv1.AttachmentRequest{Id: args[0]})
			if err != nil {
				return err
			}
			return c.showAttachment(out, "removed")
		},
	}
}

func (c *cli) showAttachment(out *apiv1.AttachmentResponse, done string) error {
	id := attachmentID(out.Attachment)
	return c.show(answer{
		json:  jsonObject(out),
		names: []string{id},
		table: func(io.Writer, bool) {
			if c.tell("%s %s", done, id); out.Left != "" {
				c.tell("still being removed: %s", out.Left)
			}
		},
	})
}

func attachmentID(a *apiv1.Attachment) string {
	return a.Network + "/" + cmp.Or(a.ContainerId, a.Digest) + "/" + cmp.Or(a.Ifname, "?")
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
		add(a.Netns, a.Reason, a.Network, containerName("", cmp.Or(a.ContainerId, a.Digest), wide), orDash(a.Ifname), a.State,
			orDash(strings.Join(a.Addresses, ",")), orDash(age(c.now(), a.Since)))
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
