package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/models"
)

func newExample(c *cli) *cobra.Command {
	return formats("yaml", &cobra.Command{
		Use:               "example KIND",
		Short:             "Print example values of a kind",
		Long:              "Example prints values of a kind as an intent file that can be applied. It needs no agent.",
		Example:           "  agentctl example interface > interface.yaml",
		Args:              oneArg("kind"),
		ValidArgsFunction: kindNames,
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := models.Example(args[0])
			if err != nil {
				return err
			}
			_, err = io.WriteString(c.stdout, text)
			return err
		},
	})
}
