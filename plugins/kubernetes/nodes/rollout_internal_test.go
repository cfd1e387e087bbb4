package nodes

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestRolloutSteps plays the course of a NodeIntent on one node. A command is:
//
//	intent GENERATION TEXT [confirm] [wrong]   the NodeIntent at the API server
//	step [turn] [ready] [works] [shown=G]      what is known, and one step
//	sleep DURATION
func TestRolloutSteps(t *testing.T) {
	datadriven.Walk(t, "testdata/rollout", func(t *testing.T, path string) {
		r, now := &rollout{Name: "net"}, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		i := &Intent{Timeout: time.Minute}
		var wrong error
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "intent":
				i = &Intent{Text: d.CmdArgs[1].Key, Timeout: time.Minute, Confirm: d.HasArg("confirm")}
				if _, err := fmt.Sscan(d.CmdArgs[0].Key, &i.Generation); err != nil {
					d.Fatalf(t, "%v", err)
				}
				if wrong = nil; d.HasArg("wrong") {
					wrong = errors.New("unreadable")
				}
				return ""
			case "sleep":
				pause, err := time.ParseDuration(d.CmdArgs[0].Key)
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				now = now.Add(pause)
				return ""
			case "step":
				f := facts{intent: i, wrong: wrong, now: now, turn: d.HasArg("turn"), ready: d.HasArg("ready"), works: d.HasArg("works"), trouble: "no answer"}
				d.MaybeScanArgs(t, "shown", &f.shown)
				next, _ := r.step(f)
				return r.text() + ", " + [...]string{"nothing", "claim a turn", "end the turn", "run probes"}[next] + "\n"
			}
			d.Fatalf(t, "unknown command")
			return ""
		})
	})
}

func (r *rollout) text() string {
	one := func(name string, v *revision) string {
		if v == nil {
			return name + " none"
		}
		return fmt.Sprintf("%s %d %s", name, v.Generation, v.Text)
	}
	text := one("kept", r.Kept) + ", " + one("trial", r.Trial)
	if !r.Deadline.IsZero() {
		text += " until " + r.Deadline.Format(time.TimeOnly)
	}
	if r.Reverted != nil {
		text += fmt.Sprintf(", reverted %d: %s", r.Reverted.Generation, r.Reason)
	}
	return text
}

// TestRandomRollouts plays random changes, restarts, conflicts and faults on five nodes. No more nodes than maxUnavailable
// try a generation, no node keeps values that do not work there, and at rest all nodes have the last generation.
func TestRandomRollouts(t *testing.T) {
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 1))
		now := time.Unix(0, 0)
		i := &Intent{Name: "net", Timeout: time.Minute, Confirm: true, Text: "{}", MaxUnavailable: intstr.FromInt(1 + random.IntN(2))}
		nodes := map[string]*rollout{}
		for n := range 5 {
			nodes[fmt.Sprint("n", n)] = &rollout{}
		}
		bad := map[string]bool{} // texts that do not work on a node, as NODE TEXT
		var log []string
		step := func(name string, calm bool) (moved bool) {
			r := nodes[name]
			f := facts{intent: i, turn: i.holds(name), now: now, trouble: "no answer"}
			if r.Trial != nil {
				f.ready = (calm || random.IntN(3) > 0) && !bad[name+" "+r.Trial.Text]
				f.works = f.ready && (calm || random.IntN(3) > 0)
			}
			next, changed := r.step(f)
			log = append(log, fmt.Sprintf("%s: %s, %d", name, r.text(), next))
			switch {
			case next == claimTurn && len(i.Status.Applying) < i.most(5) && (calm || random.IntN(2) > 0): // else another was faster
				i.Status.Applying = append(i.Status.Applying, turn{Node: name, Generation: i.Generation, Since: metav1.NewTime(now)})
				return true
			case next == endTurn && (calm || random.IntN(2) > 0):
				for k, one := range i.Status.Applying {
					if one.Node == name {
						i.Status.Applying = append(i.Status.Applying[:k:k], i.Status.Applying[k+1:]...)
						return true
					}
				}
			}
			return changed
		}
		check := func() {
			tries := 0
			for name, r := range nodes {
				if r.Trial != nil && r.Trial.Generation == i.Generation || r.Reverted.is(i) {
					tries++
				}
				if r.Kept != nil && bad[name+" "+r.Kept.Text] {
					t.Fatalf("seed %d: %s keeps %s, which does not work\n%s", seed, name, r.Kept.Text, strings.Join(log, "\n"))
				}
			}
			if most := i.most(5); tries > most || len(i.Status.Applying) > most {
				t.Fatalf("seed %d: %d nodes try generation %d, and %v have turns; at most %d may\n%s", seed, tries, i.Generation, i.Status.Applying, most, strings.Join(log, "\n"))
			}
		}
		change := func(text string) {
			next := *i
			next.Generation++
			next.Text = text
			i = &next
			log = append(log, fmt.Sprintf("generation %d: %s", i.Generation, text))
		}
		for n := range 120 {
			switch random.IntN(12) {
			case 0:
				text := fmt.Sprint("t", n)
				if random.IntN(6) == 0 {
					text = "{}"
				}
				for name := range nodes {
					bad[name+" "+text] = text != "{}" && random.IntN(5) == 0
				}
				change(text)
			case 1:
				now = now.Add(2 * time.Minute)
			default:
				step(fmt.Sprint("n", random.IntN(5)), false)
			}
			check()
		}
		change("last")
		for moved := true; moved; {
			moved = false
			for n := range 5 {
				moved = step(fmt.Sprint("n", n), true) || moved
				check()
			}
		}
		for name, r := range nodes {
			if r.Kept == nil || r.Kept.Text != "last" || r.Trial != nil || len(i.Status.Applying) > 0 {
				t.Fatalf("seed %d: at rest %s has %s, and %v have turns\n%s", seed, name, r.text(), i.Status.Applying, strings.Join(log, "\n"))
			}
		}
	}
}

// TestCRDDescribesLimits: "kubectl explain nodeintent.spec.intent" shows how many keys a NodeIntent may have.
func TestCRDDescribesLimits(t *testing.T) {
	file, err := os.ReadFile("../../../deploy/kubernetes/nodeintent.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(file)), " ")
	for _, part := range []string{
		fmt.Sprintf("At most %d keys are allowed.", maxKeys), fmt.Sprintf("maxProperties: %d", maxKeys), fmt.Sprintf("Names that begin with %q", podPrefix),
		fmt.Sprintf("maxItems: %d", maxShown),
	} {
		if !strings.Contains(text, part) {
			t.Errorf("nodeintent.yaml does not have %q", part)
		}
	}
}
