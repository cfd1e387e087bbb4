package schedulertest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plumb-net/plumb/scheduler"
)

// What the scheduler promises, checked at every operation. What it cannot
// know, because something moved behind its back and was not read since, is not
// held against it.

// Broken are the laws that were broken so far, in words.
func (w *World) Broken() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.broken)
}

func (w *World) breach(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	w.broken = append(w.broken, line)
	w.log = append(w.log, entry{what: "BROKEN: ", text: line})
}

// checkGround: law 1. What a thing needs must be there when it is made.
func (w *World) checkGround(op string, k scheduler.Key, t Thing) {
	if w.mute {
		w.breach("%s of %s before any source has synced", op, k)
	}
	if t.Bad {
		w.breach("%s of %s, which is invalid", op, k)
	}
	for _, n := range t.Needs {
		if w.met(k, n) || w.disturbed(n) && !w.beingRead(n) {
			continue
		}
		// What waited in a lane behind something slow, or that hung, may find that a
		// thing looks different by now; it may not find it gone.
		if key, _, how := ParseNeed(n); how == '=' && (w.everHung || w.everSlow) && w.met(k, key) {
			continue
		}
		// Others may have removed what they had made while it waited.
		if key, _, _ := ParseNeed(n); w.everSlow && w.observed[KindName(scheduler.Key(key))] {
			continue
		}
		w.breach("%s of %s without %s", op, k, n)
	}
	w.checkBase(op, k, t)
	if t.Peer != "" && string(k) > t.Peer {
		if _, ok := w.objects[scheduler.Key(t.Peer)]; !ok && !w.disturbed(t.Peer) {
			w.breach("%s of %s without its peer %s", op, k, t.Peer)
		}
	}
}

// checkBase: a value is derived from one that is in place, not from one that an
// operation could not bring about. Of what moved since, or was left by a failure, or by
// another process, the World does not know what the scheduler makes of it.
func (w *World) checkBase(op string, k scheduler.Key, t Thing) {
	if _, own := w.claims[k]; own {
		return // a source wants it by itself
	}
	derives, known := false, false
	for base, last := range w.applied {
		of := w.bases[KindName(base)]
		if of == "" || of != KindName(k) || !partOf(k, base) {
			continue
		}
		known = true
		for _, v := range slices.Concat(w.replaced[base], []Thing{last}) {
			for _, c := range derive(of, base, v) {
				derives = derives || c.Key == k && t.SameAs(c.Value.(Thing))
			}
		}
	}
	if known && !derives && !w.everHung {
		w.breach("%s of %s as no value in place derives it", op, k)
	}
}

// Claim takes in what the values that are wanted claim. Who claims a name no longer
// does not own it.
func (w *World) Claim(wanted map[scheduler.Key]Thing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.claims = map[scheduler.Key][]string{}
	for k, t := range wanted {
		w.claims[k] = t.Claims
	}
	for name, k := range w.owners {
		if !slices.Contains(w.claims[k], name) {
			delete(w.owners, name)
		}
	}
}

// disown has only those own names that it keeps.
func (w *World) disown(keeps func(scheduler.Key) bool) {
	maps.DeleteFunc(w.owners, func(_ string, k scheduler.Key) bool { return !keeps(k) })
}

// checkNames: nobody gets a name while another of its kind that had it claims it still. Of
// other kinds a new process may not have read yet who has it.
func (w *World) checkNames(k scheduler.Key, t Thing) {
	for _, name := range t.Claims {
		if owner := w.owners[name]; owner != "" && owner != k && KindName(owner) == KindName(k) {
			w.breach("%s gets %s, which %s has and claims", k, name, owner)
		} else if slices.Contains(w.claims[k], name) {
			w.owners[name] = k
		}
	}
}

// replace records the previous value of a key while slow operations may delay operations that were based on
// it.
func (w *World) replace(k scheduler.Key) {
	if was, ok := w.objects[k]; ok && w.slowed {
		w.replaced[k] = append(w.replaced[k], was.Thing)
	}
}

// checkFree: law 2. Nothing that is in place may depend on what is deleted, or changes
// alone.
func (w *World) checkFree(op string, k scheduler.Key) {
	if w.mute && op == "delete" {
		w.breach("delete of %s before any source has synced", k)
	}
	if _, ok := w.objects[k]; !ok {
		return
	}
	for d, o := range w.objects {
		if d == k || o.foreign {
			continue
		}
		if _, unseen := w.unseen[d]; unseen {
			continue
		}
		for i, n := range o.Needs {
			key, _, how := ParseNeed(n)
			switch {
			case key == string(k):
				w.breach("%s of %s, which %s stands on", op, k, d)
			case !w.accepts(n, k, d), how == '=' && o.lost, w.disturbed(key), w.standsOn(k, d, map[scheduler.Key]bool{}):
			case w.others(n, k, d) == 0:
				w.breach("%s of %s, which %s stands on", op, k, d)
			case o.built != nil && o.built[i].only(k):
				w.breach("%s of %s, which %s was built with", op, k, d)
			}
		}
	}
}

// checkFits: law 2 of what changes in place. Nothing that is in place may depend on what
// becomes another than it needs; of what it needs any of, another may be as needed.
func (w *World) checkFits(k scheduler.Key, from, to Thing) {
	if _, unseen := w.unseen[k]; unseen {
		return
	}
	for d, o := range w.objects {
		if _, unseen := w.unseen[d]; d == k || o.foreign || unseen || w.everHung {
			continue
		}
		for _, n := range o.Needs {
			key, text, how := ParseNeed(n)
			switch {
			case how != '=' || text != from.Text || text == to.Text:
			case key == string(k),
				w.accepts(n, k, d) && !o.lost && !w.disturbed(key) && !w.standsOn(k, d, map[scheduler.Key]bool{}) && w.others(n, k, d) == 0:
				w.breach("update of %s to %s, on which %s stands as %s", k, to.Text, d, text)
			}
		}
	}
}

// checkBound: no more of a kind begin to go within a minute than may. One that had to wait for what
// depended on it began at a time that the World does not know.
func (w *World) checkBound(k scheduler.Key, t Thing) {
	if w.limit == 0 || len(t.Needs) > 0 || t.Peer != "" || len(t.Claims) > 0 {
		return
	}
	kind, now := KindName(k), time.Now()
	for base, of := range w.bases {
		if of == kind && base != "" {
			return // it may be derived, and goes with its base
		}
	}
	if now.Sub(w.left[kind]) < time.Minute {
		return
	}
	w.deleted[kind] = slices.DeleteFunc(w.deleted[kind], func(at time.Time) bool { return now.Sub(at) >= time.Minute })
	if w.deleted[kind] = append(w.deleted[kind], now); len(w.deleted[kind]) > w.limit {
		w.breach("delete of %s, and %d of %s may go within a minute", k, w.limit, kind)
	}
	if len(w.deleted[kind]) == w.limit {
		w.Tally.Count("bound", "reached")
	}
}

// standsOn reports whether k needs d, or is derived from it, directly or through
// others. Where the ground of d went and left it with nothing below its prefix
// but what depends on d itself, one of the two must go first.
func (w *World) standsOn(k, d scheduler.Key, seen map[scheduler.Key]bool) bool {
	seen[k] = true
	for t := range w.objects {
		if w.standsAt(k, t) && (t == d || !seen[t] && w.standsOn(t, d, seen)) {
			return true
		}
	}
	return false
}

// standsAt reports whether k itself depends on t, or may.
func (w *World) standsAt(k, t scheduler.Key) bool {
	if partOf(k, t) || w.objects[k].Peer == string(t) && k > t { // the greater of two peers is made on the other
		return true
	}
	return slices.ContainsFunc(w.objects[k].Needs, func(n string) bool {
		key, _, _ := ParseNeed(n)
		return string(t) == key || strings.HasSuffix(key, "/") && Under(key, t)
	})
}

// partOf reports whether k is derived from base, by their keys.
func partOf(k, base scheduler.Key) bool {
	return len(Rest(k)) > len(Rest(base)) && strings.HasPrefix(Rest(k), Rest(base)+"/")
}

// met reports whether a need of k is there.
func (w *World) met(k scheduler.Key, need string) bool {
	key, text, how := ParseNeed(need)
	if !strings.HasSuffix(key, "/") {
		o, ok := w.objects[scheduler.Key(key)]
		return ok && (how != '=' || o.Text == text)
	}
	for d, o := range w.objects {
		if d != k && Under(key, d) && (how != '=' || o.Text == text) {
			return true
		}
	}
	return false
}

// accepts reports whether d, which is there, is one of those that a need of k asks for.
func (w *World) accepts(need string, d, k scheduler.Key) bool {
	key, text, how := ParseNeed(need)
	return fits(key, d, k) && (how != '=' || w.objects[d].Text == text)
}

// others is how many of those that a need of d for any key asks for are there, but for k.
func (w *World) others(need string, k, d scheduler.Key) int {
	n := 0
	for o := range w.objects {
		if o != k && w.accepts(need, o, d) {
			n++
		}
	}
	return n
}

// disturbed reports whether what is needed changed behind the scheduler's back.
func (w *World) disturbed(need string) bool {
	key, _, _ := ParseNeed(need)
	if !strings.HasSuffix(key, "/") {
		_, yes := w.unseen[scheduler.Key(key)]
		return yes
	}
	for k := range w.unseen {
		if Under(key, k) {
			return true
		}
	}
	return false
}

// Asked says that the scheduler is told to read keys, or all below prefixes, now that
// nothing moves: it builds on nothing that changed there before it was read.
func (w *World) Asked(all bool, keys ...scheduler.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.everHung { // what began before may go on at any time
		return
	}
	for k := range w.unseen {
		named := func(at scheduler.Key) bool {
			return at == k || strings.HasSuffix(string(at), "/") && strings.HasPrefix(string(k), string(at))
		}
		name := KindName(k)
		if r := w.kinds[name]; r != nil && !r.gone && !w.deaf[name] && (all || slices.ContainsFunc(keys, named)) {
			w.due[k] = true
		}
	}
}

// beingRead reports whether the scheduler was told to read the one key that is needed.
func (w *World) beingRead(need string) bool {
	key, _, _ := ParseNeed(need)
	return w.due[scheduler.Key(key)] && !w.everHung
}

// Outdated names something that the thing was built with and that has changed
// since, "" if there is nothing like that. What another process built, or an
// operation that failed, nobody can know; nor with which of many it was built, nor
// that something changed behind the scheduler's back just when it was built, and
// changed back before it was read.
func (w *World) Outdated(k scheduler.Key) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.objects[k]
	for i, b := range o.built {
		key, _, how := ParseNeed(o.Needs[i])
		same := func(t scheduler.Key) bool {
			return fits(key, t, k) && slices.Contains(b.parts, part(w.objects[t], how))
		}
		if b.parts != nil && !w.any(same) {
			return key
		}
	}
	return ""
}

// any reports whether something is there that is asked for.
func (w *World) any(is func(scheduler.Key) bool) bool {
	for k := range w.objects {
		if is(k) {
			return true
		}
	}
	return false
}

// built is with what a need let a thing be built: the parts that were there, and
// those that the scheduler knew of still, and whose they were. What comes with one
// of them later is as good, as long as any of the others is left.
type built struct {
	parts []string
	keys  []scheduler.Key
}

// only reports whether nothing else is left that the thing can have been built with.
func (b *built) only(k scheduler.Key) bool {
	return len(b.keys) > 0 && !slices.ContainsFunc(b.keys, func(o scheduler.Key) bool { return o != k })
}

// part is what a need says that the thing is built with; "" if with nothing.
func part(o object, how byte) string {
	switch how {
	case '@':
		return o.Text
	case '#':
		return strconv.Itoa(o.meta)
	}
	return ""
}

// fits reports whether d is what k needs: that key, or any other below it.
func fits(key string, d, k scheduler.Key) bool {
	return string(d) == key || strings.HasSuffix(key, "/") && d != k && Under(key, d)
}

// parts are all that a thing may be built with now.
func (w *World) parts(k scheduler.Key, t Thing) []built {
	if !slices.ContainsFunc(t.Needs, func(n string) bool { return strings.HasSuffix(n, "@") || strings.HasSuffix(n, "#") }) {
		return nil
	}
	out := make([]built, len(t.Needs))
	for i, n := range t.Needs {
		key, _, how := ParseNeed(n)
		if how != '@' && how != '#' {
			continue
		}
		add := func(d scheduler.Key, o object) {
			if fits(key, d, k) {
				out[i].parts, out[i].keys = append(out[i].parts, part(o, how)), append(out[i].keys, d)
			}
		}
		for d, o := range w.objects {
			add(d, o)
		}
		gone := false
		for d, known := range w.known {
			for _, o := range known {
				add(d, o)
			}
			_, there := w.objects[d]
			gone = gone || !there && fits(key, d, k)
		}
		if gone { // it may have been built with that, and depends on nothing then: see went
			out[i].keys = nil
		}
	}
	return out
}

// came notes that k may be what others were built with, or as good.
func (w *World) came(k scheduler.Key) {
	for d, o := range w.objects {
		for i := range o.built {
			b := &o.built[i]
			if key, _, how := ParseNeed(o.Needs[i]); len(b.keys) > 0 && fits(key, k, d) && slices.Contains(b.parts, part(w.objects[k], how)) {
				b.keys = append(b.keys, k)
			}
		}
	}
}

// went notes that k is no more. Where we took it away, nothing was built with it;
// where others did, something may have been, and depends on nothing since.
func (w *World) went(k scheduler.Key, ours bool) {
	for _, o := range w.objects {
		for i := range o.built {
			switch b := &o.built[i]; {
			case !slices.Contains(b.keys, k):
			case ours:
				b.keys = slices.DeleteFunc(b.keys, func(o scheduler.Key) bool { return o == k })
			default:
				b.keys = nil
			}
		}
	}
}
