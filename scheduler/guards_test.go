package scheduler_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// TestGuards: each way in which keys are withdrawn meets each guard, and what becomes of the
// keys is in testdata/guards. A source called "cni" owns its keys, those of "etcd" are
// operators'.
func TestGuards(t *testing.T) {
	datadriven.RunTest(t, "testdata/guards/matrix", func(t *testing.T, d *datadriven.TestData) string {
		var out strings.Builder
		for way := range strings.Lines(d.Input) {
			way = strings.TrimSpace(way)
			synctest.Test(t, func(t *testing.T) {
				g := &guarded{t: t, guard: strings.TrimSpace(d.Cmd + " " + argsOf(d)), way: way}
				fmt.Fprintf(&out, "%s: %s\n", way, g.play())
			})
		}
		return out.String()
	})
}

func argsOf(d *datadriven.TestData) string {
	var all []string
	for _, a := range d.CmdArgs {
		all = append(all, a.String())
	}
	return strings.Join(all, " ")
}

// guarded is one withdrawal of twelve keys, each with a derived one, against one guard.
type guarded struct {
	t          *testing.T
	guard, way string
	r          *running
}

const guardedKeys = 12

// keeps reports whether something else is wanted all the time.
func (g *guarded) keeps() bool { return g.guard != "everything" }

func (g *guarded) options() scheduler.Options {
	o := scheduler.Options{Sources: []string{"etcd", "cni"}}
	p := scheduler.Policy{}
	switch name, value, _ := strings.Cut(g.guard, "="); name {
	case "deletions":
		p.Deletions, _ = scheduler.ParseDeletions(value)
	case "everything":
		p.Deletions = scheduler.Deletions{Most: 100}
	case "disruptions":
		p.Disruptions, _ = scheduler.ParseDisruptions(value)
	case "drift":
		p.Drift = map[string]scheduler.DriftPolicy{"alert": scheduler.DriftAlert, "ignore": scheduler.DriftIgnore}[value]
	}
	if p != (scheduler.Policy{}) {
		o.Policies = []scheduler.Policy{p}
	}
	return o
}

// start has a process whose guard does not depend on policies yet.
func (g *guarded) start(w *schedulertest.World, hold bool) {
	g.r = startOn(g.t, w, g.options(), func(d scheduler.Descriptor[schedulertest.Thing, int]) scheduler.Descriptor[schedulertest.Thing, int] {
		if d.Name == "d" {
			d.DerivedBy = func(k scheduler.Key) scheduler.Key {
				return scheduler.Key("a/" + strings.Split(string(k), "/")[1])
			}
		}
		return d
	})
	if hold {
		g.hold()
	}
}

// hold has the guards hold that people call for.
func (g *guarded) hold() {
	switch name, target, _ := strings.Cut(g.guard, " "); name {
	case "freeze":
		g.r.check(g.r.Pause("", "everything is frozen", time.Time{}))
	case "pause":
		g.r.check(g.r.Pause(scheduler.Key(target), "on purpose", time.Time{}))
	case "shadow":
		g.r.check(g.r.Shadow("a shadow"))
	}
	if strings.HasPrefix(g.guard, "drift") {
		g.r.world.Put("a/1", schedulertest.Thing{Text: "changed", Derives: []string{"p"}}, true)
	}
	synctest.Wait()
}

// owned is the source of the keys.
func (g *guarded) owned() string {
	if strings.HasPrefix(g.way, "owner") {
		return "cni"
	}
	return "etcd"
}

func (g *guarded) keys() (keys []scheduler.Key) {
	for i := range guardedKeys {
		keys = append(keys, scheduler.Key(fmt.Sprint("a/", i+1)))
	}
	return keys
}

// wants are the changes that want the keys, by values that end so.
func (g *guarded) wants(value string) (all []scheduler.Change) {
	for _, k := range g.keys() {
		all = append(all, changes(string(k)+" v1"+value)...)
	}
	return all
}

func (g *guarded) gone() (all []scheduler.Change) {
	for _, k := range g.keys() {
		all = append(all, scheduler.Withdraw(k))
	}
	return all
}

func (g *guarded) other() []scheduler.Change {
	if g.keeps() {
		return changes("b/1 v1")
	}
	return nil
}

func (g *guarded) submit(t scheduler.Txn) {
	g.r.Submit(t)
	synctest.Wait()
}

func (g *guarded) play() string {
	w := schedulertest.NewWorld()
	g.start(w, false)
	silent := map[string]string{"etcd": "cni", "cni": "etcd"}[g.owned()]
	if g.owned() == "etcd" {
		g.submit(scheduler.Txn{Source: "etcd", Complete: true, Want: append(g.other(), g.wants(" derives=p")...)})
		g.submit(scheduler.Txn{Source: silent, Complete: true})
	} else {
		g.submit(scheduler.Txn{Source: silent, Complete: true, Want: g.other()})
		g.submit(scheduler.Txn{Source: "cni", Complete: true, Want: g.wants(" derives=p")})
	}
	if strings.HasSuffix(g.way, "after a restart") {
		g.r.check(g.r.stop())
		w.NewProcess()
		g.start(w, true)
	} else {
		g.hold()
	}
	g.withdraw()
	out := g.left()
	time.Sleep(time.Minute)
	synctest.Wait()
	if later := g.left(); later != out {
		out += "; a minute later " + later
	}
	return out
}

// withdraw takes the keys back in the way of this test.
func (g *guarded) withdraw() {
	byOwner := scheduler.Txn{Source: "cni", ByOwner: true, Want: g.gone()}
	byName := scheduler.Txn{Source: "etcd", Want: g.gone()}
	list := scheduler.Txn{Source: "etcd", Complete: true, Want: g.other()}
	switch g.way {
	case "owner":
		g.submit(byOwner)
	case "owner, in the first list after a restart":
		byOwner.Complete = true
		g.r.Submit(byOwner)
		g.submit(list)
	case "owner, in the first list, long before others, after a restart":
		byOwner.Complete = true
		g.submit(byOwner)
		g.submit(list)
	case "owner, of what a list held after a restart":
		g.r.Submit(scheduler.Txn{Source: "cni", Complete: true})
		g.submit(list)
		g.submit(byOwner)
	case "name":
		g.submit(byName)
	case "list":
		g.submit(list)
	case "list after a restart":
		g.r.Submit(scheduler.Txn{Source: "cni", Complete: true})
		g.submit(list)
	case "announced name", "announced list", "announced list after a restart":
		end, err := g.r.TakeBack(g.keys()...)
		g.r.check(err)
		if g.way == "announced list after a restart" {
			g.r.Submit(scheduler.Txn{Source: "cni", Complete: true})
		}
		if g.way == "announced name" {
			list = byName
		}
		g.submit(list)
		end()
	case "plan":
		p, err := g.r.Preview(ctx, byName)
		g.r.check(err)
		byName.Base = p.Base
		g.submit(byName)
	case "smaller values":
		g.submit(scheduler.Txn{Source: "etcd", Want: g.wants("")})
	case "smaller values after a restart":
		g.r.Submit(scheduler.Txn{Source: "cni", Complete: true})
		g.submit(scheduler.Txn{Source: "etcd", Complete: true, Want: append(g.other(), g.wants("")...)})
	default:
		g.fail()
	}
}

func (g *guarded) fail() { g.t.Fatalf("there is no way %q", g.way) }

// left says what is left of the keys, and what holds it.
func (g *guarded) left() string {
	there := g.r.world.Objects()
	var base, derived int
	for k := range there {
		switch {
		case strings.HasPrefix(string(k), "a/"):
			base++
		case strings.HasPrefix(string(k), "d/"):
			derived++
		}
	}
	out := fmt.Sprintf("%d left, %d derived", base, derived)
	if base+derived == 0 {
		out = "gone"
	}
	held, err := g.r.HeldBack()
	g.r.check(err)
	for _, h := range held {
		out += fmt.Sprintf("; %s: %d keys, %s", h.ID, len(h.Keys), h.Reason)
	}
	all, err := g.r.List(ctx, "a/")
	g.r.check(err)
	var reasons []string
	for _, s := range all {
		if s.State != scheduler.Configured && len(held) == 0 && !slices.Contains(reasons, s.Reason) {
			reasons = append(reasons, s.Reason)
		}
	}
	if len(reasons) > 0 {
		out += "; " + strings.Join(reasons, " | ")
	}
	return out
}
