package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

func newLog(c *cli) *cobra.Command {
	return group(&cobra.Command{
		Use:     "log",
		Short:   "See and set the levels of the agent's loggers",
		Long:    "Log shows and sets how much the agent writes into its log. A level that is set holds until the agent ends.",
		Example: "  agentctl log set agent debug",
	}, newLogList(c), newLogSet(c))
}

func newLogList(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the loggers with their levels",
		Long:    "Log list shows the loggers of the agent with their levels.",
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
					t := newTable("LOGGER", "LEVEL")
					for _, l := range out.Logs {
						t.add(l.Name, l.Level)
					}
					t.write(w, c.color)
				},
			})
		},
	}
}

func newLogSet(c *cli) *cobra.Command {
	return formats(noFormats, &cobra.Command{
		Use:     "set LOGGER LEVEL",
		Short:   "Set the level of a logger",
		Long:    "Log set changes the level of a logger until the agent ends. Levels are debug, info, warn, error.",
		Example: "  agentctl log set agent debug",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usage(cmd, "name a logger and a level")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := c.agent().SetLog(cmd.Context(), &apiv1.SetLogRequest{Name: args[0], Level: args[1]})
			if err != nil {
				return err
			}
			c.tell("logger %s is set to %s", args[0], args[1])
			return nil
		},
	})
}
