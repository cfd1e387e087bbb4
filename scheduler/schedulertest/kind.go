package schedulertest

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/plumb-net/plumb/scheduler"
)

// Options of a kind of a World.
type Options struct {
	Observed  bool
	Demand    bool // observed for as long as somebody needs it
	NoUpdate  bool
	Deaf      bool // no Retrieve
	NoWatch   bool
	Echo      bool // events tell of our own acts too
	Batch     bool
	Lane      bool   // one operation at a time
	Adopts    bool   // takes over what is foreign, and gives it back
	DerivedTo string // name of the kind of derived values
	DerivedBy string // name of the kind that derives these values
}

// ParseKind reads a kind in words: its name, then any of "observed",
// "demand", "noupdate", "deaf", "nowatch", "echo", "batch", "lane", "adopts", "derives=KIND",
// "derivedby=KIND".
func ParseKind(line string) (name string, o Options, err error) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return "", o, fmt.Errorf("a kind has a name")
	}
	flags := map[string]*bool{"observed": &o.Observed, "demand": &o.Demand, "noupdate": &o.NoUpdate, "deaf": &o.Deaf, "nowatch": &o.NoWatch,
		"echo": &o.Echo, "batch": &o.Batch, "lane": &o.Lane,
		"adopts": &o.Adopts}
	for _, w := range words[1:] {
		if to, ok := strings.CutPrefix(w, "derives="); ok {
			o.DerivedTo = to
		} else if by, ok := strings.CutPrefix(w, "derivedby="); ok {
			o.DerivedBy = by
		} else if flags[w] != nil {
			*flags[w] = true
		} else {
			return "", o, fmt.Errorf("%q says nothing about a kind", w)
		}
	}
	return words[0], o, nil
}

// Kind makes the descriptor of a kind of this World, keys "<name>/…".
func (w *World) Kind(name string, o Options) scheduler.Descriptor[Thing, int] {
	w.mu.Lock()
	r := &registration{process: w.process}
	w.kinds[name] = r
	w.deaf[name], w.echo[name], w.adopts[name], w.observed[name], w.lanes[name], w.bases[name] = o.Deaf, o.Echo, o.Adopts, o.Observed, o.Lane, o.DerivedTo
	w.mu.Unlock()
	d := scheduler.Descriptor[Thing, int]{
		Name: name, Prefix: scheduler.Key(name + "/"),
		Equal: func(_ scheduler.Key, a, b Thing) bool { return a.SameAs(b) },
	}
	if !o.Deaf {
		d.Retrieve = w.retrieve(r, name)
	}
	if !o.NoWatch {
		d.Watch = w.watch(r, name)
	}
	if o.DerivedTo != "" {
		d.Derive = func(k scheduler.Key, t Thing) []scheduler.Change { return derive(o.DerivedTo, k, t) }
	}
	if o.DerivedBy != "" {
		d.DerivedBy = func(k scheduler.Key) scheduler.Key { return deriver(o.DerivedBy, k) }
	}
	if o.Demand {
		onDemand(&d)
	}
	if o.Observed {
		return d
	}
	d.Needs, d.Claims, d.Validate = needs, claims, validate
	if !o.NoWatch {
		d.ChangedBy = w.changedBy
	}
	if o.Lane {
		d.Lane = func(scheduler.Key, Thing) string { return name }
	}
	d.Create = func(_ context.Context, k scheduler.Key, t Thing) (int, error) { return w.create(r, k, t) }
	d.Delete = func(_ context.Context, k scheduler.Key, _ Thing, _ int) error { return w.delete(r, k) }
	if o.Adopts {
		d.Release = func(_ context.Context, k scheduler.Key, _, found Thing, _ int) error { return w.giveBack(r, k, found) }
	}
	if !o.NoUpdate {
		d.Update = func(_ context.Context, k scheduler.Key, from, to Thing, _ int) (int, error) {
			return w.update(r, k, from, to)
		}
		d.Compare = compare
	}
	if o.Batch {
		d.CreateBatch = func(_ context.Context, ops []*scheduler.Op[Thing, int]) {
			for _, op := range ops {
				op.Meta, op.Err = w.create(r, op.Key, op.Value)
			}
		}
		d.DeleteBatch = func(_ context.Context, ops []*scheduler.Op[Thing, int]) {
			for _, op := range ops {
				op.Err = w.delete(r, op.Key)
			}
		}
	}
	return d
}

// onDemand has a kind see nothing but what somebody needs.
func onDemand(d *scheduler.Descriptor[Thing, int]) {
	var mu sync.Mutex
	needed := map[scheduler.Key]bool{}
	sees := func(k scheduler.Key) bool {
		mu.Lock()
		defer mu.Unlock()
		return needed[k]
	}
	d.Interest = func(k scheduler.Key, wanted bool) {
		mu.Lock()
		defer mu.Unlock()
		needed[k] = wanted
	}
	retrieve, watch := d.Retrieve, d.Watch
	d.Retrieve = func(ctx context.Context, s scheduler.Scope[Thing, int]) iter.Seq2[scheduler.Found[Thing, int], error] {
		return func(yield func(scheduler.Found[Thing, int], error) bool) {
			for f, err := range retrieve(ctx, s) {
				if (err != nil || sees(f.Key)) && !yield(f, err) {
					return
				}
			}
		}
	}
	d.Watch = func(ctx context.Context, notify func(...scheduler.Key)) error {
		return watch(ctx, func(keys ...scheduler.Key) {
			if seen := slices.DeleteFunc(slices.Clone(keys), func(k scheduler.Key) bool { return !sees(k) }); len(seen) > 0 || len(keys) == 0 {
				notify(seen...)
			}
		})
	}
}

func validate(_ scheduler.Key, t Thing) error {
	if t.Bad {
		return scheduler.Invalid("text", "%q is bad, good would be anything else", t.Text)
	}
	return nil
}

func compare(_ scheduler.Key, from, to Thing) scheduler.Verdict {
	switch {
	case from.SameAs(to):
		return scheduler.Verdict{}
	case to.Fixed || from.Peer != to.Peer:
		return scheduler.Verdict{Change: scheduler.Replace, Reason: "it is fixed"}
	}
	class := scheduler.InPlace
	if to.Alone {
		class = scheduler.InPlaceAlone
	}
	return scheduler.Verdict{Change: class, Reason: "text " + from.Text + " → " + to.Text}
}

func needs(k scheduler.Key, t Thing) []scheduler.Need {
	var out []scheduler.Need
	for _, n := range t.Needs {
		key, text, how := ParseNeed(n)
		need := scheduler.On(scheduler.Key(key), "to stand on")
		if strings.HasSuffix(key, "/") {
			below, also, widened := strings.Cut(key, "+")
			need = scheduler.AnyOf(scheduler.Key(below), "any of them")
			if widened {
				var folders []scheduler.Key
				for folder := range strings.SplitSeq(also, "+") {
					folders = append(folders, scheduler.Key(folder))
				}
				need = scheduler.Also(need, folders...)
			}
		}
		switch how {
		case '=':
			need = scheduler.If(need, func(_ scheduler.Key, v Thing, _ int) bool { return v.Text == text })
		case '@':
			need = scheduler.Project(need, func(v Thing, _ int) string { return v.Text })
		case '#':
			need = scheduler.Project(need, func(_ Thing, m int) string { return strconv.Itoa(m) })
		}
		out = append(out, need)
	}
	if t.Peer != "" {
		peer := scheduler.Key(t.Peer)
		out = append(out, scheduler.Together(peer, "its peer", func(p Thing) error {
			if p.Peer != string(k) {
				return scheduler.Invalid("peer", "%s names %q as its peer, not %s", peer, p.Peer, k)
			}
			return nil
		}))
		if k > peer {
			out = append(out, scheduler.On(peer, "which makes the pair"))
		}
	}
	return out
}

func claims(_ scheduler.Key, t Thing) []scheduler.Claim {
	var out []scheduler.Claim
	for _, c := range t.Claims {
		out = append(out, scheduler.Claim{ID: c, What: "the name " + c})
	}
	return out
}

func derive(kind string, k scheduler.Key, t Thing) []scheduler.Change {
	var out []scheduler.Change
	for _, d := range t.Derives {
		name, v := Derivation(d)
		out = append(out, scheduler.Set(scheduler.Key(kind+"/"+Rest(k)+"/"+name), v))
	}
	return out
}

// deriver returns the key of a kind whose value derives a key, see derive.
func deriver(kind string, k scheduler.Key) scheduler.Key {
	rest := Rest(k)
	at := strings.LastIndexByte(rest, '/')
	if at < 0 {
		return ""
	}
	return scheduler.Key(kind + "/" + rest[:at])
}
