package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/safetext"
)

func newGet(c *cli) *cobra.Command {
	var watch bool
	var states []string
	var at string
	cmd := &cobra.Command{
		Use:   "get [KIND|KEY]…",
		Short: "Show keys with their state, and why they are not configured",
		Long: `Get shows keys with their state, how long they have been in it, and the reason
if they are not configured. Without arguments it shows everything.

An argument is a key (interface/web), a kind (interface) or a prefix that ends
in a slash (address/web/). Derived keys are shown below the key that they come
from, in a table only those that are not configured; -o wide shows all.

With --at it shows how keys stood then, as far back as the history of this run
reaches.

With one KEY and -o json the output is one object, otherwise an array; with -w it
is one object on each line.`,
		Example: `  agentctl get
  agentctl get interface route/default
  agentctl get --state pending,failed
  agentctl get interface/web -o json
  agentctl get --at 10m
  agentctl get -w -o json`,
		ValidArgsFunction: c.keysAndKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			then, err := c.time(cmd, "at", at)
			switch {
			case err != nil:
				return err
			case watch && then != nil:
				return usage(cmd, "what was does not change: use --watch or --at")
			case watch:
				return c.watch(cmd.Context(), args, states)
			}
			return c.get(cmd.Context(), &apiv1.ListRequest{Targets: args, States: states, At: then, NoValues: c.noValues()})
		},
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on and show every change")
	cmd.Flags().StringVar(&at, "at", "", "as it was: at a time in RFC 3339, or so long ago, such as 10m")
	cmd.Flags().StringSliceVar(&states, "state", nil, "only keys in these states")
	return cmd
}

// isKey tells a key from a kind and a prefix.
func isKey(arg string) bool {
	return strings.Contains(arg, "/") && !strings.HasSuffix(arg, "/")
}

func (c *cli) get(ctx context.Context, req *apiv1.ListRequest) error {
	one := len(req.Targets) == 1 && isKey(req.Targets[0])
	done := c.downloading()
	all, err := c.agent().List(ctx, req)
	done()
	if err != nil {
		return err
	}
	a := c.keysAnswer(all.Keys)
	if one && len(all.Keys) == 1 {
		a.json = jsonObject(all.Keys[0])
	}
	if len(all.Keys) == 0 {
		c.tell("no keys")
	}
	return c.show(a)
}

// watch shows changes until it is interrupted.
func (c *cli) watch(ctx context.Context, args, states []string) error {
	stream, err := c.agent().Watch(ctx, &apiv1.WatchRequest{Targets: args, States: states, NoValues: c.noValues()})
	if err != nil {
		return err
	}
	defer stream.Close()
	t := c.keyTable(c.output == "wide")
	head := true
	for stream.Receive() {
		if err := c.showChanges(t, stream.Msg().Changes, &head); err != nil {
			return err
		}
	}
	if err := stream.Err(); err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	return nil
}

// showChanges writes one object on each line, or rows below the first head.
func (c *cli) showChanges(t *table, changes []*apiv1.KeyStatus, head *bool) error {
	if c.output == "table" || c.output == "wide" {
		for _, k := range changes {
			c.addKey(t, k, c.output == "wide", "")
		}
		if *head && len(changes) > 0 {
			t.write(c.stdout, c.color)
			*head = false
			return nil
		}
		t.flush(c.stdout, c.color)
		return nil
	}
	for _, k := range changes {
		if err := c.showLine(apiv1.JSON(k), k.Key); err != nil {
			return err
		}
	}
	return nil
}

// showLine writes one object of many: with -o json on a line of its own.
func (c *cli) showLine(object []byte, name string) error {
	if c.output == "json" {
		_, err := c.stdout.Write(append(safetext.JSON(object), '\n'))
		return err
	}
	if c.output == "yaml" {
		c.stdout.Write([]byte("---\n"))
	}
	return c.show(answer{json: func() []byte { return object }, names: []string{name}})
}
