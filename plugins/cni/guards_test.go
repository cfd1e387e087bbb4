package cni_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/plumb-net/plumb/plugins/cni/wire"
	"github.com/plumb-net/plumb/scheduler"
)

// twoFamilies has more keys than a small host may lose at once, and nothing else is wanted.
const twoFamilies = `{"cniVersion":"1.1.0","name":"blue","pool":["10.62.0.0/29","fd62::/120"],"bridge":"br-blue","masquerade":true,` +
	`"capabilities":{"portMappings":true},"runtimeConfig":{"portMappings":[{"hostPort":80,"containerPort":80,"protocol":"tcp"}]}}`

// TestGuards: each way in which the service withdraws what an attachment wants meets each
// guard of the scheduler, and so do ADDs. testdata/guards has what comes of it: what the
// answer is, and what is left after it.
func TestGuards(t *testing.T) {
	datadriven.RunTest(t, "testdata/guards", func(t *testing.T, d *datadriven.TestData) string {
		guard := d.Cmd
		for _, a := range d.CmdArgs {
			guard += " " + a.String()
		}
		var out strings.Builder
		for way := range strings.Lines(d.Input) {
			way = strings.TrimSpace(way)
			in(t, func(t *testing.T, n *node) { fmt.Fprintf(&out, "%s: %s\n", way, n.guarded(t, guard, way)) })
		}
		return out.String()
	})
}

// guard has the next process work under a guard, and the present one if people can call
// for it at any time.
func (n *node) guard(t *testing.T, guard string) {
	t.Helper()
	name, value, _ := strings.Cut(guard, "=")
	p := scheduler.Policy{}
	var err error
	switch name {
	case "deletions":
		p.Deletions, err = scheduler.ParseDeletions(value)
	case "disruptions":
		p.Disruptions, err = scheduler.ParseDisruptions(value)
	case "drift":
		p.Drift = map[string]scheduler.DriftPolicy{"alert": scheduler.DriftAlert, "ignore": scheduler.DriftIgnore}[value]
	case "freeze":
		n.hold = func(s *scheduler.Scheduler) {
			n.host.frozen = "everything is frozen: work on the switch"
			must(t, s.Pause("", n.host.frozen, time.Time{}))
		}
	default:
		target, pause := strings.CutPrefix(guard, "pause ")
		if !pause {
			t.Fatalf("there is no guard %q", guard)
		}
		n.hold = func(s *scheduler.Scheduler) { must(t, s.Pause(scheduler.Key(target), "on purpose", time.Time{})) }
	}
	must(t, err)
	if p != (scheduler.Policy{}) {
		n.policies = []scheduler.Policy{p}
	}
}

func (n *node) guarded(t *testing.T, guard, way string) string {
	n.guard(t, guard)
	if n.policies != nil {
		n.restart()
	}
	hold := func() {
		if n.hold != nil {
			n.hold(n.sched)
		}
	}
	var a wire.Answer
	switch way {
	case "ADD":
		hold()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		a = n.call(ctx, "ADD", "c1", "/run/netns/7", twoFamilies)
	case "ADD under way":
		answer := make(chan wire.Answer, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() { answer <- n.call(ctx, "ADD", "c1", "/run/netns/8", twoFamilies) }()
		synctest.Wait()
		hold()
		a = <-answer
	default:
		if a := n.call(t.Context(), "ADD", "c1", "/run/netns/7", twoFamilies); a.Error != nil {
			t.Fatal(a.Error)
		}
		a = n.withdraw(t, way, hold)
	}
	n.host.frozen = "" // whether something holds is the scheduler's affair
	out := fmt.Sprint(codeOf(a))
	if a.Error != nil {
		out += " " + a.Error.Msg + ": " + a.Error.Details
	}
	for _, w := range a.Warnings {
		out += "; " + w
	}
	synctest.Wait()
	if left := n.show(); left == "" {
		out += "; nothing is left"
	} else {
		out += fmt.Sprintf("; %d left", strings.Count(left, "\n")+1)
	}
	return out
}

// withdraw has the attachment c1 removed in one way.
func (n *node) withdraw(t *testing.T, way string, hold func()) (a wire.Answer) {
	time.Sleep(time.Minute) // it is older than the call
	switch way {
	case "DEL":
		hold()
		a = n.call(t.Context(), "DEL", "c1", "", twoFamilies)
	case "GC":
		hold()
		a = n.call(t.Context(), "GC", "", "", strings.TrimSuffix(twoFamilies, "}")+`,"cni.dev/valid-attachments":[]}`)
	case "sweep":
		hold()
		n.host.at["/run/netns/7"] = 0
		n.Sweep(t.Context())
		n.Sweep(t.Context())
	case "DEL that a crash ends":
		n.kernel.stuck.Store(true)
		n.call(t.Context(), "DEL", "c1", "", twoFamilies)
		n.stop()
		n.kernel.stuck.Store(false)
		n.start()
	case "another namespace after a restart":
		n.stop()
		n.host.at["/run/netns/7"] = 9
		n.start()
	case "a record that is lost":
		n.stop()
		lose(n)
		n.start()
		a = n.call(t.Context(), "DEL", "c1", "", twoFamilies)
	default:
		t.Fatalf("there is no way %q", way)
	}
	return a
}

// lose takes the records away.
func lose(n *node) {
	n.host.forgot, n.disk = "attached.json was damaged", &fullDisk{}
}
