package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/access"
)

func newToken(c *cli) *cobra.Command {
	return group(&cobra.Command{
		Use:   "token",
		Short: "Make tokens for agents that are reached over the network",
		Long: `Token makes tokens, by which an agent with --listen and --tokens knows who asks. It
needs no agent.`,
		Example: "  agentctl token create amy --role operator > amy.token 2>> /etc/plumb/tokens",
	}, newTokenCreate(c))
}

func newTokenCreate(c *cli) *cobra.Command {
	var role string
	cmd := &cobra.Command{
		Use:   "create NAME --role ROLE",
		Short: "Make a random token and its line for the file of tokens",
		Long: `Token create prints a new token, and on stderr the line for the file that agents
have as --tokens. The line has a digest and not the token, which is told only now:
keep it in a file that nobody else may read, for token-file of a context. What each
role may is in docs/security.md.`,
		Example: `  agentctl token create amy --role operator > amy.token 2>> /etc/plumb/tokens
  agentctl token create prometheus --role viewer -o json`,
		Args: oneArg("person or program"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if role == "" {
				return usage(cmd, "which role? --role viewer, operator or admin")
			}
			r, err := access.ParseRole(role)
			if err != nil {
				return usage(cmd, "%w", err)
			}
			token, e, err := access.NewToken(args[0], r)
			if err != nil {
				return usage(cmd, "%w", err)
			}
			return c.show(answer{
				json: func() []byte {
					text, _ := json.Marshal(struct { // of texts
						Token string `json:"token"`
						Name  string `json:"name"`
						Role  string `json:"role"`
						Line  string `json:"line"`
					}{token, e.Name, role, e.String()})
					return text
				},
				table: func(w io.Writer, _ bool) {
					c.tell("%s", e)
					fmt.Fprintln(w, token)
				},
			})
		},
	}
	cmd.Flags().StringVar(&role, "role", "", "viewer, operator or admin")
	cmd.RegisterFlagCompletionFunc("role", fixed("viewer", "operator", "admin"))
	return cmd
}
