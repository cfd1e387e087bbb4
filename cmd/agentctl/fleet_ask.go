package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/fleet"
	"github.com/plumb-net/plumb/plugins/safetext"
)

func newFleetGet(c *cli, f *fleetFlags) *cobra.Command {
	var states []string
	cmd := &cobra.Command{
		Use:   "get [KIND|KEY]…",
		Short: "Show keys of many agents with their state",
		Long: `Fleet get shows keys of all agents that are meant, with their states as the agents keep
them in etcd: those in the intent, and what is left of others. Of an agent that is not
alive it is what it last told.`,
		Example: `  agentctl fleet get interface -l role=web
  agentctl fleet get --state failed,pending`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withFleet(cmd, f, func(all *fleet.Fleet, agents []fleet.Agent) error {
				lines := []fleetStatus{}
				for _, a := range agents {
					if !a.Live() {
						c.tellLine("note: %s is %s: this is what it last told", a.Label, a.State)
					}
					list, err := all.Statuses(cmd.Context(), a.Label, args)
					if err != nil {
						return err
					}
					for _, s := range list {
						if len(states) == 0 || slices.Contains(states, s.State) {
							lines = append(lines, fleetStatus{a.Label, s})
						}
					}
				}
				return c.showFleetStatuses(lines)
			})
		},
	}
	cmd.Flags().StringSliceVar(&states, "state", nil, "only keys in these states")
	return cmd
}

// fleetStatus is a key of an agent.
type fleetStatus struct {
	Agent string `json:"agent"`
	fleet.Status
}

func (c *cli) showFleetStatuses(lines []fleetStatus) error {
	names := make([]string, len(lines))
	for i, l := range lines {
		names[i] = l.Agent + " " + l.Key
	}
	return c.show(answer{json: jsonOfValue(lines), names: names, table: func(w io.Writer, _ bool) {
		t := newTable("AGENT", "KEY", "STATE", "AGE", "REASON")
		for _, l := range lines {
			t.add(l.Agent, safetext.Line(l.Key), safetext.Line(l.State), ago(c.now().Sub(l.Since)), safetext.Line(l.Reason))
		}
		if len(lines) > 0 {
			t.write(w, c.color)
		}
	}})
}

// asking is a question to many agents: the call, and how its answer is shown.
type asking struct {
	call    string
	request proto.Message
	// answer is an empty answer of the call.
	answer func() proto.Message
	// write shows the answer of an agent as a table; it reports whether the answer is no.
	write func(w io.Writer, m proto.Message)
	// no reports whether the exit code is to be 1.
	no func(m proto.Message) bool
}

// askFleet asks all agents that are meant, and shows what they answer, each below its name.
func (c *cli) askFleet(cmd *cobra.Command, f *fleetFlags, q asking) error {
	return c.withFleet(cmd, f, func(all *fleet.Fleet, agents []fleet.Agent) error {
		var labels, silent []string
		for _, a := range agents {
			if a.Live() {
				labels = append(labels, a.Label)
			} else {
				silent = append(silent, fmt.Sprintf("%s is %s", a.Label, a.State))
			}
		}
		if len(labels) == 0 {
			return errors.New("nobody can be asked: " + strings.Join(silent, ", "))
		}
		request, err := protojson.Marshal(q.request)
		if err != nil {
			return err
		}
		replies, err := all.Ask(cmd.Context(), labels, c.by(), q.call, request)
		if err != nil {
			return err
		}
		bad := len(silent) > 0
		for _, s := range silent {
			c.tellLine("note: %s and cannot be asked", s)
		}
		var lines []fleetAnswer
		answers := map[string]proto.Message{}
		for _, r := range replies {
			m := q.answer()
			err := r.Err
			if err == nil {
				err = (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(r.Response, m)
			}
			if err != nil {
				bad = true
				lines = append(lines, fleetAnswer{Agent: r.Label, Error: err.Error()})
				continue
			}
			if bad = bad || q.no != nil && q.no(m); isRead(c.output) {
				makeReadable(m)
			}
			answers[r.Label] = m
			lines = append(lines, fleetAnswer{Agent: r.Label, Answer: r.Response})
		}
		err = c.show(answer{json: jsonOfValue(lines), table: func(w io.Writer, _ bool) {
			for _, l := range lines {
				fmt.Fprintf(w, "%s:\n", l.Agent)
				if m, is := answers[l.Agent]; is {
					q.write(w, m)
				} else {
					fmt.Fprintf(w, "error: %s\n", safetext.Line(l.Error))
				}
			}
		}})
		if err == nil && bad {
			err = differs
		}
		return err
	})
}

// fleetAnswer is what an agent answers.
type fleetAnswer struct {
	Agent  string          `json:"agent"`
	Answer json.RawMessage `json:"answer,omitempty"`
	Error  string          `json:"error,omitempty"`
}

const askedLong = `The question goes through etcd, and each agent that is alive answers it in its own words,
within 30 s and with at most 512 KiB. It exits with 1 if an agent does not answer.`

func newFleetWhy(c *cli, f *fleetFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "why KEY",
		Short:   "Explain how a key stands, on many agents",
		Long:    "Fleet why asks the agents that are meant what \"agentctl why\" asks one.\n\n" + askedLong,
		Example: "  agentctl fleet why route/default -l role=web",
		Args:    oneArg("key"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.askFleet(cmd, f, asking{
				call: "why", request: &apiv1.WhyRequest{Key: args[0]}, answer: func() proto.Message { return &apiv1.Cause{} },
				write: func(w io.Writer, m proto.Message) {
					cause := m.(*apiv1.Cause)
					writeRoots(w, cause)
					writeCause(w, cause, "", "")
					writeChain(w, cause)
				},
			})
		},
	}
}

func newFleetDiff(c *cli, f *fleetFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "diff [KIND|KEY]…",
		Short: "Compare intent with the live hosts, on many agents",
		Long: `Fleet diff has the agents that are meant read their hosts, as "agentctl diff" has one. It
exits with 1 if something differs.

` + askedLong,
		Example: "  agentctl fleet diff -l rack=a3",
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.askFleet(cmd, f, asking{
				call: "diff", request: &apiv1.DiffRequest{Targets: args}, answer: func() proto.Message { return &apiv1.DiffResponse{} },
				write: func(w io.Writer, m proto.Message) { c.writeDiff(w, m.(*apiv1.DiffResponse).Differences) },
				no:    func(m proto.Message) bool { return m.(*apiv1.DiffResponse).Outcome != "same" },
			})
		},
	}
}

func newFleetHistory(c *cli, f *fleetFlags) *cobra.Command {
	var key, since string
	last := uint32(20)
	cmd := &cobra.Command{
		Use:   "history",
		Short: "Show the last transactions of many agents",
		Long: `Fleet history asks the agents that are meant for their last transactions, as "agentctl
history" asks one; at most 100 of each.

` + askedLong,
		Example: "  agentctl fleet history --since 10m\n  agentctl fleet history --key interface/web --last 3",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			req := &apiv1.HistoryRequest{Key: key, Limit: last}
			var err error
			if req.Since, err = c.time(cmd, "since", since); err != nil {
				return err
			}
			return c.askFleet(cmd, f, asking{
				call: "history", request: req, answer: func() proto.Message { return &apiv1.HistoryResponse{} },
				write: func(w io.Writer, m proto.Message) {
					c.historyAnswer(m.(*apiv1.HistoryResponse).Records, false).table(w, false)
				},
			})
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "only transactions that concern the key")
	cmd.Flags().StringVar(&since, "since", "", "only later ones: a time in RFC 3339, or how long ago, such as 10m")
	cmd.Flags().Uint32Var(&last, "last", last, "only the last so many of each agent")
	return cmd
}
