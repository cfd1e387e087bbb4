package schedulertest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/plumb-net/plumb/scheduler"
)

// What the scheduler promises, checked at every operation. What it cannot
// know, because the world moved behind its back and was not read since, is not
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
		w.breach("%s of %s before any source has spoken", op, k)
	}
	if t.Bad {
		w.breach("%s of %s, which is invalid", op, k)
	}
	for _, n := range t.Needs {
		if w.met(k, n) || w.stirred(n) {
			continue
		}
		// What waited in a lane behind something that hung may find that a
		// thing looks different by now; it may not find it gone.
		if key, _, how := parseNeed(n); how == '=' && w.everHung && w.met(k, key) {
			continue
		}
		w.breach("%s of %s without %s", op, k, n)
	}
	if t.Peer != "" && string(k) > t.Peer {
		if _, ok := w.objects[scheduler.Key(t.Peer)]; !ok && !w.stirred(t.Peer) {
			w.breach("%s of %s without its peer %s", op, k, t.Peer)
		}
	}
}

// checkFree: law 2. Nothing that is in place may stand on what is deleted.
func (w *World) checkFree(k scheduler.Key) {
	if w.mute {
		w.breach("delete of %s before any source has spoken", k)
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
		for _, n := range o.Needs {
			key, _, _ := parseNeed(n)
			below := strings.HasSuffix(key, "/")
			if key == string(k) || below && strings.HasPrefix(string(k), key) && w.othersBelow(key, k, d) == 0 && !w.stirred(key) &&
				!w.standsOn(k, d, map[scheduler.Key]bool{}) {
				w.breach("delete of %s, which %s stands on", k, d)
			}
		}
	}
}

// standsOn tells whether k needs d, or is derived from it, directly or through
// others. Where the ground of d went and left it with nothing below its prefix
// but what stands on d itself, one of the two must go first.
func (w *World) standsOn(k, d scheduler.Key, seen map[scheduler.Key]bool) bool {
	seen[k] = true
	for t := range w.objects {
		if w.standsAt(k, t) && (t == d || !seen[t] && w.standsOn(t, d, seen)) {
			return true
		}
	}
	return false
}

// standsAt tells whether k itself stands on t, or may.
func (w *World) standsAt(k, t scheduler.Key) bool {
	if partOf(k, t) {
		return true
	}
	return slices.ContainsFunc(w.objects[k].Needs, func(n string) bool {
		key, _, _ := parseNeed(n)
		return string(t) == key || strings.HasSuffix(key, "/") && strings.HasPrefix(string(t), key)
	})
}

// partOf tells whether k is derived from base, by their keys.
func partOf(k, base scheduler.Key) bool {
	return len(rest(k)) > len(rest(base)) && strings.HasPrefix(rest(k), rest(base)+"/")
}

// met tells whether a need of k is there.
func (w *World) met(k scheduler.Key, need string) bool {
	key, text, how := parseNeed(need)
	if !strings.HasSuffix(key, "/") {
		o, ok := w.objects[scheduler.Key(key)]
		return ok && (how != '=' || o.Text == text)
	}
	for d, o := range w.objects {
		if d != k && strings.HasPrefix(string(d), key) && (how != '=' || o.Text == text) {
			return true
		}
	}
	return false
}

func (w *World) othersBelow(prefix string, not ...scheduler.Key) int {
	n := 0
	for k := range w.objects {
		if strings.HasPrefix(string(k), prefix) && !slices.Contains(not, k) {
			n++
		}
	}
	return n
}

// stirred tells whether what is needed changed behind the scheduler's back.
func (w *World) stirred(need string) bool {
	key, _, _ := parseNeed(need)
	if !strings.HasSuffix(key, "/") {
		_, yes := w.unseen[scheduler.Key(key)]
		return yes
	}
	for k := range w.unseen {
		if strings.HasPrefix(string(k), key) {
			return true
		}
	}
	return false
}

// Outdated names something that the thing was built with and that has changed
// since, "" if there is nothing like that. What another process built, or an
// operation that failed, nobody can know; nor that something changed behind the
// scheduler's back just when it was built, and changed back before it was read.
func (w *World) Outdated(k scheduler.Key) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.objects[k]
	for i, with := range o.built {
		key, _, how := parseNeed(o.Needs[i])
		if now := part(w.objects[scheduler.Key(key)], how); now != with.part && now != with.known {
			return key
		}
	}
	return ""
}

// built is what a thing was built with, and what the scheduler knew of that.
type built struct{ part, known string }

// part is what a need says that the thing is built with.
func part(o object, how byte) string {
	switch how {
	case '@':
		return o.Text
	case '#':
		return strconv.Itoa(o.meta)
	}
	return ""
}

// parts are all that a thing is built with now.
func (w *World) parts(t Thing) []built {
	if !slices.ContainsFunc(t.Needs, func(n string) bool { return strings.HasSuffix(n, "@") || strings.HasSuffix(n, "#") }) {
		return nil
	}
	out := make([]built, len(t.Needs))
	for i, n := range t.Needs {
		key, _, how := parseNeed(n)
		k := scheduler.Key(key)
		is := w.objects[k]
		out[i] = built{part(is, how), part(is, how)}
		if read, unseen := w.unseen[k]; unseen && !read {
			out[i].known = part(w.known[k], how)
		}
	}
	return out
}
