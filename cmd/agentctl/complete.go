package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

type completion = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective)

// fixed offers words.
func fixed(words ...string) completion {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// kindNames offers the kinds.
func kindNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return namesOf(models.Kinds(), func(k models.Kind) string { return k.Name }), cobra.ShellCompDirectiveNoFileComp
}

// keysAndKinds offers kinds until a slash is typed, then the agent's keys.
func (c *cli) keysAndKinds(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if !strings.Contains(typed, "/") {
		names, _ := kindNames(cmd, args, typed)
		return names, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	}
	kind, _, _ := strings.Cut(typed, "/")
	all, err := c.agent().List(cmd.Context(), &apiv1.ListRequest{Targets: []string{kind}, NoValues: true})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return namesOf(all.Keys, (*apiv1.KeyStatus).GetKey), cobra.ShellCompDirectiveNoFileComp
}
