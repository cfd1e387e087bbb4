package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

func newWhy(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "why KEY",
		Short: "Explain how a key stands, down to what blocks it",
		Long: `Why prints the roots of what blocks a key, each in a line with what to do, then
the chain from the key down to them, and the one from its last operation up to
the transaction that caused it.`,
		Example: `  agentctl why route/default
  agentctl why interface/web -o json`,
		Args:              oneArg("key"),
		ValidArgsFunction: c.keysAndKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			cause, err := c.agent().Why(cmd.Context(), &apiv1.WhyRequest{Key: args[0]})
			if err != nil {
				return err
			}
			return c.show(answer{
				json:  jsonObject(cause),
				names: chain(cause),
				table: func(w io.Writer, _ bool) {
					writeRoots(w, cause)
					writeCause(w, cause, "", "")
					writeChain(w, cause)
				},
			})
		},
	}
}

// writeRoots says first what people want to know: what it is that blocks the key, and
// what they can do.
func writeRoots(w io.Writer, c *apiv1.Cause) {
	for _, r := range c.Roots {
		fmt.Fprintf(w, "root: %s ⇒ %s\n", strings.Join(strings.Fields(r.Text), " "), r.Advice)
	}
}

// writeCause draws the chain as a tree. first stands before the first line,
// rest before all others.
func writeCause(w io.Writer, c *apiv1.Cause, first, rest string) {
	lines := strings.Split(strings.TrimRight(c.Text, "\n"), "\n")
	for i, line := range lines {
		if i == 0 {
			fmt.Fprintln(w, first+line)
		} else {
			fmt.Fprintln(w, rest+line)
		}
	}
	for i, b := range c.Because {
		if i == len(c.Because)-1 {
			writeCause(w, b, rest+"└─ ", rest+"   ")
		} else {
			writeCause(w, b, rest+"├─ ", rest+"│  ")
		}
	}
}

// writeChain tells what led to the last operation on the key.
func writeChain(w io.Writer, c *apiv1.Cause) {
	if c.Record == nil {
		return
	}
	for i, s := range c.Chain {
		word, text := "because of", strings.TrimPrefix(s.Op+" "+s.Key, "none ")
		if i == 0 {
			word = "last done:"
		}
		if s.Error != "" {
			text += " failed: " + s.Error
		}
		fmt.Fprintf(w, "%s %s\n", word, text)
	}
	fmt.Fprintf(w, "last moved by %s\n", recordLine(c.Record))
	if c.Again != 0 {
		fmt.Fprintf(w, "asked for again by transaction %d, and was so already\n", c.Again)
	}
}

// chain lists the keys of a cause, from the top down.
func chain(c *apiv1.Cause) []string {
	out := []string{c.Status.GetKey()}
	for _, b := range c.Because {
		out = append(out, chain(b)...)
	}
	return out
}

// recordLine names a transaction in a line.
func recordLine(r *apiv1.Record) string {
	note := r.Note
	if r.Source != "" {
		note = strings.TrimSuffix(r.Source+": "+note, ": ")
	}
	if r.Earlier {
		note += " (earlier run)"
	}
	return strings.TrimRight(fmt.Sprintf("transaction %d at %s  %s", r.Seq, clock(r.Time), note), " ")
}
