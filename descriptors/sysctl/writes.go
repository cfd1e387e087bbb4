package sysctl

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
)

// The kernel writes some settings when others are written; [kernel.SettingWrites] lists them. Call
// the others dependents of the one that is written. Each entry of the ledger keeps the value that
// its setting would have without it:
//
//   - A write of a setting changes what is kept for its dependents of ours as the kernel would
//     have changed them, and their values are written again.
//   - The entry of a setting keeps the values of its dependents that are not of ours, if they had
//     another value than the setting gives. They are written back when it is deleted.
//
// So settings end with the same values in whichever order they are written and given back.

// prior is what was there before us.
type prior struct {
	Value string `json:"value"`
	// Others are the values of dependents that the value does not explain, by their marks.
	Others map[string]string `json:"others,omitempty"`
}

// encode returns the value alone if there is no more, as earlier releases wrote it.
func (p prior) encode() (b json.RawMessage) {
	if len(p.Others) == 0 {
		b, _ = json.Marshal(p.Value) // a string never fails
	} else {
		b, _ = json.Marshal(p)
	}
	return b
}

func decodePrior(e kernel.Entry) (p prior, err error) {
	if err = json.Unmarshal(e.Prior, &p.Value); err != nil {
		err = json.Unmarshal(e.Prior, &p)
	}
	return p, err
}

// dependent is a setting that the kernel writes with another.
type dependent struct {
	kernel.SettingWrite

	ns               kernel.NS
	place, mark, now string        // where it is now, its name in the ledger, its value
	ours             *kernel.Entry // nil: nobody wants a value of it
}

// dependents returns the settings that a write of another changes, in order of their places. Those
// that a link does not have, for instance because IPv6 is off, are left out.
func (d *sysctl) dependents(at kernel.LinkRef, v *models.Sysctl) (list []dependent, err error) {
	place, err := d.place(at, v)
	writes := kernel.SettingWrites(place)
	if err != nil || len(writes) == 0 {
		return nil, err
	}
	links, err := d.Kernel.Links(at.NS)
	if err != nil {
		return nil, err
	}
	ours, err := d.oursIn(at.NS)
	if err != nil {
		return nil, err
	}
	for _, w := range writes {
		for place, link := range w.Places(links) {
			s := dependent{SettingWrite: w, ns: at.NS, place: place, ours: ours[kernel.SettingName(place)]}
			s.mark = mark(kernel.LinkRef{NS: at.NS}, &models.Sysctl{Key: place})
			if link != nil {
				s.mark = mark(link.Ref(), &models.Sysctl{Key: w.To})
			}
			switch s.now, err = d.Kernel.Sysctl(at.NS, place); {
			case err == nil:
				list = append(list, s)
			case !kernel.IsGone(err):
				return nil, err
			}
		}
	}
	slices.SortFunc(list, func(a, b dependent) int { return cmp.Compare(a.place, b.place) })
	return list, nil
}

// oursIn returns the entries of the settings in a namespace by the names of these.
func (d *sysctl) oursIn(ns kernel.NS) (map[string]*kernel.Entry, error) {
	ours := map[string]*kernel.Entry{}
	for _, e := range d.Owner.Entries(prefix) {
		if e.NS != ns {
			continue
		}
		at, v, err := recorded(e)
		if err != nil {
			return nil, err
		}
		switch place, err := d.place(at, v); {
		case err == nil:
			ours[kernel.SettingName(place)] = &e
		case !kernel.IsGone(err):
			return nil, err
		}
	}
	return ours, nil
}

// write is a write of a setting that has dependents.
type write struct {
	deps []dependent
	// now is the value in the kernel, from the one that the ledger has for the setting before, to
	// the one that it gets.
	now, from, to string
	// first: the setting was not ours before. last: it will not be any more.
	first, last bool
}

// shift changes what the ledger keeps of dependents, and returns their changed entries and p with
// the values of the others.
func (w write) shift(p prior) (prior, []kernel.Entry, error) {
	var changed []kernel.Entry
	others := maps.Clone(p.Others)
	if others == nil {
		others = map[string]string{}
	}
	for _, s := range w.deps {
		kept, known := p.Others[s.mark]
		switch {
		case s.ours == nil:
			if !s.Untouched && w.now != w.to && s.now != s.Gets(w.now) {
				others[s.mark] = s.now
			}
			continue
		case w.from == w.to && !w.last:
			continue
		}
		without, err := decodePrior(*s.ours)
		if err != nil {
			return p, nil, err
		}
		was, explained := without.Value, without.Value == s.Gets(w.from)
		switch {
		case w.last && explained && known:
			without.Value = kept
		case explained && !(w.first && s.Untouched):
			without.Value = s.Gets(w.to)
		case !explained && !w.last && !s.Untouched: // the kernel would have written over it
			others[s.mark], without.Value = was, s.Gets(w.to)
		}
		if without.Value != was {
			e := *s.ours
			e.Prior = without.encode()
			changed = append(changed, e)
		}
	}
	p.Others = others
	return p, changed, nil
}

// settle writes the dependents after a write: ours again, and the others if the setting is not ours
// any more.
func (d *sysctl) settle(w write, p prior) error {
	var errs []error
	for _, s := range w.deps {
		value, known, err := d.valueOf(s, w, p)
		if !known {
			errs = append(errs, err)
			continue
		}
		now, err := d.Kernel.Sysctl(s.ns, s.place)
		if err == nil && !same(now, &models.Sysctl{Value: value}) {
			err = d.Kernel.SetSysctl(s.ns, s.place, value)
		}
		if !kernel.IsGone(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// valueOf returns the value that a dependent gets after a write, if it is another than that of the
// kernel.
func (d *sysctl) valueOf(s dependent, w write, p prior) (value string, known bool, err error) {
	switch {
	case s.ours != nil:
		_, v, err := recorded(*s.ours)
		return v.GetValue(), err == nil, err
	case s.place == kernel.AllRedirects && w.to == "0" && d.refusesRedirects(s.ns):
		return "0", true, nil
	case w.last:
		value, known = p.Others[s.mark]
	}
	return value, known, nil
}

// refusesRedirects reports whether a link that Plumb made in a namespace accepts no redirects. Where
// packets are not forwarded that takes [kernel.AllRedirects] to be 0; the kind interface sees to
// it, but only when it reads its links.
func (d *sysctl) refusesRedirects(ns kernel.NS) bool {
	return slices.ContainsFunc(d.Owner.Entries(models.KindInterface+"/"), func(e kernel.Entry) bool {
		if e.NS != ns || e.Adopted() {
			return false
		}
		v, err := models.DecodeValue[*models.Interface](e.Value)
		return err != nil || !v.GetAcceptRedirects()
	})
}
