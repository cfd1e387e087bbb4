package file

import (
	"bytes"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// partSize is how large a part of a file should be, in bytes. What is smaller is read at once.
const partSize = 64 << 10

// part is some of the keys under intent.
type part struct {
	text []byte
	line int // where it begins
}

// readParts reads a large map under intent in parts, several at a time: a tree of YAML takes
// twenty times the room of its text, and half a second for 50,000 keys. ok is not set for what
// is no such map, or has anything in it that is wrong, or names in one part what another one
// has: whoever reads all of it at once can tell.
func readParts(data []byte, name string, size int) (docs []Document, ok bool) {
	if len(data) < 2*size || filepath.Ext(name) == ".json" {
		return nil, false
	}
	parts := cut(data, size)
	if len(parts) < 2 {
		return nil, false
	}
	read, all := make([][]Document, len(parts)), newExpansion(data)
	var next, failed atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(parts)) && failed.Load() == 0; i = next.Add(1) - 1 {
				var ok bool
				if read[i], ok = parts[i].read(name, all); !ok {
					failed.Add(1)
				}
			}
		})
	}
	workers.Wait()
	return slices.Concat(read...), failed.Load() == 0
}

func (p part) read(name string, all *expansion) ([]Document, bool) {
	roots, err := parseYAML(append([]byte(head), p.text...))
	if err != nil || len(roots) != 1 {
		return nil, false
	}
	r := &reader{name: name, all: all}
	if r.document(roots[0]); len(r.wrong) > 0 {
		return nil, false
	}
	for i := range r.docs {
		r.docs[i].Line += p.line - 2 // of the head
	}
	return r.docs, true
}

const head = "intent:\n"

// otherBreaks end a line too, see YAML 1.1, 5.4.
const otherBreaks = "\r\u0085\u2028\u2029"

// cut finds parts of a map under intent that mean together what the whole means, unless one
// of them cannot be read: each begins with a line that is indented as the first key is. In a
// whole that is right such a line is a key, or within quotes or brackets; then what is before
// it does not end as it should.
func cut(data []byte, size int) (parts []part) {
	if bytes.ContainsAny(data, otherBreaks) {
		return nil
	}
	var begun bool
	indent, start, startLine := 0, 0, 0
	for at, line := 0, 1; at < len(data); line++ {
		text := data[at:]
		if end := bytes.IndexByte(text, '\n'); end >= 0 {
			text = text[:end+1]
		}
		blank := len(text) - len(bytes.TrimLeft(text, " "))
		switch first := bytes.TrimSpace(text[blank:]); {
		case len(first) == 0, first[0] == '#':
		case !begun:
			if begun = blank == 0 && string(first) == "intent:"; !begun {
				return nil
			}
		case blank == 0, blank < indent:
			return nil
		case indent == 0:
			indent, start, startLine = blank, at, line
		case blank == indent && beginsKey(first[0]) && at-start >= size:
			parts = append(parts, part{data[start:at], startLine})
			start, startLine = at, line
		}
		at += len(text)
	}
	return append(parts, part{data[start:], startLine})
}

// beginsKey reports whether a key may begin so. One that is written after a question mark
// has its value in another line.
func beginsKey(c byte) bool { return 'a' <= c && c <= 'z' || c == '"' || c == '\'' }
