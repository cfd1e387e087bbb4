package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// What the stories print.

// show prints something and changes nothing.
func (st *story) show(cmd string, args []string) string {
	ctx := context.Background()
	switch cmd {
	case "status":
		s, err := st.Scheduler.Get(ctx, scheduler.Key(args[0]))
		if err != nil {
			return err.Error() + "\n"
		}
		return describe(s)
	case "list":
		var prefixes []scheduler.Key
		for _, a := range args {
			prefixes = append(prefixes, scheduler.Key(a))
		}
		all, err := st.Scheduler.List(ctx, prefixes...)
		st.check(err)
		var b strings.Builder
		for _, s := range all {
			b.WriteString(line(s) + "\n")
		}
		return b.String()
	case "busy":
		all, err := st.Scheduler.List(ctx)
		st.check(err)
		var b strings.Builder
		for _, s := range all {
			if s.Busy {
				b.WriteString(line(s) + "\n")
			}
		}
		return b.String()
	case "history":
		var q scheduler.HistoryQuery
		if len(args) > 0 {
			q.Key = scheduler.Key(args[0])
		}
		var b strings.Builder
		for _, r := range st.Scheduler.History(q) {
			b.WriteString(r.String())
		}
		return b.String()
	case "at":
		return st.past(args)
	case "blame":
		b, err := st.Scheduler.Blame(ctx, scheduler.Key(args[0]))
		if err != nil {
			return err.Error() + "\n"
		}
		return b.String()
	case "inspect":
		all, err := st.Scheduler.Inspect(ctx)
		st.check(err)
		var b strings.Builder
		for _, s := range all {
			b.WriteString(line(s))
			if s.Grade != scheduler.NoDrift {
				fmt.Fprintf(&b, " (%s)", strings.TrimSuffix(fmt.Sprintf("%s %s", s.Grade, s.Owner), " "))
			}
			b.WriteByte('\n')
		}
		return b.String()
	case "objects":
		return st.World.String()
	case "next":
		return st.next()
	case "why":
		c, err := st.Scheduler.Why(ctx, scheduler.Key(args[0]))
		if err != nil {
			return err.Error() + "\n"
		}
		return roots(c.Roots) + c.String()
	case "held":
		all, err := st.Scheduler.HeldBack()
		st.check(err)
		out := ""
		for _, h := range all {
			out += fmt.Sprintf("%s by txn %d: %s: %d keys, from %s\n", h.ID, h.Cause, h.Reason, len(h.Keys), h.Keys[0])
		}
		return out
	case "sources":
		all, err := st.Scheduler.Sources(ctx)
		st.check(err)
		var b strings.Builder
		for _, s := range all {
			fmt.Fprintf(&b, "%s synced=%v keys=%d\n", s.Name, s.Synced, s.Keys)
		}
		return b.String()
	case "kinds":
		var b strings.Builder
		for _, k := range st.Scheduler.Kinds() {
			fmt.Fprintf(&b, "%s %s %s", k.Name, k.Prefix, strings.Join(k.Capabilities, ","))
			if k.Unread != "" {
				b.WriteString(" unread: " + k.Unread)
			}
			b.WriteByte('\n')
		}
		return b.String()
	case "edges":
		all, err := st.Scheduler.Edges(ctx)
		st.check(err)
		var b strings.Builder
		for _, e := range all {
			fmt.Fprintf(&b, "%s → %s (%s) satisfied=%v\n", e.From, e.To, e.Why, e.Satisfied)
		}
		return b.String()
	}
	st.t.Fatalf("no command %q", cmd)
	return ""
}

// past tells how keys stood some time ago, and what has changed since: "at 5s
// [prefix]".
func (st *story) past(args []string) string {
	ago, err := time.ParseDuration(args[0])
	st.check(err)
	then := time.Now().Add(-ago)
	var prefixes []scheduler.Key
	for _, a := range args[1:] {
		prefixes = append(prefixes, scheduler.Key(a))
	}
	all, err := st.Scheduler.At(context.Background(), then, prefixes...)
	if err != nil {
		return "the history does not go back that far\n"
	}
	var b strings.Builder
	for _, s := range all {
		fmt.Fprintf(&b, "%s %s\n", s.Key, moment(scheduler.Moment{State: s.State, Desired: s.Desired, Actual: s.Actual, Origin: s.Origin}))
	}
	changes, err := st.Scheduler.Changes(context.Background(), then, time.Time{}, prefixes...)
	st.check(err)
	b.WriteString("since then:\n")
	for _, c := range changes {
		fmt.Fprintf(&b, "%s txn %d: %s → %s\n", c.Key, c.Seq, moment(c.Before), moment(c.After))
	}
	return b.String()
}

// planned shows all of a plan.
func planned(p scheduler.Plan) string {
	var b strings.Builder
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "%d %v %s: %s; %v", s.N, s.Op, s.Key, s.Reason, s.Disruption)
		if len(s.After) > 0 {
			fmt.Fprintf(&b, "; after %v", s.After)
		}
		if s.Cause != "" {
			fmt.Fprintf(&b, "; because of %s", s.Cause)
		}
		b.WriteByte('\n')
	}
	for _, f := range p.Effects {
		if f.Breaks() {
			b.WriteString("breaks: ")
		}
		fmt.Fprintf(&b, "%s would be %v, is %v", f.Key, f.State, f.Was)
		if f.Reason != "" {
			b.WriteString(": " + f.Reason)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func moment(m scheduler.Moment) string {
	s := m.State.String()
	if t, ok := m.Desired.(schedulertest.Thing); ok {
		s += " wanted " + t.Text
	}
	if m.Origin != "" {
		s += " by " + m.Origin
	}
	if t, ok := m.Actual.(schedulertest.Thing); ok {
		s += " there " + t.Text
	}
	return s
}

// next reads the story's watcher once; the first time it makes it.
func (st *story) next() string {
	if st.watcher == nil {
		st.watcher = st.Scheduler.Watch()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	changes, inSync, err := st.watcher.Next(ctx)
	if err != nil {
		return "nothing new\n"
	}
	var b strings.Builder
	slices.SortFunc(changes, func(a, b scheduler.Status) int { return strings.Compare(string(a.Key), string(b.Key)) })
	for _, s := range changes {
		b.WriteString(line(s) + "\n")
	}
	fmt.Fprintf(&b, "in sync: %v\n", inSync)
	return b.String()
}

// line is a status in a line.
func line(s scheduler.Status) string {
	out := fmt.Sprintf("%s %s", s.Key, s.State)
	if s.State == scheduler.Retrying {
		out += fmt.Sprintf(" (tried %d, again in %v)", s.Attempts, time.Until(s.NextTry))
	}
	if s.Reason != "" {
		out += ": " + s.Reason
	}
	for _, m := range s.Missing {
		out += fmt.Sprintf("; %s %s", m.Need, m.Why)
	}
	return out
}

// describe is all of a status that does not change from run to run.
func describe(s scheduler.Status) string {
	var b strings.Builder
	b.WriteString(line(s) + "\n")
	text := func(name string, v any) {
		if t, ok := v.(schedulertest.Thing); ok {
			fmt.Fprintf(&b, "%s: %s\n", name, t.Text)
		}
	}
	text("desired", s.Desired)
	text("actual", s.Actual)
	fmt.Fprintf(&b, "origin: %s\n", s.Origin)
	if len(s.Shadowed) > 0 {
		fmt.Fprintf(&b, "shadowed: %s\n", strings.Join(s.Shadowed, " "))
	}
	for _, f := range s.Fields {
		fmt.Fprintf(&b, "field %s: %s\n", f.Field, f.Error)
	}
	for _, d := range s.Derived {
		b.WriteString("derived " + line(d) + "\n")
	}
	return b.String()
}

// roots shows where the chain of a why ends.
func roots(all []scheduler.Root) string {
	var b strings.Builder
	for _, r := range all {
		fmt.Fprintf(&b, "root (%s) %s", r.Kind, r.Text)
		if r.For != "" {
			fmt.Fprintf(&b, ", for %s", r.For)
		}
		if r.By != "" {
			fmt.Fprintf(&b, ", by %s", r.By)
		}
		if !r.Until.IsZero() {
			fmt.Fprintf(&b, ", until %s", r.Until.UTC().Format(time.TimeOnly))
		}
		if r.HeldBack != "" {
			fmt.Fprintf(&b, ", until %s is released", r.HeldBack)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
