package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// FullPlan is what a change must come to, worked out from all that is wanted
// and all that is there, with no graph and no order of events. It shares no code
// with the engine. What happens on the way it only bounds: a thing that stands
// on something that moves may be torn down and made again, or may not.
type FullPlan struct {
	// End is the actual state at the end.
	End map[scheduler.Key]schedulertest.Thing
	// Delete, Create and Update must happen; one that is replaced is in both of
	// the first.
	Delete, Create, Update map[scheduler.Key]bool
	// May are keys that may be deleted, made and changed in any way.
	May map[scheduler.Key]bool

	model  *Model
	actual map[scheduler.Key]schedulertest.Thing
}

// Plan works out how the actual state becomes what is wanted. updates reports whether
// things of a kind can be changed in place.
func (m *Model) Plan(actual map[scheduler.Key]schedulertest.Thing, updates func(kind string) bool) FullPlan {
	f := FullPlan{model: m, actual: actual, Delete: map[scheduler.Key]bool{}, Create: map[scheduler.Key]bool{},
		Update: map[scheduler.Key]bool{}, May: map[scheduler.Key]bool{}}
	there := map[scheduler.Key]schedulertest.Thing{}
	for k, t := range actual {
		if schedulertest.KindName(k) == "o" {
			there[k] = t
		}
	}
	f.End = m.Expect(there)
	for k, t := range f.End {
		old, was := actual[k]
		switch {
		case schedulertest.KindName(k) == "o" || was && old.SameAs(t):
		case !was:
			f.Create[k] = true
		case t.Fixed || t.Peer != old.Peer || !updates(schedulertest.KindName(k)):
			f.Delete[k], f.Create[k] = true, true
		default:
			f.Update[k] = true
		}
	}
	for k := range actual {
		if _, stays := f.End[k]; !stays {
			f.Delete[k] = true
		}
	}
	f.force()
	f.allow()
	return f
}

// force: what stays and needs by name what goes must go before, and come back.
func (f *FullPlan) force() {
	for more := true; more; {
		more = false
		for k, t := range f.End {
			old, was := f.actual[k]
			if !was || f.Delete[k] {
				continue
			}
			for _, n := range needed(k, t) {
				if (f.Delete[n] || f.Update[n] && f.End[n].Alone) && slices.Contains(needed(k, old), n) {
					f.Delete[k], f.Create[k], more = true, true, true
					delete(f.Update, k)
				}
			}
		}
	}
}

// needed are the keys that a thing needs by name, as it stands there; a derived
// one needs its base.
func needed(k scheduler.Key, t schedulertest.Thing) (out []scheduler.Key) {
	for _, n := range t.Needs {
		if key, _, _ := schedulertest.ParseNeed(n); !strings.HasSuffix(key, "/") {
			out = append(out, scheduler.Key(key))
		}
	}
	if base := baseOf(k); base != "" {
		out = append(out, base)
	}
	if t.Peer != "" && string(k) > t.Peer {
		out = append(out, scheduler.Key(t.Peer))
	}
	return out
}

// baseOf is what a derived thing d/<name>/<part> comes from.
func baseOf(k scheduler.Key) scheduler.Key {
	name, _, derived := strings.Cut(schedulertest.Rest(k), "/")
	if schedulertest.KindName(k) != "d" || !derived {
		return ""
	}
	return scheduler.Key("a/" + name)
}

// allow finds what may be torn down on the way: what needs, or needed, or is
// tied by a name or as a peer to something that moves.
func (f *FullPlan) allow() {
	keys := map[scheduler.Key]bool{}
	for _, m := range []map[scheduler.Key]schedulertest.Thing{f.actual, f.End, f.model.valid} {
		for k := range m {
			keys[k] = true
		}
	}
	for more := true; more; {
		more = false
		for k := range keys {
			if !f.May[k] && !f.still(k) {
				f.May[k], more = true, true
			}
		}
	}
}

// still reports whether nothing that concerns the key moves.
func (f *FullPlan) still(k scheduler.Key) bool {
	moves := func(n scheduler.Key) bool {
		return n != k && (f.Delete[n] || f.Create[n] || f.Update[n] || f.May[n])
	}
	for _, t := range []schedulertest.Thing{f.actual[k], f.End[k], f.model.valid[k]} {
		if t.Peer != "" && moves(scheduler.Key(t.Peer)) || slices.ContainsFunc(needed(k, t), moves) {
			return false
		}
		for _, n := range t.Needs {
			if key, _, _ := schedulertest.ParseNeed(n); strings.HasSuffix(key, "/") && f.anyMoves(key, moves) {
				return false
			}
		}
		for _, c := range t.Claims {
			for _, m := range []map[scheduler.Key]schedulertest.Thing{f.actual, f.End, f.model.valid} {
				for o, t := range m {
					if slices.Contains(t.Claims, c) && moves(o) {
						return false
					}
				}
			}
		}
	}
	return true
}

func (f *FullPlan) anyMoves(need string, moves func(scheduler.Key) bool) bool {
	for _, m := range []map[scheduler.Key]bool{f.Delete, f.Create, f.Update, f.May} {
		for k := range m {
			if schedulertest.Under(need, k) && moves(k) {
				return true
			}
		}
	}
	return false
}

// Check compares a plan with what must be: its steps as a set, and that they
// lead to the end in the order in which they stand, and in any other that they
// allow.
func (f FullPlan) Check(p scheduler.Plan, orders ...func(n int) int) error {
	if err := f.checkSet(p); err != nil {
		return err
	}
	listed := make([]int, len(p.Steps))
	for i := range listed {
		listed[i] = i
	}
	if err := f.walk(p, listed); err != nil {
		return err
	}
	for _, pick := range orders {
		if err := f.walk(p, anyOrder(p, pick)); err != nil {
			return fmt.Errorf("in another order that the plan allows: %w", err)
		}
	}
	return nil
}

func (f FullPlan) checkSet(p scheduler.Plan) error {
	done := map[scheduler.Operation]map[scheduler.Key]int{}
	for _, op := range []scheduler.Operation{scheduler.OpCreate, scheduler.OpUpdate, scheduler.OpDelete} {
		done[op] = map[scheduler.Key]int{}
	}
	for _, s := range p.Steps {
		done[s.Op][s.Key]++
		may := map[scheduler.Operation]map[scheduler.Key]bool{
			scheduler.OpCreate: f.Create, scheduler.OpUpdate: f.Update, scheduler.OpDelete: f.Delete}[s.Op]
		if !may[s.Key] && !f.May[s.Key] {
			return fmt.Errorf("step %d, %s %s, is for nothing", s.N, s.Op, s.Key)
		}
	}
	for k := range f.Create {
		if done[scheduler.OpCreate][k] == 0 {
			return fmt.Errorf("%s must be created", k)
		}
	}
	for k := range f.Delete {
		if done[scheduler.OpDelete][k] == 0 {
			return fmt.Errorf("%s must be deleted", k)
		}
	}
	for k := range f.Update {
		if done[scheduler.OpUpdate][k]+done[scheduler.OpCreate][k] == 0 {
			return fmt.Errorf("%s must be updated", k)
		}
	}
	return nil
}

// anyOrder is an order of the steps that their After allows; of those that may
// be next, pick chooses.
func anyOrder(p scheduler.Plan, pick func(n int) int) (order []int) {
	done := map[int]bool{}
	for len(order) < len(p.Steps) {
		var free []int
		for i, s := range p.Steps {
			if !done[s.N] && !slices.ContainsFunc(s.After, func(n int) bool { return !done[n] }) {
				free = append(free, i)
			}
		}
		i := free[pick(len(free))]
		done[p.Steps[i].N] = true
		order = append(order, i)
	}
	return order
}

// walk takes the steps one after another and keeps the laws.
func (f FullPlan) walk(p scheduler.Plan, order []int) error {
	actual := maps.Clone(f.actual)
	for _, i := range order {
		s := p.Steps[i]
		_, there := actual[s.Key]
		if there != (s.Op != scheduler.OpCreate) {
			return fmt.Errorf("step %d, %s %s: there is %v", s.N, s.Op, s.Key, actual[s.Key])
		}
		if s.Op == scheduler.OpDelete {
			delete(actual, s.Key)
			for k, t := range actual {
				if slices.Contains(needed(k, t), s.Key) || !anyLeft(t, k, actual) {
					return fmt.Errorf("step %d deletes %s, which %s stands on", s.N, s.Key, k)
				}
			}
			continue
		}
		t := f.wanted(s.Key)
		if !met(t, s.Key, actual) {
			return fmt.Errorf("step %d, %s %s, without what it needs: %v", s.N, s.Op, s.Key, t.Needs)
		}
		if base := baseOf(s.Key); base != "" && actual[base].Text == "" {
			return fmt.Errorf("step %d, %s %s, without its base", s.N, s.Op, s.Key)
		}
		if s.Op == scheduler.OpUpdate && t.Alone {
			for k, o := range actual {
				if slices.Contains(needed(k, o), s.Key) {
					return fmt.Errorf("step %d updates %s alone, which %s stands on", s.N, s.Key, k)
				}
			}
		}
		actual[s.Key] = t
	}
	if !maps.EqualFunc(actual, f.End, schedulertest.Thing.Equal) {
		return fmt.Errorf("it ends in\n%v\nand should in\n%v", actual, f.End)
	}
	return nil
}

// anyLeft reports whether for each need of any key below a prefix there is one.
func anyLeft(t schedulertest.Thing, self scheduler.Key, actual map[scheduler.Key]schedulertest.Thing) bool {
	for _, n := range t.Needs {
		if key, _, _ := schedulertest.ParseNeed(n); strings.HasSuffix(key, "/") && !met(schedulertest.Thing{Needs: []string{key}}, self, actual) {
			return false
		}
	}
	return true
}

// wanted is the value that a key is made with.
func (f FullPlan) wanted(k scheduler.Key) schedulertest.Thing {
	if t, ok := f.model.valid[k]; ok {
		return t
	}
	for _, d := range f.model.valid[baseOf(k)].Derives {
		name, needs, _ := strings.Cut(d, "<")
		if strings.HasSuffix(string(k), "/"+name) {
			t := schedulertest.Thing{Text: "derived"}
			if needs != "" {
				t.Needs = []string{needs}
			}
			return t
		}
	}
	return schedulertest.Thing{}
}
