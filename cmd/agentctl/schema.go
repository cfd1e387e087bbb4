package main

import (
	"bytes"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/models"
)

func newSchema(c *cli) *cobra.Command {
	return formats("json", &cobra.Command{
		Use:               "schema KIND",
		Short:             "Print the JSON Schema of a kind",
		Long:              "Schema prints the JSON Schema (2020-12) of a kind's values, for editors and checks. It needs no agent.",
		Example:           "  agentctl schema interface > interface.schema.json",
		Args:              oneArg("kind"),
		ValidArgsFunction: kindNames,
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := models.Schema(args[0])
			if err != nil {
				return err
			}
			_, err = c.stdout.Write(append(bytes.TrimRight(text, "\n"), '\n'))
			return err
		},
	})
}
