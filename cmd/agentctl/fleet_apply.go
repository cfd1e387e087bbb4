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

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/fleet"
	"github.com/plumb-net/plumb/plugins/fleet/record"
	"github.com/plumb-net/plumb/plugins/safetext"
)

// rolling are the flags of a rollout.
type rolling struct {
	files
	values    string
	waves     string
	confirm   time.Duration
	probes    []string
	message   string
	pendingOK bool
	skipDead  bool
	dryRun    bool
}

func newFleetApply(c *cli, f *fleetFlags) *cobra.Command {
	var r rolling
	cmd := &cobra.Command{
		Use:   "apply -f PATH…",
		Short: "Bring intent files to many agents, in waves",
		Long: `Fleet apply brings intent files to all agents that -l and --agent choose, wave by wave.
On each host of a wave the agent applies its values as "agentctl apply --confirm" does:
it takes them back by itself unless it is told in time that they stay. When all keys
are configured and each probe has succeeded on all hosts of the wave, all of them are
told so, and the next wave begins. If one host is not healthy, all hosts of its wave
take back what they tried, and the rollout halts: the hosts of later waves are not
touched, and those of earlier ones keep what they have. "agentctl fleet resume" goes
on with the wave that failed; "agentctl fleet undo" brings back what was, everywhere.

--waves says how many hosts have the change after each wave, as numbers or in percent
of all; agents are taken in the order of their labels. If agentctl ends or loses etcd
in the middle of a wave, the hosts of the wave go back by themselves.

Files are templates, with what differs from host to host:

  {{ .agent }}        the label of the agent
  {{ .labels.rack }}  a label that it carries
  {{ .values.mtu }}   a value of the file given with --values: the host's own, or that
                      of all; "json" quotes it, as in {{ json .values.name }}

With --prune, keys that the same apply-set wrote on a host before and that its files no
longer name are deleted there, in the same waves, as "agentctl apply --prune" does.

What is missing is an error. All files are rendered and checked for all hosts before
anything is written. With --dry-run that is all, and the waves are shown.`,
		Example: `  agentctl fleet apply -f site.yaml -l role=web --waves 1,10%,50%,100% --confirm 60s
  agentctl fleet apply -f site.yaml --values values.yaml --probe ping:self:10.0.0.1 -m "new uplink"
  agentctl fleet apply -f site.yaml --set site --prune
  agentctl fleet apply -f site.yaml --agent 'edge-*' --dry-run`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(r.paths) == 0 {
				return usage(cmd, "name the files to apply with -f")
			}
			return c.withFleet(cmd, f, func(all *fleet.Fleet, agents []fleet.Agent) error {
				return c.startRollout(cmd.Context(), all, agents, r)
			})
		},
	}
	flags := cmd.Flags()
	r.files.flags(cmd)
	flags.StringVar(&r.values, "values", "", "file with values for templates: the maps defaults and hosts")
	flags.StringVar(&r.waves, "waves", "1,10%,50%,100%", "how many hosts have the change after each wave")
	flags.DurationVar(&r.confirm, "confirm", time.Minute, "how long a host waits to be told that the change stays; a wave has no longer to become healthy")
	flags.StringArrayVar(&r.probes, "probe", nil, "what has to work on each host: ping:NS:IP, tcp:NS:IP:PORT or key:KEY; may be repeated")
	flags.BoolVar(&r.pendingOK, "pending-ok", false, "a key that only waits for something, such as a container, is healthy too")
	flags.BoolVar(&r.skipDead, "skip-dead", false, "leave out agents that are not alive, instead of refusing")
	flags.BoolVar(&r.dryRun, "dry-run", false, "render and check everything, show the waves, and write nothing")
	messageFlag(cmd, &r.message)
	return cmd
}

// startRollout checks everything, and then begins.
func (c *cli) startRollout(ctx context.Context, all *fleet.Fleet, agents []fleet.Agent, r rolling) error {
	agents, err := c.reachable(agents, r.skipDead)
	if err != nil {
		return err
	}
	if err := r.check(); err != nil {
		return err
	}
	set, err := r.setName()
	if err != nil {
		return err
	}
	hosts, err := c.render(agents, r)
	if err != nil {
		return err
	}
	labels := make([]string, len(agents))
	for i, a := range agents {
		labels[i] = a.Label
	}
	waves, err := fleet.Waves(r.waves, labels)
	if err != nil {
		return err
	}
	ro := &fleet.Rollout{
		ID: all.NewID(), By: c.by(), Message: r.message, Files: names(r.paths), Created: c.now().UTC().Truncate(time.Second),
		Seconds: seconds(r.confirm), PendingOK: r.pendingOK, Probes: r.probes, Waves: waves, Set: set, Prune: r.prune,
	}
	if r.dryRun {
		c.tellLine("nothing was written: --dry-run")
		return c.showRollout(ro, nil)
	}
	return c.follow(ctx, all, ro, func(tell func(string)) error { return all.Start(ctx, ro, hosts, tell) })
}

// check refuses what the agents would refuse, before they are asked.
func (r rolling) check() error {
	const least, most, maxProbes = time.Second, 24 * time.Hour, 16
	if r.confirm < least || r.confirm > most {
		return fmt.Errorf("--confirm %s: hosts may wait between %s and %s", r.confirm, least, most)
	}
	if len(r.probes) > maxProbes {
		return fmt.Errorf("there may be %d probes, not %d", maxProbes, len(r.probes))
	}
	for _, p := range r.probes {
		how, rest, _ := strings.Cut(p, ":")
		switch {
		case how == "exec":
			return fmt.Errorf("--probe %s: agents run no commands that come through etcd; there are ping:NS:IP, tcp:NS:IP:PORT and key:KEY", p)
		case !slices.Contains([]string{"ping", "tcp", "key"}, how) || rest == "":
			return fmt.Errorf("--probe %s: there are ping:NS:IP, tcp:NS:IP:PORT and key:KEY", p)
		}
	}
	const maxMessage = 1000
	if len(r.message) > maxMessage {
		return fmt.Errorf("the message has %d bytes; at most %d are allowed", len(r.message), maxMessage)
	}
	return nil
}

// reachable are the agents that can take part.
func (c *cli) reachable(agents []fleet.Agent, skip bool) (out []fleet.Agent, err error) {
	var bad []string
	for _, a := range agents {
		if a.State == fleet.Alive {
			out = append(out, a)
		} else {
			bad = append(bad, a.Label+" is "+a.State)
		}
	}
	switch {
	case len(bad) > 0 && !skip:
		return nil, fmt.Errorf("%s; --skip-dead leaves out who is not alive", strings.Join(bad, ", "))
	case len(out) == 0:
		return nil, errors.New("there is no agent to bring the change to")
	}
	for _, b := range bad {
		c.tellLine("note: %s, and is left out", b)
	}
	return out, nil
}

// render makes the values of each host, and refuses all if one is wrong.
func (c *cli) render(agents []fleet.Agent, r rolling) (map[string][]record.Item, error) {
	var values fleet.Values
	if r.values != "" {
		text, err := c.readFile(r.values)
		if err == nil {
			values, err = fleet.ParseValues(text, r.values)
		}
		if err != nil {
			return nil, err
		}
	}
	templates, err := c.templates(r.paths)
	if err != nil {
		return nil, err
	}
	hosts, bad := map[string][]record.Item{}, 0
	for _, a := range agents {
		wrong := func(format string, args ...any) {
			bad++
			c.wrong("%s: %s", a.Label, fmt.Sprintf(format, args...))
		}
		var items []*apiv1.Item
		failed := false
		for _, t := range templates {
			text, err := t.Render(a, values)
			if err != nil {
				failed = true
				wrong("%v", err)
				continue
			}
			more, unread := itemsOf(text, t.Name)
			items = append(items, more...)
			for _, err := range unread {
				failed = true
				wrong("%v", err)
			}
		}
		if len(items) == 0 && !failed {
			wrong("%v", errNoIntent)
		}
		for _, line := range invalidItems(items) {
			wrong("%s", line)
		}
		for _, i := range items {
			hosts[a.Label] = append(hosts[a.Label], record.Item{Key: i.Key, Value: []byte(i.Text), Where: i.Where})
		}
	}
	if bad > 0 {
		return nil, fmt.Errorf("%s wrong; nothing was written", be(bad, "thing"))
	}
	return hosts, nil
}

// namedTemplate is a template with the name of its file.
type namedTemplate struct {
	*fleet.Template
	Name string
}

func (c *cli) templates(paths []string) (out []namedTemplate, err error) {
	for _, path := range paths {
		files, err := intentFiles(path)
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("%s has no file that ends in .yaml, .yml or .json", path)
		}
		for _, file := range files {
			text, err := c.readFile(file)
			if err != nil {
				return nil, err
			}
			name := file
			if file == "-" {
				name = "stdin"
			}
			t, err := fleet.ParseTemplate(text, name)
			if err != nil {
				return nil, err
			}
			out = append(out, namedTemplate{t, name})
		}
	}
	return out, nil
}

// follow carries a rollout out, tells what happens, and shows what came of it.
func (c *cli) follow(ctx context.Context, all *fleet.Fleet, r *fleet.Rollout, do func(tell func(string)) error) error {
	if err := do(func(line string) { c.tellLine("%s", line) }); err != nil {
		return err
	}
	hosts, err := all.Hosts(ctx, r)
	if err != nil {
		return err
	}
	if err := c.showRollout(r, hosts); err != nil {
		return err
	}
	if r.State == fleet.Halted {
		c.tellLine("halted: %s", r.Reason)
		c.tellLine("`agentctl fleet resume %s` continues, `agentctl fleet undo %s` brings back what was", r.ID, r.ID)
		return differs
	}
	return nil
}

// rolloutHost is a host of a rollout as it is shown.
type rolloutHost struct {
	Agent  string   `json:"agent"`
	Wave   int      `json:"wave"`
	State  string   `json:"state"`
	Reason string   `json:"reason,omitempty"`
	Notes  []string `json:"notes,omitempty"`
}

func (c *cli) showRollout(r *fleet.Rollout, hosts map[string]fleet.Host) error {
	out := struct {
		*fleet.Rollout
		Hosts []rolloutHost `json:"hosts"`
	}{Rollout: r}
	for i, wave := range r.Waves {
		for _, label := range wave {
			h := hosts[label]
			if h.State == "" {
				h.State = fleet.Waiting
			}
			out.Hosts = append(out.Hosts, rolloutHost{label, i + 1, h.State, h.Reason, h.Notes})
		}
	}
	return c.show(answer{json: jsonOfValue(out), names: []string{r.ID}, table: func(w io.Writer, _ bool) {
		fmt.Fprintf(w, "rollout %s is %s, %d of %s over\n", r.ID, cmp.Or(r.State, "planned"), r.Next, plural(len(r.Waves), "wave"))
		if r.Message != "" {
			fmt.Fprintln(w, safetext.Line(r.Message))
		}
		t := newTable("WAVE", "AGENT", "STATE", "REASON")
		for _, h := range out.Hosts {
			reason := strings.Join(append([]string{h.Reason}, h.Notes...), "; ")
			t.add(fmt.Sprint(h.Wave), h.Agent, h.State, safetext.Line(strings.TrimPrefix(reason, "; ")))
		}
		t.write(w, c.color)
	}})
}

// oneRollout is a command for a rollout, the last one if none is named.
func (c *cli) oneRollout(f *fleetFlags, cmd *cobra.Command, do func(ctx context.Context, all *fleet.Fleet, r *fleet.Rollout) error) *cobra.Command {
	cmd.Args = maxOneArg("rollout")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		all, err := f.open(cmd.Context(), c)
		if err != nil {
			return err
		}
		defer all.Close()
		r, err := all.Rollout(cmd.Context(), first(args))
		if err != nil {
			return err
		}
		return do(cmd.Context(), all, r)
	}
	return cmd
}

func newFleetStatus(c *cli, f *fleetFlags) *cobra.Command {
	return c.oneRollout(f, &cobra.Command{
		Use:   "status [ROLLOUT]",
		Short: "Show how far a rollout has come",
		Long: `Fleet status shows a rollout, the last one without its name: its waves and what came of
each host. It exits with 0 if it is done or undone, else with 1. A rollout that is
running is carried out by somebody, or was when he ended; then resume or undo it.`,
		Example: "  agentctl fleet status",
	}, func(ctx context.Context, all *fleet.Fleet, r *fleet.Rollout) error {
		hosts, err := all.Hosts(ctx, r)
		if err == nil {
			err = c.showRollout(r, hosts)
		}
		if err == nil && r.State != fleet.Done && r.State != fleet.Undone {
			if r.Reason != "" {
				c.tellLine("%s: %s", r.State, r.Reason)
			}
			err = differs
		}
		return err
	})
}

func newFleetResume(c *cli, f *fleetFlags) *cobra.Command {
	return c.oneRollout(f, &cobra.Command{
		Use:   "resume [ROLLOUT]",
		Short: "Continue a rollout",
		Long: `Fleet resume continues a rollout that has halted, or whose agentctl has ended, at the
wave that is not over; from any machine, with the values as they were rendered then.
What an earlier try has left in that wave is taken back first.`,
		Example: "  agentctl fleet resume",
	}, func(ctx context.Context, all *fleet.Fleet, r *fleet.Rollout) error {
		if r.State == fleet.Done || r.State == fleet.Undone {
			return fmt.Errorf("rollout %s is %s", r.ID, r.State)
		}
		return c.follow(ctx, all, r, func(tell func(string)) error { return all.Resume(ctx, r, c.by(), tell) })
	})
}

func newFleetUndo(c *cli, f *fleetFlags) *cobra.Command {
	return c.oneRollout(f, &cobra.Command{
		Use:   "undo [ROLLOUT]",
		Short: "Bring back what was before a rollout, on all hosts",
		Long: `Fleet undo brings back the values of before a rollout, on all hosts that it has changed,
at once. What somebody else has changed since stays, and is told. A host that is not
there is not undone: the rollout is then halted, and undo can be tried again.`,
		Example: "  agentctl fleet undo",
	}, func(ctx context.Context, all *fleet.Fleet, r *fleet.Rollout) error {
		if r.State == fleet.Undone {
			return fmt.Errorf("rollout %s is undone", r.ID)
		}
		return c.follow(ctx, all, r, func(tell func(string)) error { return all.Undo(ctx, r, c.by(), tell) })
	})
}
