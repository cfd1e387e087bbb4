package sysctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// resolve finds where a setting is.
func (d *sysctl) resolve(ctx context.Context, v *models.Sysctl) (at kernel.LinkRef, nsPath string, err error) {
	if v.GetInterface() == "" {
		var p selector.Place
		p, err = d.Places.Resolve(ctx, v.GetNamespace())
		return kernel.LinkRef{NS: p.NS}, p.Path, err
	}
	if at, err = kind.LinkOf(d.Interfaces, v.GetInterface()); err != nil {
		return at, "", err
	}
	if e, ok := d.Owner.Entry(models.InterfaceKey(v.GetInterface())); ok {
		nsPath = e.NSPath
	}
	return at, nsPath, nil
}

// place is where a setting is below /proc/sys now: links are renamed.
func (d *sysctl) place(at kernel.LinkRef, v *models.Sysctl) (string, error) {
	if at.Index == 0 {
		return v.Path(), nil
	}
	l, err := d.Kernel.LinkByIndex(at.NS, at.Index)
	return v.PathOf(l.Name), err
}

// get reads a setting.
func (d *sysctl) get(at kernel.LinkRef, v *models.Sysctl) (value string, err error) {
	place, err := d.place(at, v)
	if err == nil {
		value, err = d.Kernel.Sysctl(at.NS, place)
		if errors.Is(err, kernel.ErrNotExist) {
			err = fmt.Errorf("%w: %s is no setting of this namespace; some are of the whole host, some come with a module", kernel.ErrNotExist, v.GetKey())
		}
	}
	return value, err
}

func (d *sysctl) set(at kernel.LinkRef, v *models.Sysctl, value string) error {
	place, err := d.place(at, v)
	if err == nil {
		err = d.Kernel.SetSysctl(at.NS, place, value)
	}
	return err
}

// mark names a setting in the ledger.
func mark(at kernel.LinkRef, v *models.Sysctl) string { return at.String() + " " + v.Path() }

// createBatch makes settings one after the other, those first with which the kernel writes others.
func (d *sysctl) createBatch(ctx context.Context, ops []*op) {
	rank := func(o *op) int {
		if len(kernel.SettingWrites(o.Value.Path())) > 0 {
			return 0
		}
		return 1
	}
	for _, o := range slices.SortedStableFunc(slices.Values(ops), func(a, b *op) int { return cmp.Compare(rank(a), rank(b)) }) {
		d.objects.CreateBatch(ctx, []*op{o})
	}
}

// prepare: what was there before us is kept in the ledger.
func (d *sysctl) prepare(ctx context.Context, o *op) (job owned.Job[kernel.LinkRef], err error) {
	k, v := o.Key, o.Value
	at, nsPath, err := d.resolve(ctx, v)
	if err != nil {
		return job, err
	}
	other, err := d.holder(k, at, v)
	if err == nil && other != "" {
		err = scheduler.Blocked(other, fmt.Errorf("%s is in use by %s; it can have one value", v.GetKey(), other))
	}
	if err != nil {
		return job, err
	}
	before, err := d.get(at, v)
	if err != nil {
		return job, err
	}
	e := kernel.Entry{ID: string(k), NS: at.NS, NSPath: nsPath, Index: at.Index, Value: models.Encode(v), Mark: mark(at, v)}
	w, p := write{now: before, from: before, to: v.EffectiveValue(), first: true}, prior{Value: before}
	if had, ours := d.Owner.Entry(e.ID); ours && had.Mark == e.Mark {
		w.first = false
		w.from, p, err = keptBy(had)
	}
	if err == nil {
		w.deps, err = d.dependents(at, v)
	}
	if err != nil {
		return job, err
	}
	p, changed, err := w.shift(p)
	e.Prior = p.encode()
	return owned.Job[kernel.LinkRef]{Entries: append(changed, e), Make: func() (kernel.LinkRef, error) {
		d.note(k, at, v)
		if err := d.change(at, v, before); err != nil {
			return at, errors.Join(err, d.cancel(e, w))
		}
		if !same(before, v) {
			if err := d.settle(w, p); err != nil {
				return at, err
			}
		}
		return at, d.Owner.Hit("sysctl/made")
	}}, err
}

// cancel has the ledger be as it was before a setting that was not ours yet, and the dependents as
// they are in it.
func (d *sysctl) cancel(e kernel.Entry, w write) error {
	err := d.settle(w, prior{})
	if !w.first {
		return err
	}
	d.forget(e)
	d.Owner.Remove(e.ID)
	for _, s := range w.deps {
		if s.ours != nil {
			err = errors.Join(err, d.Owner.Record(*s.ours))
		}
	}
	return err
}

// change brings a setting to the value, or leaves it as it was before.
func (d *sysctl) change(at kernel.LinkRef, v *models.Sysctl, before string) error {
	if same(before, v) {
		return nil
	}
	if err := d.set(at, v, v.GetValue()); err != nil {
		return err
	}
	now, err := d.get(at, v)
	if err == nil && !same(now, v) {
		err = fmt.Errorf("set to %q it is %q; write it so", v.GetValue(), now)
	}
	if err != nil {
		return errors.Join(err, d.set(at, v, before))
	}
	return nil
}

// same reports whether the kernel's value of a setting is that of v.
func same(value string, v *models.Sysctl) bool {
	return (&models.Sysctl{Value: value}).EffectiveValue() == v.EffectiveValue()
}

// holder finds another key of ours with the same setting, which claims cannot see: two
// selectors that mean one namespace, or a place that is that of a link.
func (d *sysctl) holder(k scheduler.Key, at kernel.LinkRef, v *models.Sysctl) (scheduler.Key, error) {
	here, err := d.place(at, v)
	if err != nil {
		return "", err
	}
	for _, e := range d.Owner.Entries(prefix) {
		if e.ID == string(k) || e.NS != at.NS {
			continue
		}
		same := e.Mark == mark(at, v)
		if !same && (e.Index == 0 || at.Index == 0) {
			_, theirs, _ := strings.Cut(e.Mark, " ")
			same, err = d.isPlace(e, theirs, here)
		}
		if err != nil || same {
			return scheduler.Key(e.ID), err
		}
	}
	return "", nil
}

// isPlace reports whether the setting of an entry, whose place the ledger names as of a value,
// is the one that is here.
func (d *sysctl) isPlace(e kernel.Entry, place, here string) (bool, error) {
	if lane(place) != lane(here) {
		return false, nil // without asking for a link
	}
	theirs := &models.Sysctl{Key: place}
	there, err := d.place(kernel.LinkRef{NS: e.NS, Index: e.Index}, theirs)
	if kernel.IsGone(err) {
		return false, nil
	}
	return kernel.SettingName(there) == kernel.SettingName(here), err
}

// lane is equal of whatever may be one setting, or is written with another one: two keys must not
// look at once whether another one has it.
func lane(place string) string {
	switch name := path.Base(kernel.SettingName(place)); name {
	case "ip_forward", "accept_redirects":
		return "forwarding"
	case "stable_secret":
		return "addr_gen_mode"
	default:
		return name
	}
}

// delete gives a setting back the value that it had before us.
func (d *sysctl) delete(_ context.Context, k scheduler.Key, _ *models.Sysctl, _ kernel.LinkRef) error {
	return d.objects.DeleteRecorded(k, d.restore)
}

func (d *sysctl) restore(e kernel.Entry) error {
	at, v, err := recorded(e)
	if err != nil {
		return err
	}
	from, p, err := keptBy(e)
	if err == nil {
		err = d.giveBack(e, at, v, write{from: from, to: p.Value, last: true}, p)
	}
	if err != nil {
		return fmt.Errorf("give %s back its earlier value %q: %w", v.GetKey(), p.Value, err)
	}
	return nil
}

func (d *sysctl) giveBack(e kernel.Entry, at kernel.LinkRef, v *models.Sysctl, w write, p prior) (err error) {
	if w.now, err = d.get(at, v); err == nil {
		w.deps, err = d.dependents(at, v)
	}
	if err != nil {
		return err
	}
	p, changed, err := w.shift(p)
	if err != nil {
		return err
	}
	if e.Prior = p.encode(); len(w.deps) > 0 {
		err = d.Owner.Record(append(changed, e)...)
	}
	if err == nil && w.now != w.to {
		err = d.set(at, v, w.to)
	}
	if err == nil {
		err = d.settle(w, p)
	}
	return err
}

// recorded is what the ledger says of a setting.
func recorded(e kernel.Entry) (at kernel.LinkRef, v *models.Sysctl, err error) {
	v, err = models.DecodeValue[*models.Sysctl](e.Value)
	return kernel.LinkRef{NS: e.NS, Index: e.Index}, v, err
}

// keptBy returns the value that the ledger has for a setting, and what was there before.
func keptBy(e kernel.Entry) (value string, p prior, err error) {
	_, v, err := recorded(e)
	if err == nil {
		p, err = decodePrior(e)
	}
	return v.EffectiveValue(), p, err
}

// as is a value with another setting.
func as(v *models.Sysctl, value string) *models.Sysctl {
	if same(value, v) {
		return v
	}
	v = proto.CloneOf(v)
	v.Value = value
	return v
}
