package sim

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// noteHeld notes a transaction, and what of it is held back for good reason: what it takes
// from the intent and is there, if that is more of a kind than may go at once. Where
// things go wrong nobody but the scheduler knows what it believes to be there.
func (p *Player) noteHeld(t scheduler.Txn) error {
	source := slices.Index(p.Sources, t.Source)
	unclear := func() bool { return p.most() == 0 || p.World.Doubtful() || p.World.UnderWay() }
	if !unclear() {
		if err := p.settle(); err != nil {
			return err
		}
	}
	if unclear() { // also if what came before is slow
		p.note(source, t)
		for k := range p.takeBack(t) {
			delete(p.held, k)
		}
		return nil
	}
	before := sortedKeys(p.Model.rank)
	is, err := p.Scheduler.HeldBack()
	if err != nil {
		return err
	}
	already := func(k scheduler.Key) bool {
		return slices.ContainsFunc(is, func(h scheduler.HeldBack) bool { return slices.Contains(h.Keys, k) })
	}
	p.note(source, t)
	own := p.takeBack(t)
	for k := range own {
		delete(p.held, k)
	}
	going, count := []scheduler.Key{}, map[string]int{}
	for _, k := range before {
		_, wanted := p.Model.rank[k]
		if _, there := p.World.Objects()[k]; there && !wanted && !own[k] && !already(k) && !p.World.Foreign(k) && !p.Model.gone[schedulertest.KindName(k)] {
			going = append(going, k)
			count[schedulertest.KindName(k)]++
		}
	}
	for _, n := range count {
		if n > p.most() {
			for _, k := range going {
				p.held[k] = true
			}
			p.Tally.Count("held back", "")
			return nil
		}
	}
	return nil
}

// takeBack notes the keys that their owner takes back with a transaction. It returns all keys
// that an owner has taken back since the process began and that nobody wants, and what is there
// and may depend on them: nothing holds these.
func (p *Player) takeBack(t scheduler.Txn) map[scheduler.Key]bool {
	for _, c := range t.Want {
		if _, wanted := p.Model.rank[c.Key]; t.ByOwner && c.Value == nil && c.Invalid == nil && !wanted {
			p.byOwner[c.Key] = true
		}
	}
	own := maps.Clone(p.byOwner)
	if len(own) == 0 {
		return own
	}
	objects := p.World.Objects()
	for more := true; more; {
		more = false
		for k, o := range objects {
			dependsOn := func(n string) bool {
				key, _, _ := schedulertest.ParseNeed(n)
				for t := range own {
					if key == string(t) || strings.HasSuffix(key, "/") && schedulertest.Under(key, t) {
						return true
					}
				}
				return false
			}
			if !own[k] && (own[scheduler.Key(o.Peer)] || slices.ContainsFunc(o.Needs, dependsOn)) {
				own[k], more = true, true
			}
		}
	}
	return own
}

// most is how many keys of a kind may go at once, 0 without a limit.
func (p *Player) most() int {
	if all := p.options.Policies; len(all) == 1 && all[0].Keys == "" {
		return all[0].Deletions.Most
	}
	return 0
}

// wanted: what is wanted again is neither held any more nor withdrawn by its owner.
func (p *Player) wanted() {
	for k := range p.Model.rank {
		delete(p.held, k)
		delete(p.byOwner, k)
	}
}

// checkHeld: what is held back is there, whatever becomes of what it needs.
func (p *Player) checkHeld() error {
	for _, k := range sortedKeys(p.held) {
		if _, there := p.World.Objects()[k]; !there {
			return failure("held", "%s was to be held back, and has gone%s", k, p.why(k))
		}
	}
	return nil
}

// taken: what others take away is not held any more.
func (p *Player) taken() {
	for k := range p.held {
		if _, there := p.World.Objects()[k]; !there {
			delete(p.held, k)
		}
	}
}

// LetGo lets go what is held back under an ID, all if it is empty.
func (p *Player) LetGo(id string) error {
	clear(p.held)
	return p.Scheduler.Release(id)
}

func (p *Player) letGo() error {
	if err := p.LetGo(""); !errors.Is(err, scheduler.ErrNotHeldBack) {
		return err
	}
	return nil
}
