package file

import (
	"maps"
	"strings"
)

// belief is what is held true of the directory: the files of looks that two
// looks in a row agree on.
type belief struct {
	files map[string]*file
	// last is what the last look found, nil before the first.
	last map[string]content
}

// file is one intent file as it was last believed.
type file struct {
	now content
	// docs are those of the last text that could be parsed; err says why the
	// present one cannot be.
	docs []doc
	err  error
	// known reports whether any text of the file was ever parsed.
	known bool
}

// update takes in what a look found. It returns the names of the files that
// changed, and whether some are still moving: then another look is due. quiet
// says that nobody has touched the directory of late; then the first look is
// believed without a second.
func (b *belief) update(dir string, found map[string]content, quiet bool) (changed []string, moving bool) {
	first := b.last == nil
	for _, name := range names(found, b.files) {
		now, there := found[name]
		was, wasThere := b.last[name]
		settled := there == wasThere && (!there || now.same(was))
		if first {
			settled = quiet && now.err == nil
		}
		if !settled {
			moving = true
			continue
		}
		if b.believe(dir, name, now, there) {
			changed = append(changed, name)
		}
	}
	b.last = found
	// An empty directory that somebody is at may be the middle of a change too.
	return changed, moving || first && !quiet
}

// names are those of either map, sorted.
func names(found map[string]content, files map[string]*file) []string {
	all := map[string]bool{}
	for name := range found {
		all[name] = true
	}
	for name := range files {
		all[name] = true
	}
	return sorted(maps.Keys(all))
}

// believe takes one settled file and reports whether that is news.
func (b *belief) believe(dir, name string, now content, there bool) bool {
	f, known := b.files[name]
	if !there {
		delete(b.files, name)
		return known
	}
	if known && f.now.same(now) {
		return false
	}
	if !known {
		f = &file{}
		b.files[name] = f
	}
	f.now = content{sum: now.sum, err: now.err} // the text is not needed again
	if f.err = now.err; f.err != nil {
		return true
	}
	docs, err := parseFile(dir, name, now.data)
	if f.err = err; err == nil {
		f.docs, f.known = docs, true
	}
	return true
}

// complete reports whether all that the files say is known.
func (b *belief) complete() bool {
	for name := range b.last {
		if f := b.files[name]; f == nil || !f.known {
			return false
		}
	}
	return b.last != nil
}

// empty names the files that hold no document, "" if all do.
func (b *belief) empty() string {
	var without []string
	for _, name := range sorted(maps.Keys(b.files)) {
		if len(b.files[name].docs) == 0 {
			without = append(without, name)
		}
	}
	if len(without) == 0 {
		return ""
	}
	return "no document in " + strings.Join(without, ", ")
}
