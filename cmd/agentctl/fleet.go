package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/etcd/dial"
	"github.com/plumb-net/plumb/plugins/fleet"
	"github.com/plumb-net/plumb/plugins/fleet/record"
	"github.com/plumb-net/plumb/plugins/safetext"
)

// fleetFlags say which etcd is meant, and which of its agents.
type fleetFlags struct {
	etcd     []string
	ca       string
	cert     string
	key      string
	user     string
	password string
	selector string
	patterns []string
}

func newFleet(c *cli) *cobra.Command {
	var f fleetFlags
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Look at all agents of an etcd, and change them in waves",
		Long: `Fleet lists all agents of an etcd, with what each last told: whether it is alive, its
version and labels, up to which revision its intent was carried out, and how many
keys are in each state. An agent is

  alive       it holds its label
  duplicate   another agent wants the same label, or has a copy of its state directory
  stopped     it has ended in good order
  dead        it is not there any more, and did not say that it ends
  none        something is kept for the label, and no agent has told how it is

It exits with 1 if an agent is dead or duplicate, or one that is alive is not ready.

Fleet speaks with etcd, not with an agent: --etcd, or PLUMB_ETCD, names the endpoints,
by default the socket of the embedded etcd of this host's agent. The other flags of
etcd are those of the agent, and so are their variables (PLUMB_ETCD_CA and so on).
With -l and --agent only some agents are meant: see "agentctl fleet apply".`,
		Example: `  agentctl fleet --etcd https://etcd1:2379,https://etcd2:2379 --etcd-ca ca.pem
  agentctl fleet -l role=web,rack!=a3
  agentctl fleet --agent 'edge-*' -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withFleet(cmd, &f, func(_ *fleet.Fleet, agents []fleet.Agent) error { return c.showAgents(agents) })
		},
	}
	flags := cmd.PersistentFlags()
	flags.StringSliceVar(&f.etcd, "etcd", nil, "endpoints of etcd, separated by commas; also PLUMB_ETCD (default: etcd.sock in PLUMB_RUN_DIR, else /run/plumb/etcd.sock)")
	flags.StringVar(&f.ca, "etcd-ca", "", "file with the CA that signed etcd's certificate")
	flags.StringVar(&f.cert, "etcd-cert", "", "file with our certificate for etcd")
	flags.StringVar(&f.key, "etcd-key", "", "file with the key of our certificate")
	flags.StringVar(&f.user, "etcd-user", "", "user for etcd")
	flags.StringVar(&f.password, "etcd-password-file", "", "file with the user's password")
	flags.StringVarP(&f.selector, "selector", "l", "", "only agents with these labels: role=web, role!=web, role or !role, with commas between them")
	flags.StringSliceVar(&f.patterns, "agent", nil, "only agents whose label is like one of these, with * and ? for other characters")
	cmd.AddCommand(newFleetGet(c, &f), newFleetWhy(c, &f), newFleetDiff(c, &f), newFleetHistory(c, &f),
		newFleetApply(c, &f), newFleetStatus(c, &f), newFleetResume(c, &f), newFleetUndo(c, &f))
	return cmd
}

// connection is where etcd is, and as whom we go there. A flag goes before the environment.
func (f *fleetFlags) connection(c *cli) (dial.Config, error) {
	from := func(flag, variable string) string { return cmp.Or(flag, c.getenv(variable)) }
	out := dial.Config{
		Endpoints: f.etcd, CAFile: from(f.ca, "PLUMB_ETCD_CA"), CertFile: from(f.cert, "PLUMB_ETCD_CERT"), KeyFile: from(f.key, "PLUMB_ETCD_KEY"),
		User: from(f.user, "PLUMB_ETCD_USER"), PasswordFile: from(f.password, "PLUMB_ETCD_PASSWORD_FILE"),
	}
	if len(out.Endpoints) == 0 {
		for e := range strings.SplitSeq(c.getenv("PLUMB_ETCD"), ",") {
			if e = strings.TrimSpace(e); e != "" {
				out.Endpoints = append(out.Endpoints, e)
			}
		}
	}
	if len(out.Endpoints) == 0 {
		socket := filepath.Join(cmp.Or(c.getenv("PLUMB_RUN_DIR"), "/run/plumb"), "etcd.sock")
		if _, err := os.Stat(socket); err != nil {
			return out, errors.New("name the etcd with --etcd or PLUMB_ETCD: there is no embedded one at " + socket)
		}
		out.Endpoints = []string{"unix://" + socket}
	}
	return out, nil
}

// open connects to etcd.
func (f *fleetFlags) open(ctx context.Context, c *cli) (*fleet.Fleet, error) {
	where, err := f.connection(c)
	if err != nil {
		return nil, err
	}
	all, err := fleet.Open(ctx, where)
	if err == nil {
		all.Now = c.now
	}
	return all, err
}

// withFleet does something with the agents that are meant.
func (c *cli) withFleet(cmd *cobra.Command, f *fleetFlags, do func(*fleet.Fleet, []fleet.Agent) error) error {
	selector, err := fleet.ParseSelector(f.selector)
	if err != nil {
		return usage(cmd, "%w", err)
	}
	for _, p := range f.patterns {
		if err := fleet.CheckPattern(p); err != nil {
			return usage(cmd, "%w", err)
		}
	}
	all, err := f.open(cmd.Context(), c)
	if err != nil {
		return err
	}
	defer all.Close()
	agents, err := all.Agents(cmd.Context())
	if err != nil {
		return err
	}
	chosen := fleet.Choose(agents, selector, f.patterns)
	if len(chosen) == 0 && len(agents) > 0 {
		return fmt.Errorf("of %s, -l and --agent choose none", plural(len(agents), "agent"))
	}
	return do(all, chosen)
}

// by is who we are, for those who read records.
func (c *cli) by() string {
	name := "somebody"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if login := c.getenv("SUDO_USER"); login != "" {
		name += " for " + login
	}
	host, _ := os.Hostname()
	return safetext.Line(fmt.Sprintf("%s@%s (agentctl)", name, host))
}

func (c *cli) showAgents(agents []fleet.Agent) error {
	if agents == nil {
		agents = []fleet.Agent{}
	}
	bad := false
	names := make([]string, len(agents))
	for i, a := range agents {
		names[i] = a.Label
		bad = bad || a.State == fleet.Dead || a.State == fleet.Duplicate || a.State == fleet.Alive && a.Health != "" && a.Health != ready
	}
	err := c.show(answer{json: jsonOfValue(agents), names: names, table: func(w io.Writer, wide bool) {
		head := []string{"AGENT", "STATE", "HEALTH", "VERSION", "CONVERGED", "SEEN", "KEYS"}
		if wide {
			head = []string{"AGENT", "STATE", "HEALTH", "VERSION", "CONVERGED", "SEEN", "HOST", "LABELS", "KEYS"}
		}
		t := newTable(head...)
		for _, a := range agents {
			row := []string{a.Label, a.State, orDash(a.Health), orDash(a.Version), revision(a.Converged), c.seen(a)}
			if wide {
				row = append(row, orDash(a.Host), orDash(record.FormatLabels(a.Labels)))
			}
			row = append(row, keyCounts(a.Keys))
			for i := range row {
				row[i] = safetext.Line(row[i])
			}
			t.add(row...)
		}
		if len(agents) > 0 {
			t.write(w, c.color)
		}
		for _, a := range agents {
			for _, note := range agentNotes(a) {
				c.tellLine("note: %s: %s", a.Label, note)
			}
		}
		c.tellLine("%s", fleet.States(agents))
	}})
	if err == nil && bad {
		err = differs
	}
	return err
}

// agentNotes are what the table has no column for.
func agentNotes(a fleet.Agent) (out []string) {
	if a.Reason != "" {
		out = append(out, a.Reason)
	}
	out = append(out, a.Reasons...)
	if a.Frozen != "" {
		out = append(out, "frozen: "+a.Frozen)
	}
	if a.Held > 0 {
		out = append(out, plural(a.Held, "deletion")+" held back")
	}
	if a.Confirm != "" {
		out = append(out, "the change "+a.Confirm+" waits to be confirmed")
	}
	return out
}

func revision(n int64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func (c *cli) seen(a fleet.Agent) string {
	switch {
	case a.Live():
		return "now"
	case a.Seen.IsZero():
		return "-"
	}
	return ago(c.now().Sub(a.Seen)) + " ago"
}

// keyCounts are the states of keys, the most important last: "12 configured, 1 failed".
func keyCounts(keys map[string]int) string {
	var parts []string
	for _, state := range slices.SortedFunc(maps.Keys(keys), func(a, b string) int {
		return cmp.Or(-cmp.Compare(keys[a], keys[b]), cmp.Compare(a, b))
	}) {
		parts = append(parts, fmt.Sprintf("%d %s", keys[state], state))
	}
	return orDash(strings.Join(parts, ", "))
}

// jsonOfValue is the JSON of what is no message.
func jsonOfValue(v any) func() []byte {
	return func() []byte {
		text, _ := json.Marshal(v) // texts, numbers and times always encode
		return text
	}
}

// seconds are a time in whole seconds, rounded up.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }
