package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// Failure is what is wrong with the scheduler.
type Failure struct {
	// What is the class of it, in a word.
	What string
	Text string
}

func (f *Failure) Error() string { return f.What + ": " + f.Text }

func failure(what, format string, args ...any) error {
	return &Failure{What: what, Text: fmt.Sprintf(format, args...)}
}

// resume ends a pause, if it is not over.
func resume(s *scheduler.Scheduler, k scheduler.Key) error {
	if err := s.Resume(k); !errors.Is(err, scheduler.ErrNotPaused) {
		return err
	}
	return nil
}

// Heal ends all faults and pauses, has all kinds and sources present, gives the
// scheduler time, and checks that what is there is what the model expects, that
// states say so, and that nothing more is done.
func (p *Player) Heal() error {
	p.World.NoFaults()
	p.World.SetFault(nil)
	p.World.Release()
	if err := p.revive(); err != nil {
		return err
	}
	for _, k := range sortedKeys(p.pauses) {
		if err := resume(p.Scheduler, k); err != nil {
			return err
		}
	}
	clear(p.pauses)
	for _, k := range slices.Clone(p.kinds) {
		if !k.registered {
			if err := p.registerKind(k.name, k.options); err != nil {
				return err
			}
		}
	}
	if err := p.checkKinds(); err != nil {
		return err
	}
	for _, name := range slices.Clone(p.silent) {
		p.speak(name)
	}
	for range 3 { // the second for what failed for good after the first had begun, or was held back
		if err := p.letGo(); err != nil {
			return err
		}
		p.Scheduler.Submit(scheduler.Txn{LookAll: true})
		time.Sleep(time.Hour)
		if err := p.settle(); err != nil {
			return err
		}
	}
	if err := p.check(); err != nil {
		return err
	}
	return p.checkRest()
}

// checkKinds: what is of no kind can never be made, nor taken away.
func (p *Player) checkKinds() error {
	known := map[string]bool{"": true}
	for _, k := range p.kinds {
		known[k.name] = true
	}
	for _, k := range p.kinds {
		if !known[k.options.DerivedTo] {
			return fmt.Errorf("there is no kind %s here", k.options.DerivedTo)
		}
	}
	for k := range p.World.Objects() {
		if !known[schedulertest.KindName(k)] {
			return fmt.Errorf("%s is there, and of no kind that there is", k)
		}
	}
	for k := range p.Model.rank {
		if !known[schedulertest.KindName(k)] {
			return fmt.Errorf("%s is of no kind that there is", k)
		}
	}
	return nil
}

// checkRest: where all is as it should be, a look causes nothing.
func (p *Player) checkRest() error {
	before := p.World.Logged()
	p.Scheduler.Submit(scheduler.Txn{LookAll: true})
	time.Sleep(time.Minute)
	if err := p.settle(); err != nil {
		return err
	}
	if more := p.World.Lines()[before:]; len(more) > 0 {
		return failure("restless", "a look at what is settled caused operations: %v", more)
	}
	return nil
}

// check compares what is there, and the states that are told, with the model.
func (p *Player) check() error {
	all, err := p.Scheduler.List(context.Background())
	if err != nil {
		return err
	}
	p.Model.learn(all)
	got, there, ours := p.World.Objects(), map[scheduler.Key]schedulertest.Thing{}, map[scheduler.Key]schedulertest.Thing{}
	for k, t := range got {
		if p.World.Foreign(k) || p.observed(k) {
			there[k] = t
		} else {
			ours[k] = t
		}
	}
	p.Model.Own(ours, all)
	want := p.Model.Expect(there)
	for _, k := range sortedKeys(want) {
		g, ok := got[k]
		if !ok {
			return failure("missing", "%s should be %s, and is not there%s", k, want[k], p.why(k))
		}
		if g.Text != want[k].Text || g.Peer != want[k].Peer {
			return failure("other", "%s should be %s, is %s%s", k, want[k], g, p.why(k))
		}
	}
	for _, k := range sortedKeys(got) {
		if _, ok := want[k]; !ok {
			return failure("extra", "%s should not be there, is %s%s", k, got[k], p.why(k))
		}
		if old := p.World.Outdated(k); old != "" {
			return failure("outdated", "%s was built with %s, which has changed%s", k, old, p.why(k))
		}
	}
	if p.watcher != nil {
		if err := p.watcher.check(all); err != nil {
			return err
		}
	}
	return p.checkStates(all, want)
}

func (p *Player) observed(k scheduler.Key) bool {
	return slices.ContainsFunc(p.kinds, func(kd kindState) bool { return kd.name == schedulertest.KindName(k) && kd.options.Observed })
}

// checkStates: a key is configured exactly if it is there as wanted.
func (p *Player) checkStates(all []scheduler.Status, want map[scheduler.Key]schedulertest.Thing) error {
	for _, st := range all {
		p.Tally.Count("healed", st.State.String())
		_, in := want[st.Key]
		switch st.State {
		case scheduler.Configured:
			if !in {
				return failure("state", "%s is said to be configured and is not there", st.Key)
			}
		case scheduler.Pending:
			if in && len(st.Derived) == 0 && !p.World.Foreign(st.Key) {
				return failure("state", "%s is said to be pending (%s) and is there", st.Key, st.Reason)
			}
			if len(st.Missing) == 0 {
				return failure("state", "%s is pending for no reason: %s", st.Key, st.Reason)
			}
		case scheduler.InvalidState:
			if p.Model.fine(st.Key, want) && !p.World.Foreign(st.Key) {
				return failure("state", "%s is said to be invalid (%s), and is not", st.Key, st.Reason)
			}
		case scheduler.Observed:
		case scheduler.Retrying:
			if !p.World.Foreign(st.Key) && !slices.ContainsFunc(st.Derived, func(d scheduler.Status) bool { return p.World.Foreign(d.Key) }) {
				return failure("state", "%s is retrying (%s) after all has healed", st.Key, st.Reason)
			}
		default:
			return failure("state", "%s is %s (%s) after all has healed", st.Key, st.State, st.Reason)
		}
		if st.Revision%8 == 0 { // of one in eight: else half of the time goes there
			if err := p.checkRoots(st); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkRoots: of a key that is not as it should be there are roots, of one that is there
// are none, and no root is explained by something that goes on: nothing does.
func (p *Player) checkRoots(st scheduler.Status) error {
	c, err := p.Scheduler.Why(context.Background(), st.Key)
	if err != nil {
		return err
	}
	well := st.State == scheduler.Configured || st.State == scheduler.Observed
	if well != (len(c.Roots) == 0) {
		return failure("roots", "%s is %s and has %d roots: %v%s", st.Key, st.State, len(c.Roots), c.Roots, p.why(st.Key))
	}
	told := map[scheduler.Key]bool{}
	for _, r := range c.Roots {
		p.Tally.Count("root", r.Kind.String())
		switch {
		case r.Kind == scheduler.RootBusy:
			return failure("roots", "%s waits for %s, and nothing goes on: %s%s", st.Key, r.Key, r.Text, p.why(st.Key))
		case r.Kind == scheduler.RootUnfit || r.Kind == scheduler.RootCircle || r.Kind == scheduler.RootNoneOf:
		case r.Status.State == scheduler.Configured:
			return failure("roots", "%s is said to wait for %s, which is as it should be%s", st.Key, r.Key, p.why(st.Key))
		case told[r.Key]:
			return failure("roots", "%s is told of twice%s", r.Key, p.why(st.Key))
		}
		told[r.Key] = true
	}
	return nil
}

// why is what the scheduler says about a key.
func (p *Player) why(k scheduler.Key) string {
	c, err := p.Scheduler.Why(context.Background(), k)
	if err != nil {
		return "\n" + err.Error()
	}
	return "\nwhy: " + strings.TrimSpace(c.String())
}

func sortedKeys[V any](m map[scheduler.Key]V) []scheduler.Key { return slices.Sorted(maps.Keys(m)) }
