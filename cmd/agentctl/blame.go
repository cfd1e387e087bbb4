package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

func newBlame(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "blame KEY",
		Short: "Tell who asked for a key and what made it",
		Long: `Blame tells which transaction asked for what is wanted of a key, which operation
made the thing that is there, and the last operations that failed. It also tells who
wrote the value into the store, from which file and why; that is kept as long as the
value is, whatever the history has forgotten. Of a key that
is gone it tells who took it back and what took it away. "before" is said of what
is there and was done before what is kept of the history, "not since" of what was
never done as far as that reaches.`,
		Example:           `  agentctl blame interface/web`,
		Args:              oneArg("key"),
		ValidArgsFunction: c.keysAndKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := c.agent().Blame(cmd.Context(), &apiv1.BlameRequest{Key: args[0]})
			if err != nil {
				return err
			}
			return c.show(answer{json: jsonObject(b), names: []string{b.Key}, table: func(w io.Writer, _ bool) { c.writeBlame(w, b) }})
		},
	}
}

func (c *cli) writeBlame(w io.Writer, b *apiv1.BlameResponse) {
	t := newTable("", "OP", "TIME", "TRANSACTION", "SOURCE", "NOTE", "BECAUSE OF", "ERROR")
	add := func(what string, d *apiv1.Deed, is bool) {
		switch {
		case d == nil && is:
			t.add(what, "-", "before "+clock(b.Since), "-", "-", "-", "-", "")
			return
		case d == nil:
			t.add(what, "-", "not since "+clock(b.Since), "-", "-", "-", "-", "")
			return
		}
		t.add(what, orDash(d.Op), clock(d.Time), fmt.Sprint(d.Seq), orDash(d.Source), orDash(d.Note), orDash(d.Via), d.Error)
	}
	if wr := b.Written; wr != nil {
		by := models.Author{By: wr.By, Message: wr.Message, Files: wr.Files}.String()
		if wr.By == "" {
			by = "not through the agent"
		}
		t.add("written", "-", clock(wr.Time), "-", "store", fmt.Sprintf("revision %d %s", wr.Revision, by), "-", "")
	}
	add("asked", b.Asked, b.Wanted)
	add("made", b.Made, b.There)
	for _, f := range b.Failures {
		add("failed", f, true)
	}
	t.write(w, c.color)
}
