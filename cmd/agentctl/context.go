package main

import (
	"encoding/json"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/api/client/contexts"
)

func newContext(c *cli) *cobra.Command {
	return group(&cobra.Command{
		Use:   "context",
		Short: "Keep how several agents are reached",
		Long: `Context keeps how agents are reached, by names: at a socket of this host, or over
the network. Every command takes --context NAME, or PLUMB_CONTEXT; without it the
context counts that "context use" names, unless --socket or PLUMB_SOCKET says
otherwise. They are in $XDG_CONFIG_HOME/plumb/contexts.yaml, by default
~/.config/plumb/contexts.yaml.`,
		Example: `  agentctl context set edge1 --address 192.0.2.1:7443 --ca ca.pem --token-file edge1.token
  agentctl --context edge1 get
  agentctl context use edge1`,
	}, newContextList(c), newContextUse(c), newContextSet(c), newContextDelete(c))
}

// contextLine is a context as it is listed.
type contextLine struct {
	Name       string `json:"name"`
	Current    bool   `json:"current,omitempty"`
	Socket     string `json:"socket,omitempty"`
	Address    string `json:"address,omitempty"`
	CA         string `json:"ca,omitempty"`
	Cert       string `json:"cert,omitempty"`
	Key        string `json:"key,omitempty"`
	TokenFile  string `json:"token_file,omitempty"`
	ServerName string `json:"server_name,omitempty"`
}

func newContextList(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the contexts",
		Long:    "Context list shows the contexts, and with a star the one that is used if nothing else is said.",
		Example: "  agentctl context list",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			all, err := c.contexts()
			if err != nil {
				return err
			}
			lines := []contextLine{}
			for _, name := range all.Names() {
				t := all.Contexts[name]
				lines = append(lines, contextLine{name, name == all.Current, t.Socket, t.Address, t.CA, t.Cert, t.Key, t.TokenFile, t.ServerName})
			}
			return c.show(answer{
				json: func() []byte {
					text, _ := json.Marshal(lines) // of texts
					return text
				},
				names: all.Names(),
				table: func(w io.Writer, _ bool) {
					t := newTable("CURRENT", "NAME", "AGENT", "SHOWS")
					for _, l := range lines {
						t.add(map[bool]string{true: "*"}[l.Current], l.Name, l.Socket+l.Address, orDash(l.shows()))
					}
					t.write(w, c.color)
				},
			})
		},
	}
}

// shows says by what the agent is to know who asks.
func (l contextLine) shows() string {
	var all []string
	if l.Cert != "" {
		all = append(all, "certificate")
	}
	if l.TokenFile != "" {
		all = append(all, "token")
	}
	return strings.Join(all, ", ")
}

func newContextUse(c *cli) *cobra.Command {
	return formats(noFormats, &cobra.Command{
		Use:               "use NAME",
		Short:             "Say which context is used if nothing else is said",
		Long:              "Context use makes a context the one that is used without --context and --socket.",
		Example:           "  agentctl context use edge1",
		Args:              oneArg("context"),
		ValidArgsFunction: c.completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			err := c.changeContexts(func(all *contexts.File) error {
				_, err := all.Find(args[0])
				all.Current = args[0]
				return err
			})
			if err == nil {
				c.tell("context %s is used from now on", args[0])
			}
			return err
		},
	})
}

func newContextSet(c *cli) *cobra.Command {
	var t contexts.Context
	cmd := formats(noFormats, &cobra.Command{
		Use:   "set NAME",
		Short: "Make a context, or replace it",
		Long: `Context set says how the agent of a context is reached. Either --socket, of an agent
of this host; or --address, of one with --listen, with what is to be shown to it:
--token-file, or --cert and --key. Keys and tokens stay in their files, which nobody
but their owner may read. A context that is there is replaced as a whole.`,
		Example: `  agentctl context set edge1 --address 192.0.2.1:7443 --ca ca.pem --token-file edge1.token
  agentctl context set edge2 --address edge2:7443 --ca ca.pem --cert amy.pem --key amy-key.pem
  agentctl context set second --socket /run/plumb-second/agent.sock`,
		Args: oneArg("context"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := contexts.CheckName(args[0]); err != nil {
				return usage(cmd, "%w", err)
			}
			t.Socket = c.socket
			for _, file := range []*string{&t.Socket, &t.CA, &t.Cert, &t.Key, &t.TokenFile} {
				if *file != "" {
					abs, err := filepath.Abs(*file)
					if err != nil {
						return err
					}
					*file = abs
				}
			}
			if err := t.Check(); err != nil {
				return usage(cmd, "%w", err)
			}
			err := c.changeContexts(func(all *contexts.File) error {
				all.Contexts[args[0]] = t
				return nil
			})
			if err == nil {
				c.tell("context %s is at %s", args[0], t.At())
			}
			return err
		},
	})
	cmd.Flags().StringVar(&t.Address, "address", "", "HOST:PORT of an agent with --listen")
	cmd.Flags().StringVar(&t.CA, "ca", "", "file with the CA that signed the agent's certificate (default: those of the system)")
	cmd.Flags().StringVar(&t.Cert, "cert", "", "file with our certificate")
	cmd.Flags().StringVar(&t.Key, "key", "", "file with the key of our certificate")
	cmd.Flags().StringVar(&t.TokenFile, "token-file", "", "file with our token")
	cmd.Flags().StringVar(&t.ServerName, "server-name", "", "name in the agent's certificate, if it is not the host of the address")
	return cmd
}

func newContextDelete(c *cli) *cobra.Command {
	return formats(noFormats, &cobra.Command{
		Use:               "delete NAME",
		Short:             "Delete a context",
		Long:              "Context delete forgets how an agent is reached. Files that it names stay.",
		Example:           "  agentctl context delete edge1",
		Args:              oneArg("context"),
		ValidArgsFunction: c.completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			return c.changeContexts(func(all *contexts.File) error {
				_, err := all.Find(args[0])
				delete(all.Contexts, args[0])
				if all.Current == args[0] {
					all.Current = ""
				}
				return err
			})
		},
	})
}

func (c *cli) completeContexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	all, err := c.contexts()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return all.Names(), cobra.ShellCompDirectiveNoFileComp
}

// place is the agent that is asked, as status shows it; "" for the one of this host.
func (c *cli) place() string {
	t, name, err := c.target()
	if err != nil || name == "" {
		return ""
	}
	return name + ", " + t.At()
}
