package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

// phase is a part of the time that changes took, of the keys of a kind.
type phase struct {
	Phase string `json:"phase"`
	// Kind is empty where the time is that of a whole transaction.
	Kind    string  `json:"kind,omitempty"`
	Count   int     `json:"count"`
	Total   string  `json:"total"`
	Median  string  `json:"median"`
	P95     string  `json:"p95"`
	Max     string  `json:"max"`
	Slowest slowest `json:"slowest"`

	took []time.Duration
	max  time.Duration
}

// slowest is where the longest time of a phase was.
type slowest struct {
	Seq uint64 `json:"seq"`
	Key string `json:"key,omitempty"`
}

func newSlow(c *cli) *cobra.Command {
	var since string
	cmd := &cobra.Command{
		Use:   "slow",
		Short: "Show where the time of changes went",
		Long: `Slow shows where the time of the changes went that the history keeps, by phase and
kind, the longest in total first:

  store      from the write through the agent until its source heard of it
  needs      until all was there that the key needs, as far as the same transaction
             brought it
  queue      until a worker was free
  operation  until the kernel had done it, and said so

With the slowest of each come its key and the number of the transaction, for
"agentctl history".`,
		Example: `  agentctl slow
  agentctl slow --since 10m
  agentctl slow -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, err := c.time(cmd, "since", since)
			if err != nil {
				return err
			}
			done := c.downloading()
			out, err := c.agent().History(cmd.Context(), &apiv1.HistoryRequest{Since: from})
			done()
			if err != nil {
				return err
			}
			return c.show(slowAnswer(c, phasesOf(out.Records)))
		},
	}
	cmd.Flags().StringVar(&since, "since", "", "only later changes: a time in RFC 3339, or how long ago, such as 10m")
	return cmd
}

// phasesOf sums up where the time of transactions went.
func phasesOf(records []*apiv1.Record) []*phase {
	type of struct{ phase, kind string }
	found := map[of]*phase{}
	add := func(name, kind string, took time.Duration, at slowest) {
		p := found[of{name, kind}]
		if p == nil {
			p = &phase{Phase: name, Kind: kind}
			found[of{name, kind}] = p
		}
		took = max(took, 0) // clocks are set back now and then
		if len(p.took) == 0 || took > p.max {
			p.max, p.Slowest = took, at
		}
		p.took = append(p.took, took)
	}
	for _, r := range records {
		seen := r.Time.AsTime()
		if r.Written != nil {
			add("store", "", seen.Sub(r.Written.AsTime()), slowest{Seq: r.Seq})
		}
		for _, d := range r.Done {
			if d.Op == "look" {
				continue
			}
			kind, _, _ := strings.Cut(d.Key, "/")
			at := slowest{r.Seq, d.Key}
			add("needs", kind, d.Start.AsTime().Sub(seen)-d.Waited.AsDuration(), at)
			add("queue", kind, d.Waited.AsDuration(), at)
			add("operation", kind, d.Took.AsDuration(), at)
		}
	}
	var out []*phase
	for _, p := range found {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *phase) int {
		return cmp.Or(-cmp.Compare(sum(a.took), sum(b.took)), strings.Compare(a.Phase, b.Phase), strings.Compare(a.Kind, b.Kind))
	})
	for _, p := range out {
		p.count()
	}
	return out
}

func sum(all []time.Duration) (total time.Duration) {
	for _, d := range all {
		total += d
	}
	return total
}

// count makes the figures of what was collected.
func (p *phase) count() {
	text := func(d time.Duration) string { return short(durationpb.New(d)) }
	slices.Sort(p.took)
	n := len(p.took)
	p.Count, p.Total = n, text(sum(p.took))
	p.Median, p.P95, p.Max = text(p.took[n/2]), text(p.took[n*95/100]), text(p.max)
}

func slowAnswer(c *cli, all []*phase) answer {
	return answer{
		json: func() []byte {
			text, _ := json.MarshalIndent(append([]*phase{}, all...), "", "  ") // texts and numbers always encode
			return text
		},
		names: namesOf(all, func(p *phase) string { return strings.TrimSuffix(p.Phase+"/"+p.Kind, "/") }),
		table: func(w io.Writer, _ bool) {
			if len(all) == 0 {
				c.tell("nothing was changed in that time, as far as the history goes back")
				return
			}
			t := newTable("PHASE", "KIND", "COUNT", "TOTAL", "MEDIAN", "P95", "MAX", "SLOWEST")
			for _, p := range all {
				t.add(p.Phase, orDash(p.Kind), fmt.Sprint(p.Count), p.Total, p.Median, p.P95, p.Max,
					strings.TrimSpace(fmt.Sprintf("%s in transaction %d", p.Slowest.Key, p.Slowest.Seq)))
			}
			t.write(w, c.color)
		},
	}
}
