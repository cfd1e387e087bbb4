package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

func newEvents(c *cli) *cobra.Command {
	var watch bool
	var since, until string
	var after uint64
	req := new(apiv1.EventsRequest)
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show what happened to containers and to the agent",
		Long: `Events shows what happened to the containers of the host, to their runtimes and
to the agent, oldest first. It filters first and then shows the newest.

Types are discovered, created, started, died, oom, paused, unpaused, renamed,
image_changed, removed, label_taken and label_refused; and agent_started,
runtime_connected, runtime_lost, runtime_absent and runtime_version.

Every event has a number, which continues after a restart of the agent; the numbers, and
not the times, tell what came after what. --after continues from one. Of what was
dropped before it could be shown it says so.

What happened while no agent was there, and is found out by what it told before and
what is there now, says "found later".

With -w it continues and shows what happens, without --since, --after and --last
only that; with -o json one object on each line.`,
		Example: `  agentctl events
  agentctl events --container web --type died,oom
  agentctl events --label app=shop --since 1h -n 20
  agentctl events -w -o json --after 4711`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if req.Since, err = c.time(cmd, "since", since); err != nil {
				return err
			}
			if req.Until, err = c.time(cmd, "until", until); err != nil {
				return err
			}
			if cmd.Flags().Changed("after") {
				req.After = &after
			}
			if watch {
				return c.watchEvents(cmd.Context(), req)
			}
			return c.events(cmd.Context(), req)
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&watch, "watch", "w", false, "go on and show what happens")
	f.StringVar(&since, "since", "", "only later ones: a time in RFC 3339, or how long ago, such as 10m")
	f.StringVar(&until, "until", "", "only earlier ones, in the same way")
	f.StringSliceVar(&req.Types, "type", nil, "only these types")
	f.StringVar(&req.Container, "container", "", "only of this container: a name, an id or its beginning, RUNTIME:ID")
	f.StringArrayVar(&req.Labels, "label", nil, "only of containers with this label: NAME=VALUE, or NAME")
	f.Uint32VarP(&req.Limit, "last", "n", 0, "only the newest so many of those that match (default 1000)")
	f.Uint64Var(&after, "after", 0, "only those with higher numbers")
	return cmd
}

// events shows what is kept.
func (c *cli) events(ctx context.Context, req *apiv1.EventsRequest) error {
	out, err := c.agent().Events(ctx, req)
	if err != nil {
		return err
	}
	if len(out.Events) == 0 {
		c.tell("no events")
	}
	return c.show(answer{
		json:  jsonList(out.Events),
		names: namesOf(out.Events, func(e *apiv1.ContainerEvent) string { return fmt.Sprint(e.Seq) }),
		table: c.eventTable(out.Events),
	})
}

// watchEvents shows events until it is interrupted.
func (c *cli) watchEvents(ctx context.Context, req *apiv1.EventsRequest) error {
	stream, err := c.agent().WatchEvents(ctx, req)
	if err != nil {
		return err
	}
	defer stream.Close()
	t, head, last := newEventTable(), true, uint64(0)
	for stream.Receive() {
		m := stream.Msg()
		if m.Gap != nil {
			if err := c.showGap(m.Gap); err != nil {
				return err
			}
		}
		if err := c.showEvents(t, m.Events, &head); err != nil {
			return err
		}
		last = m.UpTo
	}
	if err := stream.Err(); err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		if last > 0 {
			c.tell("continue with --after %d", last)
		}
		return err
	}
	return nil
}

// showEvents writes one object on each line, or rows below the first head.
func (c *cli) showEvents(t *table, all []*apiv1.ContainerEvent, head *bool) error {
	if c.output == "table" || c.output == "wide" {
		for _, e := range all {
			addEvent(t, e, c.output == "wide")
		}
		if *head && len(all) > 0 {
			t.write(c.stdout, c.color)
			*head = false
			return nil
		}
		t.flush(c.stdout, c.color)
		return nil
	}
	for _, e := range all {
		if err := c.showLine(apiv1.JSON(e), fmt.Sprint(e.Seq)); err != nil {
			return err
		}
	}
	return nil
}

// showGap says what is missing: as an object among the others, and to people.
func (c *cli) showGap(g *apiv1.EventGap) error {
	text := fmt.Sprintf("some of the events %d to %d are missing: they were dropped before they could be shown", g.From, g.To)
	if g.Foreign {
		text = fmt.Sprintf("the agent knows no event %d: its events begin anew", g.From-1)
	}
	c.tell("%s", text)
	if c.output == "json" || c.output == "yaml" {
		return c.showLine([]byte(`{"gap":`+string(apiv1.JSON(g))+`}`), "")
	}
	return nil
}

// eventTable is the table of events that are there.
func (c *cli) eventTable(all []*apiv1.ContainerEvent) func(io.Writer, bool) {
	return func(w io.Writer, wide bool) {
		t := newEventTable()
		for _, e := range all {
			addEvent(t, e, wide)
		}
		if len(all) > 0 {
			t.write(w, c.color)
		}
	}
}

func newEventTable() *table { return newTable("SEQ", "TIME", "EVENT", "CONTAINER", "WHAT") }

func addEvent(t *table, e *apiv1.ContainerEvent, wide bool) {
	of := "-"
	if e.ContainerId != "" {
		of = containerName(e.Name, e.ContainerId, wide)
	}
	if e.Runtime != "" && of != "-" {
		of = e.Runtime + ":" + of
	} else if e.Runtime != "" {
		of = e.Runtime
	}
	t.add(fmt.Sprint(e.Seq), clock(e.Time), e.Type, of, whatHappened(e))
}

// whatHappened says in words what the type leaves open.
func whatHappened(e *apiv1.ContainerEvent) string {
	var parts []string
	say := func(when bool, format string, args ...any) {
		if when {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	switch e.Type {
	case "discovered":
		say(e.State != "", "%s", e.State)
		say(e.Pid != 0, "pid %d", e.Pid)
		if e.ExitCode != nil {
			parts = append(parts, ending(e)...)
		}
	case "started":
		say(e.Pid != 0, "pid %d", e.Pid)
	case "died":
		parts = ending(e)
		say(e.Oom != nil, "%s", bystander(e.Oom))
	case "oom":
		parts = killing(e.Oom)
	case "renamed":
		say(true, "from %s", e.OldName)
	case "image_changed":
		say(true, "from %s to %s", e.OldImage, e.Image)
	}
	say(e.Type == "label_taken" || e.Type == "label_refused" && e.Microservice != "", "service label %s", e.Microservice)
	say(e.Detail != "", "%s", e.Detail)
	say(e.Type == "created" || e.Type == "discovered", "%s", orDash(e.Image))
	say(e.Microservice != "" && (e.Type == "discovered" || e.Type == "started"), "serves %s", e.Microservice)
	say(e.Amends, "(more of what was told before)")
	say(e.FoundLater, "(found later)")
	return strings.Join(parts, ", ")
}

// ending says how a container ended.
func ending(e *apiv1.ContainerEvent) (parts []string) {
	switch {
	case e.ExitCode == nil || *e.ExitCode < 0:
		parts = append(parts, "exit code unknown")
	case e.Signal != 0:
		parts = append(parts, fmt.Sprintf("exit code %d (signal %d)", *e.ExitCode, e.Signal))
	default:
		parts = append(parts, fmt.Sprintf("exit code %d", *e.ExitCode))
	}
	if e.Reason != "" {
		parts = append(parts, e.Reason)
	}
	if e.StartedAt != nil && e.FinishedAt != nil {
		if d := e.FinishedAt.AsTime().Sub(e.StartedAt.AsTime()); d >= 0 {
			parts = append(parts, "after "+short(durationpb.New(d)))
		}
	}
	return parts
}

// bystander says who was killed for lack of memory in a run that did not end by it.
func bystander(k *apiv1.OOMKill) string {
	who := "a process of it"
	if k.GetPid() != 0 {
		who = fmt.Sprintf("a child process, %d (%s),", k.Pid, k.Process)
	}
	return fmt.Sprintf("%s was killed for lack of memory at %s", who, clock(k.GetTime()))
}

// killing says who was killed for lack of memory, and whose limit it was.
func killing(k *apiv1.OOMKill) (parts []string) {
	if k == nil {
		return []string{"the victim is unknown"}
	}
	switch {
	case k.Pid != 0:
		parts = append(parts, fmt.Sprintf("killed %d (%s)", k.Pid, k.Process))
	case k.Count > 1:
		parts = append(parts, fmt.Sprintf("killed %d processes, which ones is unknown", k.Count))
	default:
		parts = append(parts, "the victim is unknown")
	}
	switch {
	case k.Constraint == "CONSTRAINT_NONE":
		parts = append(parts, "the host ran out of memory")
	case k.OwnerCgroup != "":
		parts = append(parts, "limit of "+k.OwnerCgroup)
	}
	return parts
}
