package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

// confirming are the flags of commands whose change may have to be confirmed.
type confirming struct {
	time    time.Duration
	probes  []string
	message string
}

func (f *confirming) flags(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&f.time, "confirm", 0, "take the change back after this time unless it is confirmed, for example 60s")
	cmd.Flags().StringArrayVar(&f.probes, "probe", nil, "what has to work while the change is not confirmed; may be repeated")
	messageFlag(cmd, &f.message)
}

func messageFlag(cmd *cobra.Command, message *string) {
	cmd.Flags().StringVarP(message, "message", "m", "", "what people should know about the change; see blame and history")
}

func (f *confirming) set(r *apiv1.ApplyRequest) {
	r.Confirm, r.Probes, r.Message = duration(f.time), f.probes, f.message
}

func newConfirm(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "confirm [NAME]",
		Short: "Let a change stay that waits to be confirmed",
		Long: `Confirm lets the change stay that "agentctl apply --confirm" made. Without it the
change is taken back when its time is over. With NAME, as apply and status show it,
no other change is confirmed by mistake. It is an error if nothing waits.`,
		Example: "  agentctl apply -f site.yaml --confirm 60s\n  agentctl confirm",
		Args:    maxOneArg("name of a change"),
		RunE: func(cmd *cobra.Command, args []string) error {
			out, err := c.agent().Confirm(cmd.Context(), &apiv1.ConfirmRequest{Name: first(args)})
			if err != nil {
				return err
			}
			return c.showConfirmation(jsonObject(out), out.Confirm, "confirmed")
		},
	}
}

func newAbort(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "abort [NAME]",
		Short: "Take back a change that waits to be confirmed",
		Long: `Abort takes the change back that "agentctl apply --confirm" made, without waiting until
its time is over. What somebody else has changed since stays, and is told. While the
store cannot be written, the former values count on this host nevertheless, and are
written when it can; abort then exits with 1.

With the ID of deletions that are held back (see "agentctl release") it undoes the
transaction that asked for them.`,
		Example: "  agentctl abort",
		Args:    maxOneArg("name of a change"),
		RunE: func(cmd *cobra.Command, args []string) error {
			out, err := c.agent().Abort(cmd.Context(), &apiv1.AbortRequest{Name: first(args)})
			if err != nil {
				return err
			}
			c.notes(out.Notes)
			if out.Confirm == nil { // deletions that were held back
				return c.show(answer{json: jsonObject(out), table: func(io.Writer, bool) {}})
			}
			if err := c.showConfirmation(jsonObject(out), out.Confirm, "taken back"); err != nil {
				return err
			}
			if out.Confirm.Trouble != "" {
				c.tell("taken back on this host, and not yet in the store: %s", out.Confirm.Trouble)
				return differs
			}
			return nil
		},
	}
}

func newExtend(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "extend TIME [NAME]",
		Short:   "Give a change more time to be confirmed",
		Long:    "Extend has a change wait for at least so long from now on to be confirmed.",
		Example: "  agentctl extend 10m",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usage(cmd, "name the time, for example 10m")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := time.ParseDuration(args[0])
			if err != nil {
				return usage(cmd, "%q is no time; write it as 90s or 10m", args[0])
			}
			out, err := c.agent().Extend(cmd.Context(), &apiv1.ExtendRequest{By: durationpb.New(d), Name: first(args[1:])})
			if err != nil {
				return err
			}
			return c.showConfirmation(jsonObject(out), out.Confirm, waits(out.Confirm))
		},
	}
}

func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

func (c *cli) showConfirmation(json func() []byte, p *apiv1.Confirmation, how string) error {
	return c.show(answer{json: json, names: []string{p.Name}, table: func(w io.Writer, _ bool) {
		fmt.Fprintf(w, "%s %s\n", p.Name, how)
	}})
}

// waits says until when a change waits.
func waits(p *apiv1.Confirmation) string {
	return "is taken back at " + p.Deadline.AsTime().Local().Format(time.TimeOnly) + " unless it is confirmed"
}

// writeConfirm tells of the change that waits.
func writeConfirm(w io.Writer, p *apiv1.Confirmation) {
	if p != nil {
		how := waits(p)
		switch {
		case p.Trouble != "":
			how = "is taken back on this host, and not yet in the store: " + p.Trouble
		case p.Reverting != "":
			how = "is being taken back: " + p.Reverting
		}
		fmt.Fprintf(w, "confirm  %s by %s (%d keys) %s\n", p.Name, p.By, len(p.Keys), how)
		if p.Message != "" {
			fmt.Fprintf(w, "         %s\n", p.Message)
		}
	}
	fmt.Fprintln(w)
}
