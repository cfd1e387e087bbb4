package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

func newHistory(c *cli) *cobra.Command {
	var key, since string
	var last uint32
	cmd := &cobra.Command{
		Use:   "history [SEQ]",
		Short: "Show transactions: what was asked, planned and done",
		Long: `History shows the transactions that the agent keeps, oldest first. With a number
it shows that one in full: what was asked, each operation with the key that
brought it about, how long it took, and its error, and what changed of each key.
Transactions of earlier runs of the agent are marked.`,
		Example: `  agentctl history
  agentctl history 17
  agentctl history --key interface/web --since 10m`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage(cmd, "history takes one number")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &apiv1.HistoryRequest{Key: key, Limit: last}
			var err error
			if req.Since, err = c.time(cmd, "since", since); err != nil {
				return err
			}
			if len(args) == 1 {
				if req.Seq, err = strconv.ParseUint(args[0], 10, 64); err != nil || req.Seq == 0 {
					return usage(cmd, "%q is not the number of a transaction", args[0])
				}
			}
			done := c.downloading()
			out, err := c.agent().History(cmd.Context(), req)
			done()
			if err != nil {
				return err
			}
			return c.show(c.historyAnswer(out.Records, req.Seq != 0))
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "only transactions that concern the key")
	cmd.Flags().StringVar(&since, "since", "", "only later ones: a time in RFC 3339, or how long ago, such as 10m")
	cmd.Flags().Uint32Var(&last, "last", 0, "only the last so many")
	cmd.RegisterFlagCompletionFunc("key", c.keysAndKinds)
	return cmd
}

// time reads a time, or how long ago it was, that a flag was given.
func (c *cli) time(cmd *cobra.Command, flag, text string) (*timestamppb.Timestamp, error) {
	if text == "" {
		return nil, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return timestamppb.New(c.now().Add(-d)), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil, usage(cmd, "--%s %q is neither a time in RFC 3339 nor a duration such as 10m", flag, text)
	}
	return timestamppb.New(t), nil
}

func (c *cli) historyAnswer(records []*apiv1.Record, full bool) answer {
	a := answer{
		json:  jsonList(records),
		names: namesOf(records, func(r *apiv1.Record) string { return fmt.Sprint(r.Seq) }),
		table: func(w io.Writer, _ bool) {
			t := newTable("SEQ", "TIME", "SOURCE", "DONE", "TOOK", "ERRORS", "WHAT")
			for _, r := range records {
				t.add(fmt.Sprint(r.Seq), clock(r.Time), orDash(r.Source), counts(r.Done), took(r), fmt.Sprint(failures(r)), what(r))
			}
			if len(records) > 0 {
				t.write(w, c.color)
			}
		},
	}
	if full && len(records) == 1 {
		a.json = jsonObject(records[0])
		a.table = func(w io.Writer, _ bool) { writeRecord(w, records[0]) }
	}
	return a
}

// clock is a time as people compare it with logs.
func clock(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return t.AsTime().UTC().Format("2006-01-02T15:04:05.000Z")
}

// counts sums up operations: 2 create, 1 delete.
func counts(done []*apiv1.DoneStep) string {
	n := map[string]int{}
	for _, d := range done {
		n[d.Op]++
	}
	var parts []string
	for _, op := range []string{"create", "update", "replace", "delete", "give back", "look"} {
		if n[op] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[op], op))
		}
	}
	return orDash(strings.Join(parts, ", "))
}

func failures(r *apiv1.Record) (n int) {
	for _, d := range r.Done {
		if d.Error != "" && !d.Lapsed {
			n++
		}
	}
	return n
}

func took(r *apiv1.Record) string {
	if r.Settled == nil {
		return "running"
	}
	return short(durationpb.New(r.Settled.AsTime().Sub(r.Time.AsTime())))
}

// short rounds a duration to three digits or so.
func short(d *durationpb.Duration) string {
	t := d.AsDuration()
	switch {
	case t >= time.Second:
		return t.Round(10 * time.Millisecond).String()
	case t >= time.Millisecond:
		return t.Round(10 * time.Microsecond).String()
	}
	return t.String()
}

// what says what a transaction was about.
func what(r *apiv1.Record) string {
	text := r.Note
	if text == "" {
		text = strings.Join(r.Asked, " ")
	}
	if r.Earlier {
		text = strings.TrimSpace(text + " (earlier run)")
	}
	return text
}

// writeRecord shows a transaction in full.
func writeRecord(w io.Writer, r *apiv1.Record) {
	fmt.Fprintln(w, recordLine(r))
	if len(r.Asked) > 0 {
		more := ""
		if r.AskedTotal > 0 {
			more = fmt.Sprintf(" … %d in all", r.AskedTotal)
		}
		fmt.Fprintf(w, "asked: %s%s\n", strings.Join(r.Asked, " "), more)
	}
	if len(r.Done) > 0 {
		t := newTable("OP", "KEY", "BECAUSE OF", "TOOK", "ERROR")
		for _, d := range r.Done {
			t.add(d.Op, d.Key, orDash(d.Via), short(d.Took), d.Error)
		}
		t.write(w, false)
	}
	if r.Deviation != "" {
		fmt.Fprintf(w, "the plan was %s\n", r.Deviation)
	}
	writeChanges(w, r.Changed, false)
	if r.Missed > 0 {
		fmt.Fprintf(w, "%s before this could not be kept\n", plural(int(r.Missed), "change"))
	}
	if r.Dropped > 0 {
		fmt.Fprintf(w, "%s did not fit into the record\n", plural(int(r.Dropped), "step"))
	}
	if r.Settled == nil {
		fmt.Fprintln(w, "not settled yet")
	} else {
		fmt.Fprintf(w, "settled after %s\n", took(r))
	}
}
