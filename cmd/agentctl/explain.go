package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/models"
)

func newExplain(c *cli) *cobra.Command {
	return formats(noFormats, &cobra.Command{
		Use:   "explain KIND[.FIELD]",
		Short: "Document a kind or a field",
		Long:  "Explain documents a kind or a field: types, units, defaults, rules. It needs no agent.",
		Example: `  agentctl explain interface
  agentctl explain interface.veth.peer`,
		Args:              oneArg("kind or field, such as interface.mtu"),
		ValidArgsFunction: kindNames,
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := models.Explain(args[0])
			if err != nil {
				return err
			}
			_, err = io.WriteString(c.stdout, text)
			return err
		},
	})
}
