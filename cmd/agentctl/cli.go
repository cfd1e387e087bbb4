package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/api/client"
	"github.com/plumb-net/plumb/plugins/progress"
	"github.com/plumb-net/plumb/plugins/safetext"
)

// env is the environment: what a process has, or a test gives.
type env struct {
	args           []string
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
	// color tells that the output is a terminal that likes colors.
	color bool
	// terminal tells that the output is a terminal.
	terminal bool
	// live is the terminal that stderr is; nil if it is none.
	live *progress.Terminal
	now  func() time.Time
}

// cli is one run: the environment and the global flags.
type cli struct {
	env
	socket  string
	context string
	output  string
	// asIs is set by commands that want answers byte by byte, whatever the output is.
	asIs   bool
	client *client.Client // made by agent
}

// exit is the exit code of a run that has said all it has to say. The codes are
// 0: done, the same, all configured; 1: it differs, not all is configured, the
// time is up; 2: an error.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// differs ends a run whose answer is no.
const differs = exit(1)

// run is the whole program.
func run(ctx context.Context, e env) int {
	ctx, end := context.WithCancel(ctx)
	defer end()
	out := &sink{to: e.stdout, end: end}
	e.stdout = out
	c := &cli{env: e}
	root := newRoot(c)
	root.SetArgs(e.args)
	root.SetIn(e.stdin)
	root.SetOut(e.stdout)
	root.SetErr(e.stderr)
	err := root.ExecuteContext(ctx)
	if c.client != nil {
		err = c.explain(err)
		c.client.Close()
	}
	if out.err != nil {
		err = out.err // an answer that nobody got is none
	}
	var code exit
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	}
	fmt.Fprintln(e.stderr, "agentctl:", safetext.Text(err.Error()))
	return 2
}

// explain makes errors of calls readable and leaves others alone.
func (c *cli) explain(err error) error {
	var code exit
	if err == nil || errors.As(err, &code) || !isCall(err) {
		return err
	}
	return c.client.Explain(err)
}

// newRoot makes the tree of commands.
func newRoot(c *cli) *cobra.Command {
	root := &cobra.Command{
		Use:   "agentctl",
		Short: "Ask and tell a Plumb agent",
		Long: `agentctl asks an agent what is, tells it what should be, and finds out why
something is not so. It speaks with the agent through its socket, or over the
network; see "agentctl context".

Results go to stdout, messages to stderr; on a terminal, commands that wait show
there how far they are. The exit code is 0 if it is done, the same, or all
configured; 1 if something differs, is not configured, or it timed out; 2 if
there is an error.`,
		Example: `  agentctl get
  agentctl put interface/web '{"dummy": {}, "addresses": ["10.0.0.1/24"]}'
  agentctl why interface/web`,
		Args:          noArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return cmp.Or(c.checkTarget(cmd), c.checkOutput(cmd))
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentFlags().StringVar(&c.socket, "socket", "", "socket of the agent; also PLUMB_SOCKET (default: agent.sock in PLUMB_RUN_DIR, else "+client.DefaultSocket+")")
	root.PersistentFlags().StringVar(&c.context, "context", "", "context that says how the agent is reached; also PLUMB_CONTEXT (default: that of \"context use\")")
	root.RegisterFlagCompletionFunc("context", c.completeContexts)
	root.PersistentFlags().StringVarP(&c.output, "output", "o", "table", "table, wide, json, yaml, name or template=TEXT")
	root.RegisterFlagCompletionFunc("output", fixed("table", "wide", "json", "yaml", "name", "template="))
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usage(cmd, "%w", err) })
	root.AddCommand(
		newGet(c), newWhy(c), newBlame(c), newDiff(c), newDrift(c), newAdopt(c), newDump(c), newEvents(c), newHistory(c), newSlow(c), newGraph(c), newUI(c),
		newPut(c), newDelete(c), newApply(c), newPlan(c), newWait(c),
		newConfirm(c), newAbort(c), newExtend(c), newUndo(c), newEdit(c),
		newResync(c), newPause(c), newResume(c), newFreeze(c), newUnfreeze(c), newRelease(c),
		newMicroservices(c), newContainers(c), newCNI(c),
		newKinds(c), newExplain(c), newExample(c), newSchema(c), newValidate(c),
		newFleet(c), newKV(c), newStatus(c), newMetrics(c), newLog(c), newReport(c), newContext(c), newToken(c), newVersion(c), newGenDocs(c), newGenMan(c),
	)
	return root
}

// agent is the way to the agent.
func (c *cli) agent() *client.Client {
	if c.client == nil {
		var opts []connect.ClientOption
		if isRead(c.output) && !c.asIs {
			opts = append(opts, connect.WithInterceptors(readable{}))
		}
		switch t, _, err := c.target(); {
		case err != nil:
			c.client = client.Broken(err)
		case t.Socket != "":
			c.client = client.New(t.Socket, opts...)
		default:
			c.client = client.NewRemote(t.Remote, opts...)
		}
	}
	return c.client
}

// tell says a line of the story.
func (c *cli) tell(format string, args ...any) {
	fmt.Fprintln(c.stderr, safetext.Text(fmt.Sprintf(format, args...)))
}

// tellLine is tell for one line, in which texts of others may stand: what they wrote cannot
// begin another line.
func (c *cli) tellLine(format string, args ...any) {
	fmt.Fprintln(c.stderr, safetext.Line(fmt.Sprintf(format, args...)))
}

// notes tells what the agent added to its answer.
func (c *cli) notes(notes []string) {
	for _, n := range notes {
		c.tellLine("note: %s", n)
	}
}

// usage is an error of how the command was called.
func usage(cmd *cobra.Command, format string, args ...any) error {
	return fmt.Errorf("%w; see `%s --help`", fmt.Errorf(format, args...), cmd.CommandPath())
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasSubCommands() {
		text := fmt.Sprintf("unknown command %q", args[0])
		cmd.SuggestionsMinimumDistance = 2
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			slices.Sort(near)
			text += ", did you mean " + strings.Join(near, " or ") + "?"
		}
		return usage(cmd, "%s", text)
	}
	return usage(cmd, "unexpected argument %q", args[0])
}

// someArgs wants at least one; what says of what.
func someArgs(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usage(cmd, "name at least one %s", what)
		}
		return nil
	}
}

// oneArg wants exactly one; what says of what.
func oneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usage(cmd, "name one %s", what)
		}
		return nil
	}
}

// maxOneArg wants at most one; what says of what.
func maxOneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usage(cmd, "name at most one %s", what)
		}
		return nil
	}
}

// group is a command that only holds others.
func group(cmd *cobra.Command, sub ...*cobra.Command) *cobra.Command {
	cmd.Args = noArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(sub...)
	return cmd
}
