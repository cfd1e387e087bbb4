package main

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

// maxLeftOut is how much of what is left out is listed.
const maxLeftOut = 50

func newAdopt(c *cli) *cobra.Command {
	var write, chunked, allNamespaces bool
	var w waiting
	cmd := formats("json yaml name", &cobra.Command{
		Use:   "adopt [KIND|KEY-PREFIX]…",
		Short: "Print what others made as intent that equals it, or take it over",
		Long: `Adopt reads the agent's namespace and those with a name, and prints an intent file that
equals what is there and not in the intent yet: links with their addresses, routes, rules,
permanent neighbors and queueing disciplines that people or their scripts made. A kind selects
what is in the agent's namespace; with --all-namespaces also what is in those with a name. What
a kind or prefix selects comes with the interfaces that it names. With --write this is written to the store as one
transaction, as apply would; of more than that takes --chunked makes several.

Nothing is written to the kernel when it is taken over, and no mark is set: values say adopt,
by which the agent takes what is there only if it is as the value says. From then on it is
repaired like anything else. Deleting the key gives it back: it stays. An interface without
adopt belongs to Plumb, which marks it, and deletes it with its key.

Left out, and named with the reason, are links that the agent's policy existing= keeps from
values of etcd, such as physical devices; addresses that are dynamic, links of container
runtimes and of other agents, the namespaces of other agents, what depends on any of these, and
routes and rules of daemons.
What the kernel makes itself is not mentioned. Tables of nftables, sysctls, nexthops,
forwarding entries, mirrors and named namespaces are not adopted.`,
		Example: `  agentctl adopt > host.yaml
  agentctl adopt interface/br0 --write --wait
  agentctl adopt route --all-namespaces -o name`,
		ValidArgsFunction: c.keysAndKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			out, err := c.agent().Adopt(cmd.Context(), &apiv1.AdoptRequest{Targets: args, AllNamespaces: allNamespaces})
			if err != nil {
				return err
			}
			for i, l := range out.LeftOut {
				if i == maxLeftOut {
					c.tell("and %d more are left out; the API tells all", len(out.LeftOut)-i)
					break
				}
				c.tell("left out: %s: %s", l.What, l.Reason)
			}
			if !write {
				return c.showAdopted(out.Items)
			}
			if len(out.Items) == 0 {
				c.tell("there is nothing to adopt")
				return nil
			}
			req := &apiv1.ApplyRequest{Items: out.Items, Chunked: chunked, Message: "adopt", Wait: w.wait, Timeout: duration(w.timeout), NoValues: c.noValues()}
			done, err := c.agent().Apply(cmd.Context(), req)
			if err != nil {
				return err
			}
			return c.showOutcome(req, done)
		},
	})
	cmd.Flags().BoolVar(&write, "write", false, "write it to the store: the agent takes it over")
	cmd.Flags().BoolVar(&chunked, "chunked", false, "with --write: several transactions, if the store does not take so many changes in one")
	cmd.Flags().BoolVarP(&allNamespaces, "all-namespaces", "A", false, "with a kind: also what is in named namespaces")
	w.flags(cmd)
	return cmd
}

// showAdopted prints an intent file, or with -o json an array of keys and values.
func (c *cli) showAdopted(items []*apiv1.Item) error {
	if c.output != "json" && c.output != "name" {
		c.output = "yaml"
	}
	list := jsonList(items)
	return c.show(answer{
		json: func() []byte {
			if c.output == "json" {
				return list()
			}
			return intentFile(items)
		},
		names: namesOf(items, (*apiv1.Item).GetKey),
		table: func(io.Writer, bool) {},
	})
}

// intentFile is the items as one document, in their order.
func intentFile(items []*apiv1.Item) []byte {
	var b bytes.Buffer
	b.WriteString(`{"intent":{`)
	for i, item := range items {
		if i > 0 {
			b.WriteByte(',')
		}
		key, _ := json.Marshal(item.Key) // text: cannot fail
		b.Write(key)
		b.WriteByte(':')
		b.Write(apiv1.JSON(item.Value))
	}
	b.WriteString("}}")
	return b.Bytes()
}
