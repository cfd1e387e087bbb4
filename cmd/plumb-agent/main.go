// Command plumb-agent keeps the network of this host and its containers true
// to the intent in etcd.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/agent"
	"github.com/plumb-net/plumb/plugins/buildinfo"
	"github.com/plumb-net/plumb/plugins/manpage"
	"github.com/plumb-net/plumb/plugins/progress"
	"github.com/plumb-net/plumb/plugins/safetext"
)

func main() {
	agent.Main()
	agent.SpareMemory()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code := run(ctx, os.Args[1:], os.Stdout)
	stop()
	os.Exit(code)
}

// run returns the exit code: 0 done, 1 with --once not all is configured, 2 an error.
func run(ctx context.Context, args []string, stdout io.Writer) int {
	out := &sink{to: stdout}
	cmd := command()
	cmd.SetArgs(args)
	cmd.SetOut(out)
	err := cmd.ExecuteContext(ctx)
	if out.err != nil {
		err = out.err // an answer that nobody got is none
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, agent.ErrNotConfigured):
		return 1
	}
	fmt.Fprintln(os.Stderr, "plumb-agent:", safetext.URLs(safetext.Text(err.Error())))
	return 2
}

func command() *cobra.Command {
	var file string
	var once, show bool
	root := &cobra.Command{
		Use:   "plumb-agent",
		Short: "Keep the network of this host and its containers true to the intent in etcd",
		Long: `plumb-agent keeps the network of this host and its containers true to the
intent in etcd. Without --etcd it brings an etcd of its own, reachable only by
root through <run-dir>/etcd.sock.

Every flag can also be set in the YAML file given with --config, under the same
name, and in the environment as PLUMB_<FLAG>. SIGTERM stops the agent and leaves
the network as it is; proxies go on.`,
		Example: `  plumb-agent
  plumb-agent --label edge1 --etcd http://10.0.0.1:2379,http://10.0.0.2:2379
  plumb-agent --once`,
		Args:          noArgs,
		Version:       buildinfo.String(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(usage)
	config := configFlags(root, &file)
	root.Flags().BoolVar(&once, "once", false, "reconcile once and exit: 0 all is configured, 1 it is not")
	root.Flags().BoolVar(&show, "print-config", false, "print the configuration in effect and exit")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := config(cmd)
		if err != nil {
			return err
		}
		if show {
			_, err := fmt.Fprint(cmd.OutOrStdout(), safetext.URLs(c.YAML()))
			return err
		}
		log := handler(os.Stderr, c.LogFormat)
		if once {
			return agent.Once(cmd.Context(), c, log, cmd.OutOrStdout())
		}
		return agent.Run(cmd.Context(), c, log)
	}
	root.AddCommand(cleanup(config), recoverStore(config), version(), genMan())
	return root
}

// usage is an error of how the command was called.
func usage(cmd *cobra.Command, err error) error {
	return fmt.Errorf("%w; see `%s --help`", err, cmd.CommandPath())
}

func noArgs(cmd *cobra.Command, args []string) error {
	if err := cobra.NoArgs(cmd, args); err != nil {
		return usage(cmd, err)
	}
	return nil
}

func cleanup(config func(*cobra.Command) (agent.Config, error)) *cobra.Command {
	return &cobra.Command{
		Use:   "cleanup",
		Short: "Remove everything that this label ever made, and nothing else",
		Long: `cleanup removes every link, address, route and namespace that the agent of this
label has made on this host, in all namespaces, and ends its proxies. It never
touches etcd, and it refuses while the agent runs.`,
		Example: "  plumb-agent cleanup --label edge1",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := config(cmd)
			if err != nil {
				return err
			}
			var cleared agent.Cleared
			line := progress.Of(os.Stderr, os.Getenv("TERM")).Start(cleared.Show)
			defer line.Stop()
			log := slog.New(c.Levels().Handler(handler(line.Above(os.Stderr), c.LogFormat)))
			return agent.Cleanup(cmd.Context(), c, log, line.Above(cmd.OutOrStdout()), &cleared)
		},
	}
}

func recoverStore(config func(*cobra.Command) (agent.Config, error)) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "recover-store",
		Short: "Put damaged data of the embedded etcd aside and begin a new store",
		Long: `recover-store looks whether the embedded etcd of this state directory can be
used. If it cannot, its data is put aside, and a new store is begun with the keys
that can be read; it says what could not be read. It works while the agent runs,
and also when it does not. Nothing is deleted on the host: for the agent the new
store is another one, and what it lacks is withdrawn only after "agentctl resync
--accept".`,
		Example: "  plumb-agent recover-store\n  plumb-agent recover-store --state-dir /var/lib/plumb-edge1 --run-dir /run/plumb-edge1",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := config(cmd)
			if err != nil {
				return err
			}
			log := slog.New(c.Levels().Handler(handler(os.Stderr, c.LogFormat)))
			return agent.RecoverStore(cmd.Context(), c, force, log, cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "put a store aside that can be used, and end the server that uses it")
	return cmd
}

func version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version and the commit", Example: "  plumb-agent version", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), buildinfo.String())
			return err
		},
	}
}

func genMan() *cobra.Command {
	return &cobra.Command{
		Use: "gen-man", Short: "Print plumb-agent(8)", Example: "  plumb-agent gen-man | man -l -", Args: noArgs, Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			manpage.Page{Command: cmd.Root(), Section: 8, Version: buildinfo.Version(), SeeAlso: []string{"agentctl(1)", "plumb-cni(8)"}}.Write(cmd.OutOrStdout())
			return nil
		},
	}
}

// configFlags gives the command a flag per setting, and returns how to read them.
func configFlags(root *cobra.Command, file *string) func(*cobra.Command) (agent.Config, error) {
	flags := root.PersistentFlags()
	flags.StringVar(file, "config", "", "YAML file with settings")
	defaults := agent.Default()
	values := map[string]*string{}
	for _, s := range agent.Settings() {
		values[s.Name] = flags.String(s.Name, s.Get(&defaults), s.Usage)
		if s.Switch {
			flags.Lookup(s.Name).NoOptDefVal = "on"
		}
	}
	return func(cmd *cobra.Command) (agent.Config, error) {
		set := map[string]string{}
		for name, v := range values {
			if cmd.Flags().Changed(name) {
				set[name] = *v
			}
		}
		path := *file
		if env, ok := os.LookupEnv("PLUMB_CONFIG"); ok && path == "" {
			path = env
		}
		return agent.Load(path, os.LookupEnv, set)
	}
}

// handler writes all that it is given; levels decide what that is.
func handler(w io.Writer, format string) slog.Handler {
	if format == "json" {
		return slog.NewJSONHandler(safeJSON{w}, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: maskURLsButTime})
	}
	return slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: maskURLs})
}

// safeJSON escapes what a terminal would take for more than a letter: the handler of JSON,
// unlike the one of text, leaves most of that as it is.
type safeJSON struct{ to io.Writer }

func (s safeJSON) Write(line []byte) (int, error) {
	if _, err := s.to.Write(safetext.JSON(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}

// maskURLsButTime leaves the time of a line to the handler, so that programs can read it.
func maskURLsButTime(groups []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindTime {
		return a
	}
	return maskURLs(groups, a)
}

// maskURLs keeps passwords of addresses out of the log. That control characters are
// quoted is what the handler of text does by itself.
func maskURLs(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case string:
		a.Value = slog.StringValue(safetext.URLs(v))
	case error:
		a.Value = slog.StringValue(safetext.URLs(v.Error()))
	case []string, fmt.Stringer:
		a.Value = slog.StringValue(safetext.URLs(fmt.Sprint(v)))
	}
	return a
}
