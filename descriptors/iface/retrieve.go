package iface

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// retrieve reads our links from the kernel. It trusts nothing else: what the
// scheduler or the ledger say are hints where to search.
//
//	all     every link that is ours by the ledger or our mark in every namespace that is
//	        open, that the ledger names or that a wanted value resolves to; adopted links;
//	        what is missing of those is searched for in all namespaces of the host
//	keys    where it was, where the ledger says, where it should be, by mark
func (d *iface) retrieve(ctx context.Context, s scope) iter.Seq2[found, error] {
	return func(yield func(found, error) bool) {
		if !s.ReadOnly {
			d.objects.Read()
		}
		r := d.newSearch(ctx, s)
		if s.All {
			r.all(yield)
		} else {
			r.some(s.Keys, yield)
		}
	}
}

// search is one reading of the kernel's links.
type search struct {
	d        *iface
	ctx      context.Context
	readOnly bool // nothing is noted, forgotten or mended
	reading  kernel.Reading
	known    map[scheduler.Key]*hints
	marks    map[string]string // mark → key, for marks that were cut
	dumps    owned.Dumps[[]kernel.Link]
}

// hints are what the scheduler says of a key.
type hints struct {
	believed, wanted *models.Interface
	ref              kernel.LinkRef
}

func (d *iface) newSearch(ctx context.Context, s scope) *search {
	r := &search{
		d: d, ctx: ctx, readOnly: s.ReadOnly, reading: d.Owner.Reading(),
		known: map[scheduler.Key]*hints{}, marks: map[string]string{}, dumps: owned.Dumps[[]kernel.Link]{Read: d.Kernel.Links},
	}
	for _, kn := range s.Known {
		h := r.hints(kn.Key)
		if kn.InPlace {
			h.believed, h.ref = kn.Value, kn.Meta
		} else {
			h.wanted = kn.Value
		}
	}
	return r
}

// hints of a key; where the scope is silent the scheduler is asked.
func (r *search) hints(k scheduler.Key) *hints {
	if h := r.known[k]; h != nil {
		return h
	}
	h := &hints{}
	h.wanted, _ = r.d.Interfaces.Wanted(k)
	h.believed, h.ref, _ = r.d.Interfaces.Get(k)
	r.known[k] = h
	r.marks[r.d.Owner.Mark(string(k))] = string(k)
	return h
}

func (r *search) all(yield func(found, error) bool) {
	entries := r.d.Owner.Entries(prefix)
	links := map[scheduler.Key]kernel.Link{}
	places, failed := r.places()
	for _, ns := range places {
		all, err := r.dumps.Of(ns)
		if err != nil {
			failed[ns] = err
			continue
		}
		if !r.readOnly {
			r.d.Owner.ForgetCopies(ns, all)
		}
		for _, own := range r.ours(ns, all, entries) {
			r.pick(links, scheduler.Key(own.Key), own.Link)
		}
	}
	r.searchMoved(entries, links, failed)
	for _, k := range r.named() {
		if _, there := links[k]; !there {
			if l, stands := r.takeOver(k); stands {
				links[k] = l
			}
		}
	}
	if !r.readOnly {
		r.d.keep(links, failed)
		r.noteCopies(places)
		for k, l := range links {
			r.d.noteLink(k, l)
		}
		r.d.forgetMACs(links)
	}
	for _, k := range slices.Sorted(maps.Keys(links)) {
		if !yield(r.found(k, links[k]), nil) {
			return
		}
	}
	r.leave(entries, links, failed, yield)
}

// places are the namespaces to search, and why others cannot be.
func (r *search) places() (all []kernel.NS, failed map[kernel.NS]error) {
	all, failed = r.d.Owner.Places(r.d.Kernel, prefix)
	for _, k := range slices.Sorted(maps.Keys(r.known)) {
		if v := r.known[k].wanted; v != nil {
			if p, err := r.d.Places.Resolve(r.ctx, v.GetNamespace()); err == nil {
				all = append(all, p.NS)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all), failed
}

// noteCopies records the foreign links that have a copy of a mark.
func (r *search) noteCopies(places []kernel.NS) {
	for _, ns := range places {
		all, _ := r.dumps.Of(ns)
		for _, l := range all {
			if l.Alias != "" {
				r.d.isCopy(l)
			}
		}
	}
}

// searchMoved finds the recorded links that are not where they were made, although their
// namespace is: others may have moved them.
func (r *search) searchMoved(entries []kernel.Entry, links map[scheduler.Key]kernel.Link, failed map[kernel.NS]error) {
	missing := slices.DeleteFunc(slices.Clone(entries), func(e kernel.Entry) bool {
		_, there := links[scheduler.Key(e.ID)]
		return there || !e.Identified() || failed[e.NS] != nil || !r.d.Kernel.Alive(e.NS)
	})
	if len(missing) == 0 {
		return
	}
	if r.d.Everywhere != nil {
		r.d.Everywhere()
	}
	for _, e := range missing {
		if l, there := r.moved(e); there {
			links[scheduler.Key(e.ID)] = l
		}
	}
}

// moved finds the link of an entry in another namespace that is open.
func (r *search) moved(e kernel.Entry) (kernel.Link, bool) {
	for _, ns := range r.d.Kernel.InUse() {
		all, _ := r.dumps.Of(ns) // in one that cannot be read nothing is found
		for _, l := range all {
			if ns != e.NS && r.d.Owner.Resembles(e, l) {
				return l, true
			}
			if !r.readOnly && l.Alias == r.d.Owner.Mark(e.ID) {
				r.d.isCopy(l)
			}
		}
	}
	return kernel.Link{}, false
}

// ours are the links that are ours by the ledger or our mark, the adopted ones, and those
// that were cut short before they got a mark.
func (r *search) ours(ns kernel.NS, links []kernel.Link, entries []kernel.Entry) []kernel.OwnLink {
	d := r.d
	own := d.Owner.OursAmong(ns, links, entries, func(mark string) string { return r.marks[mark] })
	for _, l := range links {
		if l.Group != d.Owner.Group() {
			continue
		}
		if _, known := d.Owner.LinkKey(l); known {
			continue
		}
		for _, e := range entries {
			if e.NS == ns && !e.Identified() && d.ours(scheduler.Key(e.ID), l, &e) {
				own = append(own, kernel.OwnLink{Link: l, Key: e.ID})
				break
			}
		}
	}
	return own
}

// named are the wanted keys that may take over what stands there. Their links have a name
// from now on, so that those that stand on them are seen to do so.
func (r *search) named() (keys []scheduler.Key) {
	for _, k := range slices.Sorted(maps.Keys(r.known)) {
		w, l, _ := r.standingFor(k)
		if w == nil {
			continue
		}
		keys = append(keys, k)
		if _, known := r.d.Names.Of(l.Ref()); l.Index != 0 && !known && !r.readOnly {
			r.d.Names.Put(l.Ref(), nameOf(k))
		}
	}
	return keys
}

// pick keeps one link per key. Of several with one mark that is the one that the ledger
// identifies or that is known, or else the one that looks most like what was recorded, then
// the first.
func (r *search) pick(links map[scheduler.Key]kernel.Link, k scheduler.Key, l kernel.Link) {
	if had, double := links[k]; !double || r.rank(k, l) > r.rank(k, had) {
		links[k] = l
	}
}

func (r *search) rank(k scheduler.Key, l kernel.Link) (rank int) {
	e, recorded := r.d.Owner.Entry(string(k))
	switch {
	case recorded && r.d.Owner.IsLink(e, l):
		return 8
	case l.Ref() == r.hints(k).ref:
		return 7
	case l.Group == r.d.Owner.Group():
		rank = 3
	}
	if recorded && e.NS == l.NS {
		rank++
		if kind.InterfaceOf(e).EffectiveHostName(string(k)) == l.Name {
			rank++
		}
	} else if w := r.hints(k).wanted; !recorded && w != nil && w.EffectiveHostName(string(k)) == l.Name {
		rank++
	}
	return rank
}

// leave takes leave of recorded links that are not there, and says of which
// keys nothing could be read.
func (r *search) leave(entries []kernel.Entry, links map[scheduler.Key]kernel.Link, failed map[kernel.NS]error, yield func(found, error) bool) {
	var forget []string
	for _, e := range entries {
		if _, there := links[scheduler.Key(e.ID)]; there {
			continue
		}
		if err := failed[e.NS]; err != nil {
			if !yield(found{Key: scheduler.Key(e.ID)}, fmt.Errorf("read the links of its namespace: %w", err)) {
				return
			}
			continue
		}
		forget = append(forget, e.ID)
	}
	if !r.readOnly {
		r.reading.Forget(forget...)
	}
}

func (r *search) some(keys []scheduler.Key, yield func(found, error) bool) {
	for _, k := range keys {
		reading := r.d.Owner.Reading()
		l, there, err := r.find(k)
		switch {
		case r.readOnly:
		case there:
			r.d.keepOne(k, l.Ref())
			r.d.noteLink(k, l)
		case err == nil:
			r.d.forget(k, r.hints(k).ref)
			reading.Forget(string(k))
		}
		switch {
		case err != nil:
			if !yield(found{Key: k}, err) {
				return
			}
		case there:
			if !yield(r.found(k, l), nil) {
				return
			}
		}
	}
}

// find searches one key: where it was, where the ledger says, where it should
// be; last by its mark in the namespaces in question.
func (r *search) find(k scheduler.Key) (l kernel.Link, there bool, err error) {
	d, h := r.d, r.hints(k)
	e, recorded := d.Owner.Entry(string(k))
	ours := func(l kernel.Link, err error) (bool, error) {
		if kernel.IsGone(err) {
			return false, nil
		}
		return err == nil && (d.ours(k, l, &e) || recorded && e.Adopted() && e.NS == l.NS && e.Index == l.Index), err
	}
	var candidates []kernel.NS
	if h.ref.Index != 0 && d.Kernel.Alive(h.ref.NS) {
		candidates = append(candidates, h.ref.NS)
		l, err = d.Kernel.LinkByIndex(h.ref.NS, h.ref.Index)
		if there, err = ours(l, err); there || err != nil {
			return l, there, err
		}
	}
	if recorded && e.NS != 0 {
		ns, err := e.Find(d.Kernel)
		if err != nil && !errors.Is(err, kernel.ErrNoNamespace) {
			return l, false, err
		}
		if err == nil {
			candidates = append(candidates, ns)
			l, err = r.recorded(k, e)
			if there, err = ours(l, err); there || err != nil {
				return l, there, err
			}
		}
	}
	if h.wanted != nil {
		if p, err := d.Places.Resolve(r.ctx, h.wanted.GetNamespace()); err == nil {
			candidates = append(candidates, p.NS)
			l, err = d.Kernel.Link(p.NS, h.wanted.EffectiveHostName(string(k)))
			if there, err = ours(l, err); there || err != nil {
				return l, there, err
			}
		}
	}
	if l, there := r.takeOver(k); there {
		return l, true, nil
	}
	if l, there, err = r.byMark(k, &e, recorded, candidates); there || err != nil {
		return l, there, err
	}
	if recorded && e.Identified() && d.Kernel.Alive(e.NS) {
		l, there = r.moved(e)
	}
	return l, there, nil
}

// recorded reads the link that the ledger names.
func (r *search) recorded(k scheduler.Key, e kernel.Entry) (kernel.Link, error) {
	if e.Adopted() {
		return r.d.Kernel.LinkByIndex(e.NS, e.Index)
	}
	if e.Identified() {
		l, err := r.d.Kernel.LinkByIndex(e.NS, e.Index)
		if err == nil && r.d.Owner.IsLink(e, l) || err != nil && !kernel.IsGone(err) {
			return l, err
		}
	}
	return r.d.Kernel.Link(e.NS, kind.InterfaceOf(e).EffectiveHostName(string(k)))
}

func (r *search) byMark(k scheduler.Key, e *kernel.Entry, recorded bool, places []kernel.NS) (best kernel.Link, there bool, err error) {
	mark := r.d.Owner.Mark(string(k))
	if !recorded {
		e = nil
	}
	for _, ns := range places {
		all, err := r.dumps.Of(ns)
		if err != nil {
			return best, false, fmt.Errorf("read the links of its namespace: %w", err)
		}
		for _, l := range all {
			if l.Alias == mark && r.d.ours(k, l, e) && (!there || r.rank(k, l) > r.rank(k, best)) {
				best, there = l, true
			}
		}
	}
	return best, there, nil
}

// found describes a link in the words of its key.
func (r *search) found(k scheduler.Key, l kernel.Link) found {
	h := r.hints(k)
	hint := h.believed
	if hint == nil || h.ref.NS != l.NS {
		hint = h.wanted
		if e, ok := r.d.Owner.Entry(string(k)); ok {
			if v := kind.InterfaceOf(e); v != nil {
				hint = v
			}
		}
	}
	if !r.readOnly {
		l = r.mark(k, l)
	}
	f := found{Key: k, Value: r.d.value(k, l, r.selector(k, l.NS), hint), Meta: l.Ref()}
	if !r.readOnly {
		r.d.seen(l.Ref(), f.Value)
	}
	return f
}

// mark gives a link of ours the mark that it lacks because its creation was cut
// short: all else about it may be as wished, and then nobody would. It is only
// evidence; if it cannot be given now the next reading tries again. A mark that others
// have changed is a difference like others, see marked, and restored by an update. Then the
// ledger is told which link it is.
func (r *search) mark(k scheduler.Key, l kernel.Link) kernel.Link {
	e, recorded := r.d.Owner.Entry(string(k))
	if !recorded || e.Adopted() || e.NS != l.NS {
		return l
	}
	if l.Alias == "" && !e.Identified() {
		mark := r.d.Owner.Mark(string(k))
		if r.d.Kernel.SetLink(l.NS, l.Index, kernel.LinkPatch{Alias: &mark}) == nil {
			l.Alias = mark
		}
	}
	r.d.saw(k, l)
	return l
}

// selector says how the namespace is called: as it is wanted if that leads
// here, else as it was called when the link was made.
func (r *search) selector(k scheduler.Key, ns kernel.NS) *models.Namespace {
	d, h, elsewhere := r.d, r.hints(k), false
	if h.wanted != nil {
		p, err := d.Places.Resolve(r.ctx, h.wanted.GetNamespace())
		if err == nil && p.NS == ns {
			return h.wanted.GetNamespace()
		}
		elsewhere = err == nil
	}
	if h.believed != nil && h.ref.NS == ns {
		return h.believed.GetNamespace()
	}
	if e, ok := d.Owner.Entry(string(k)); ok && e.NS == ns {
		if v := kind.InterfaceOf(e); v != nil {
			return v.GetNamespace()
		}
	}
	if ns == d.Kernel.Own() {
		return nil
	}
	path := fmt.Sprintf("net:[%d]", ns)
	if !elsewhere {
		path += unnamed
	}
	return &models.Namespace{In: &models.Namespace_Path{Path: path}}
}

// unnamed ends the path of a namespace of which nobody knows how it is called: there is no
// wish yet, and no entry in the ledger. It may be the one that is wanted.
const unnamed = "?"
