package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

func newLog(c *cli) *cobra.Command {
	return group(&cobra.Command{
		Use:     "log",
		Short:   "See and set how much the agent and its parts log",
		Long:    "Log shows and sets how much the agent and its parts write into the log. A level that is set holds until the agent ends.",
		Example: "  agentctl log set etcd debug",
	}, newLogList(c), newLogSet(c))
}

func newLogList(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the parts with their levels",
		Long:    "Log list shows from which level on the agent and each of its parts log. A part without a level of its own has that of the agent, its default.",
		Example: "  agentctl log list",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out, err := c.agent().Logs(cmd.Context(), &apiv1.LogsRequest{})
			if err != nil {
				return err
			}
			return c.show(answer{
				json:  jsonList(out.Logs),
				names: namesOf(out.Logs, (*apiv1.Log).GetName),
				table: func(w io.Writer, _ bool) {
					t := newTable("PART", "LEVEL")
					for _, l := range out.Logs {
						level := l.Level
						if l.ByDefault {
							level += " (default)"
						}
						t.add(l.Name, level)
					}
					t.write(w, c.color)
				},
			})
		},
	}
}

func newLogSet(c *cli) *cobra.Command {
	return formats(noFormats, &cobra.Command{
		Use:   "set PART LEVEL",
		Short: "Set the level of the agent or of a part",
		Long: `Log set changes from which level on a part logs, until the agent ends. Levels are
debug, info, warn and error. The part "agent" stands for all parts that have no level
of their own; the level default gives a part back to it.`,
		Example: `  agentctl log set agent warn
  agentctl log set etcd debug
  agentctl log set etcd default`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usage(cmd, "name a part and a level")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := c.agent().SetLog(cmd.Context(), &apiv1.SetLogRequest{Name: args[0], Level: args[1]})
			if err != nil {
				return err
			}
			c.tell("the level of %s is %s", args[0], args[1])
			return nil
		},
	})
}
