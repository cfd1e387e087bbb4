package rule

import (
	"context"
	"errors"
	"fmt"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// resolve finds the namespace of a value and the rule as the kernel shall have it.
func (d *rule) resolve(ctx context.Context, v *models.Rule) (place selector.Place, r kernel.Rule, err error) {
	names := v.Interfaces()
	if len(names) == 0 {
		place, err = d.Places.Resolve(ctx, v.GetNamespace())
	}
	host := map[string]string{}
	for i, name := range names {
		ref, err := kind.LinkOf(d.Interfaces, name)
		if err != nil {
			return place, r, err
		}
		if i > 0 && ref.NS != place.NS {
			return place, r, scheduler.Terminal(fmt.Errorf("interfaces %s and %s live in different namespaces; a rule lives in one", names[0], name))
		}
		place.NS = ref.NS
		if e, ok := d.Owner.Entry(models.InterfaceKey(name)); ok {
			place.Path = e.NSPath
		}
		l, err := d.Kernel.LinkByIndex(ref.NS, ref.Index)
		if err != nil {
			return place, r, err
		}
		host[name] = l.Name
	}
	iif := v.GetIif()
	if iif != models.LocalIif {
		iif = host[iif]
	}
	r = plain(v, iif, host[v.GetOif()])
	r.Protocol = d.Owner.Protocol()
	return place, r, err
}

func (d *rule) prepare(ctx context.Context, o *op) (job owned.Job[kernel.LinkRef], err error) {
	place, r, err := d.resolve(ctx, o.Value)
	if err != nil {
		return job, err
	}
	ref := kernel.LinkRef{NS: place.NS}
	e := kernel.Entry{ID: string(o.Key), NS: place.NS, NSPath: place.Path, Value: models.Encode(o.Value), Mark: text(r)}
	before, had := d.Owner.Entry(e.ID)
	recorded := had && before.NS == e.NS && before.Mark == e.Mark
	if by, there := d.others(place.NS, r); there && o.Value.GetAdopt() && !recorded {
		return owned.Job[kernel.LinkRef]{
			Entries: []kernel.Entry{e.TakeOver(by)},
			Make: func() (kernel.LinkRef, error) {
				d.have.Note(place.NS, e.Mark, o.Key)
				return ref, nil
			},
		}, nil
	}
	return owned.Job[kernel.LinkRef]{
		Entries: []kernel.Entry{e},
		Make: func() (kernel.LinkRef, error) {
			if err := ctx.Err(); err != nil {
				return ref, err
			}
			return ref, d.make(o.Key, place.NS, r, recorded)
		},
	}, nil
}

// others is who made a rule that says the same, if that was people.
func (d *rule) others(ns kernel.NS, r kernel.Rule) (protocol uint8, there bool) {
	if k, taken := d.have.Get(ns, text(r)); taken && (d.Wanted == nil || d.Wanted(k)) {
		return 0, false
	}
	all, err := d.Kernel.Rules(ns)
	if err != nil {
		return 0, false
	}
	for _, o := range all {
		if kernel.ByPeople(o.Protocol) && same(o, r) {
			return o.Protocol, true
		}
	}
	return 0, false
}

// standing is for readings; see [owned.Objects].
func (d *rule) standing(ctx context.Context, k scheduler.Key, v *models.Rule) (e kernel.Entry, there bool) {
	if !v.GetAdopt() {
		return e, false
	}
	place, r, err := d.resolve(ctx, v)
	if err != nil {
		return e, false
	}
	by, there := d.others(place.NS, r)
	e = kernel.Entry{ID: string(k), NS: place.NS, NSPath: place.Path, Value: models.Encode(v), Mark: text(r)}
	return e.TakeOver(by), there
}

// make makes a rule. recorded says that the ledger named it before.
func (d *rule) make(k scheduler.Key, ns kernel.NS, r kernel.Rule, recorded bool) (err error) {
	defer func() {
		if err != nil && !recorded {
			d.Owner.Remove(string(k))
		}
	}()
	says := text(r)
	other, taken := d.have.Get(ns, says)
	if taken && other != k && (d.Wanted == nil || d.Wanted(other)) {
		return scheduler.Blocked(other, fmt.Errorf("rule %s is in use by %s", says, other))
	}
	d.have.Note(ns, says, k) // first, or we take the event for news
	err = d.Kernel.AddRule(ns, r)
	if errors.Is(err, kernel.ErrExist) {
		err = d.clash(ns, r)
	}
	if err != nil {
		return err
	}
	recorded = true // it is there
	return d.Owner.Hit("rule/made")
}

// clash looks at what says the same: it is ours by its number, or somebody else's.
func (d *rule) clash(ns kernel.NS, r kernel.Rule) error {
	all, err := d.Kernel.Rules(ns)
	if err != nil {
		return err
	}
	for _, there := range all {
		if there.Protocol == r.Protocol && same(there, r) {
			return nil
		}
	}
	return scheduler.Conflict("somebody else", fmt.Errorf("there is a rule already that says the same: %s; choose another priority, or remove it", text(r)))
}

// same reports whether two rules say the same, and all of it is known.
func same(a, b kernel.Rule) bool { return !a.More && !b.More && text(a) == text(b) }

// delete removes the rule if it is there and bears our number.
func (d *rule) delete(_ context.Context, k scheduler.Key, _ *models.Rule, _ kernel.LinkRef) error {
	return d.objects.DeleteRecorded(k, func(e kernel.Entry) error {
		if other, _ := d.have.Get(e.NS, e.Mark); other != "" && other != k {
			return nil // another key has taken it over
		}
		if _, taken := e.TakenOver(); taken { // it stays: it goes back to those who made it
			d.forget(e)
			return nil
		}
		all, err := d.Kernel.Rules(e.NS)
		if err != nil {
			return err
		}
		for _, r := range all {
			if r.Protocol == d.Owner.Protocol() && !r.More && text(r) == e.Mark {
				d.have.Forget(e.NS, e.Mark) // first, or we take the event for news
				return d.Kernel.DeleteRule(e.NS, r)
			}
		}
		return nil
	})
}

func (d *rule) forget(e kernel.Entry) {
	if k, _ := d.have.Get(e.NS, e.Mark); k == scheduler.Key(e.ID) {
		d.have.Forget(e.NS, e.Mark)
	}
}
